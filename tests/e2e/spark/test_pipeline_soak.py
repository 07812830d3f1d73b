"""A pipeline that runs for many minutes while messages keep coming: lag, memory and state stay as they are.

`make soak-spark MINUTES=30` runs it; without a number it takes five minutes. What is compared is the second half
with the quarter before it: in the first quarter the JVM compiles, and the first windows fill the state.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import psutil
import pytest
from confluent_kafka import Producer
from tests.e2e.kafka_raw import RawClient
from tests.e2e.process import BrokerProcess
from tests.e2e.spark.command import Command, run
from tests.e2e.spark.kafka_truth import truth

MINUTES = float(os.environ.get("MINUTES", "5"))
SAMPLE_SECONDS = 5.0
# Every row is sent twice, the second time a little later: the pipeline writes it once.
ROWS_A_SECOND = 100
GROWTH_MAX = 1.15
LAG_MAX = 60 * ROWS_A_SECOND

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60 * MINUTES + 420)]

PIPELINE = """
name: soak
broker: {broker}
checkpoint: {home}/state
trigger: 1s
dead_letters: bad
settings: {{spark.sql.shuffle.partitions: "2", spark.driver.memory: 700m}}
sources:
  events: {{topic: events}}
steps:
  - parse: {{schema: "id BIGINT, at TIMESTAMP"}}
  - deduplicate: {{keys: [id], time: at, watermark: 20s}}
sinks:
  - topic: {{name: once, topic: out, key: id}}
"""


class Sample(NamedTuple):
    """The pipeline at one moment; memory is that of driver, JVM and Python workers together."""

    minutes: float
    memory_mb: float
    lag: int
    state_rows: int
    state_kb: float
    batch: int


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path / "broker").start()
    with RawClient(process.kafka) as raw:
        for topic in ("events", "out", "bad"):
            raw.create_topic(topic, 1)
    yield process
    process.kill()


class Load(threading.Thread):
    """Sends rows at a steady rate until it is told to end; each of them twice."""

    def __init__(self, broker: BrokerProcess) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({"bootstrap.servers": broker.kafka, "linger.ms": 50})
        self._ends = threading.Event()
        self.rows = 0

    def run(self) -> None:
        began = time.monotonic()
        while not self._ends.wait(0.1):
            due = int((time.monotonic() - began) * ROWS_A_SECOND)
            for number in range(self.rows, due):
                at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                for _ in range(2):
                    self._producer.produce("events", key=str(number), value=json.dumps({"id": number, "at": at}))
            self.rows = due
            self._producer.poll(0)

    def end(self) -> None:
        self._ends.set()
        self.join()
        assert self._producer.flush(30) == 0


def test_lag_memory_and_state_stay_flat(broker: BrokerProcess, tmp_path: Path) -> None:
    file = tmp_path / "soak.yaml"
    file.write_text(PIPELINE.format(broker=broker.kafka, home=tmp_path))
    load, samples = Load(broker), []
    command = Command(tmp_path, "pipeline", "run", file, "--master", "local[2]", "--quiet")
    try:
        load.start()
        command.until(lambda: _sinks(tmp_path), every_s=0.5)
        began = time.monotonic()
        print(f"\n{'minutes':>8} {'MB':>8} {'lag':>8} {'state rows':>10} {'state KB':>9} {'batch':>6}")
        while (passed := time.monotonic() - began) < 60 * MINUTES:
            time.sleep(SAMPLE_SECONDS)
            assert not command.ended, command.output
            samples.append(_sample(command, tmp_path, passed / 60))
            print("{:8.2f} {:8.1f} {:8d} {:10d} {:9.1f} {:6d}".format(*samples[-1]), flush=True)
        load.end()
        run(tmp_path, "pipeline", "stop", file)
        assert command.wait() == 0, command.output
    finally:
        load.end()
        command.kill()
    # What came since the last batch is taken by a run that ends.
    file.write_text(file.read_text().replace("trigger: 1s", "trigger: available-now"))
    run(tmp_path, "pipeline", "run", file, "--master", "local[2]", "--quiet")

    written = sorted(int(row[3] or b"-1") for row in truth(broker.kafka, "out"))
    assert written == list(range(load.rows))
    _check_flat(samples)


def _check_flat(samples: Sequence[Sample]) -> None:
    quarter = len(samples) // 4
    before, after = samples[quarter : 2 * quarter], samples[2 * quarter :]
    for name in ("memory_mb", "state_rows", "state_kb"):
        early, late = (median(getattr(one, name) for one in part) for part in (before, after))
        print(f"{name}: {early:.1f} in the second quarter, {late:.1f} in the second half")
        assert late <= early * GROWTH_MAX, name
    print(f"lag: {median(one.lag for one in before)}, then {median(one.lag for one in after)}")
    assert median(one.lag for one in after) <= LAG_MAX


def _sinks(home: Path) -> list[dict[str, object]]:
    """Of the sink that was told last; none before its first batch."""
    try:
        told = json.loads((home / "state" / "run.json").read_text())["sinks"]
    except (OSError, ValueError):
        return []
    return [one for one in told if one["sink"] == "once" and one["batch"] > 0]


def _sample(command: Command, home: Path, minutes: float) -> Sample:
    (sink,) = _sinks(home)
    process = psutil.Process(command.pid)
    memory = 0
    for one in (process, *process.children(recursive=True)):
        try:
            # Shared pages once: workers are forks of one another.
            memory += one.memory_full_info().pss
        except psutil.NoSuchProcess:
            continue
    lag = sum(sink["lag"].values())  # type: ignore[attr-defined]
    rows, state = int(str(sink["state_rows"])), int(str(sink["state_bytes"])) / 1024
    return Sample(minutes, memory / 2**20, lag, rows, state, int(str(sink["batch"])))
