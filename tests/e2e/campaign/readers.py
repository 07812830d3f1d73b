"""Two readers of everything, over Kafka and over HTTP, and the files as `goqueue log verify` sees them."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition
from tests.e2e.http import Http

SECONDS_MAX = 120.0


class Row(NamedTuple):
    """A stored message."""

    partition: int
    offset: int
    timestamp_ms: int
    key: str
    value: bytes
    headers: dict[str, str]

    @property
    def place(self) -> tuple[int, int]:
        return self.partition, self.offset


def read_kafka(address: str, topic: str) -> list[Row]:
    """All that a committed reader sees, partition by partition, with checksums checked."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "campaign-reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "check.crcs": True,
            "log_level": 0,
        }
    )
    try:
        left = set(consumer.list_topics(topic, 20).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, one, 0) for one in left])
        rows: list[Row] = []
        deadline = time.monotonic() + SECONDS_MAX
        while left:
            assert time.monotonic() < deadline, f"no end of {topic}, partitions {left}; {len(rows)} messages came"
            for one in consumer.consume(1000, 0.2):
                if (problem := one.error()) is not None:
                    assert problem.code() == KafkaError._PARTITION_EOF, problem
                    left.discard(one.partition())
                    continue
                headers = {name: (text or b"").decode() for name, text in one.headers() or []}
                key = (one.key() or b"").decode()
                rows.append(Row(one.partition(), one.offset(), one.timestamp()[1], key, one.value() or b"", headers))
    finally:
        consumer.close()
    # Sorting is stable: what one partition's reader saw in the wrong order stays so.
    return sorted(rows, key=lambda row: row.partition)


def read_http(http: Http, topic: str) -> tuple[list[Row], list[Any]]:
    """The same over HTTP, and what the broker says it cannot read."""
    rows: list[Row] = []
    unreadable: list[Any] = []
    for partition in range(http.get(f"/topics/{topic}")["partitions"]):
        offset = 0
        while True:
            page = http.get(f"/topics/{topic}/partitions/{partition}/messages?offset={offset}&limit=10000")
            unreadable += page.get("unreadable", [])
            rows += [
                Row(
                    partition,
                    one["offset"],
                    one["timestamp"],
                    one.get("key") or "",
                    (one["value"] or "").encode(),
                    one.get("headers") or {},
                )
                for one in page["messages"]
            ]
            if page["next_offset"] == offset:
                break
            offset = page["next_offset"]
    return rows, unreadable


def verify_files(data_dir: Path) -> list[str]:
    """What is wrong with the files of a stopped broker."""
    command = [str(Path(sys.executable).parent / "goqueue"), "log", "verify", str(data_dir)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    is_sound = done.returncode == 0 and "no damage" in done.stdout
    return [] if is_sound else [f"log verify: exit code {done.returncode}: {done.stdout[-2000:]}{done.stderr[-500:]}"]
