"""The two brokers under test, as processes: the real one and the null one, and what they cost."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from tests.bench.kafka_load import PARTITIONS, TOPIC
from tests.e2e.kafka_raw import RawClient
from tests.e2e.process import BrokerProcess

DELETE_SECONDS_MAX = 30
LEFT_BYTES_MAX = 10_000_000


@contextmanager
def real_broker(directory: str | None, **settings: str) -> Iterator[BrokerProcess]:
    """GoQueue with its data in a new directory."""
    with tempfile.TemporaryDirectory(dir=directory) as home:
        broker = BrokerProcess(Path(home), environment=settings).start()
        try:
            yield broker
        finally:
            broker.stop()


@contextmanager
def null_broker(record_bytes: int, batch_records: int) -> Iterator[str]:
    """The ceiling; gives its address."""
    arguments = ["--record-bytes", str(record_bytes), "--batch-records", str(batch_records)]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.null_broker", *arguments], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield f"127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()


def fresh_topic(address: str) -> None:
    """The benchmark's topic, empty."""
    with RawClient(address) as client:
        client.call(20, 4, topic_names=[TOPIC], timeout=10_000)
        client.create_topic(TOPIC, PARTITIONS)


def wait_until_deleted(broker: BrokerProcess) -> None:
    """What the topic of the round before held is gone from the disk: removing it is not part of producing."""
    deadline = time.monotonic() + DELETE_SECONDS_MAX
    while _log_bytes(broker.data_dir) > LEFT_BYTES_MAX:
        if time.monotonic() > deadline:
            raise RuntimeError("the topic of the round before is still on the disk")
        time.sleep(0.05)


def _log_bytes(directory: Path) -> int:
    total = 0
    for file in directory.rglob("*.log"):
        # The very files that are waited for may go while they are looked at.
        with suppress(FileNotFoundError):
            total += file.stat().st_size
    return total


def stored_count(address: str) -> int:
    """How many records the broker has."""
    total = 0
    with RawClient(address) as client:
        for partition in range(PARTITIONS):
            asked = [{"name": TOPIC, "partitions": [{"partition_index": partition, "timestamp": -1}]}]
            reply = client.call(2, 5, replica_id=-1, topics=asked)
            total += reply["topics"][0]["partitions"][0]["offset"]
    return total


def records_per_batch(address: str) -> int:
    """How many records the client put into a stored batch: the null broker serves as many."""
    with RawClient(address) as client:
        records = client.fetch(TOPIC, max_bytes=1)["records"]
    return int.from_bytes(records[57:61], "big")


def rss_mib(pid: int) -> float:
    """Memory in RAM."""
    return float(psutil.Process(pid).memory_info().rss) / 2**20


def cpu_seconds(pid: int) -> float:
    """Processor time used so far."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


class Profile:
    """What a broker does while it is watched, by function."""

    def __init__(self, pid: int, seconds: float) -> None:
        self._file = tempfile.NamedTemporaryFile(suffix=".raw")  # noqa: SIM115 - lives as long as the profile
        command = ["py-spy", "record", "-p", str(pid), "-d", f"{seconds:.0f}", "-f", "raw", "-o", self._file.name]
        tool = Path(sys.executable).parent / "py-spy"
        self._process = subprocess.Popen(
            [str(tool), *command[1:]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def rows(self, count: int) -> list[tuple[str, float]]:
        """The functions in which most time was spent, with their share; empty where watching is not allowed."""
        if self._process.wait(60) != 0:
            return []
        shares: Counter[str] = Counter()
        for line in Path(self._file.name).read_text(encoding="utf-8").splitlines():
            stack, _, samples = line.rpartition(" ")
            function = stack.rpartition(";")[2]
            # A thread of the pool that waits for work looks busy from outside.
            if not function.startswith("_worker"):
                shares[function] += int(samples)
        total = sum(shares.values()) or 1
        return [(name, samples / total) for name, samples in shares.most_common(count)]
