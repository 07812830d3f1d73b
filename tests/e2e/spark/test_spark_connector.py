"""Spark's own Kafka connector on our Kafka port, case by case beside our source and sink, if its jar can be had."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.e2e.kafka_raw import RawClient
from tests.e2e.process import BrokerProcess
from tests.e2e.spark.command import RUN_SECONDS_MAX
from tests.e2e.spark.kafka_truth import transactional, truth

pytest.importorskip("pyspark", reason="needs goqueue[spark]")

from tests.e2e.spark.connector_cases import MIDDLE_MS, READING, WRITING, by_name
from tests.e2e.spark.connector_jars import JarsMissing, connector_jars

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

JOB = Path(__file__).with_name("connector_job.py")
PLAIN_ROWS = 1000


@pytest.fixture
def jars(tmp_path: Path) -> list[Path]:
    """Fetched once a run, or kept in the folder that GOQUEUE_CONNECTOR_JARS names."""
    try:
        return connector_jars(Path(os.environ.get("GOQUEUE_CONNECTOR_JARS", tmp_path / "jars")))
    except JarsMissing as error:
        pytest.skip(str(error))


def _fill(broker: BrokerProcess) -> None:
    partitions = {"plain": 2, "packed": 2, "odd": 1, "transactions": 1, "cut": 1, "empty": 1}
    with RawClient(broker.kafka) as raw:
        for topic, count in partitions.items():
            # Their records say times long past.
            raw.create_topic(topic, count, retention_ms="-1")
        raw.create_topic("compacted", 1, cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.01")
        for number in range(len(WRITING)):
            for name in ("ours", "theirs"):
                raw.create_topic(f"{name}-{number}", 3)
    producer = Producer({"bootstrap.servers": broker.kafka})
    for number in range(PLAIN_ROWS):
        headers: list[Any] = [("h", b"%d" % number), ("none", None)] if number % 2 else []
        key = b"key %d" % number if number % 3 else None
        at = MIDDLE_MS + (number - PLAIN_ROWS // 2) * 1000
        producer.produce("plain", b"value %d" % number, key, partition=number % 2, timestamp=at, headers=headers)
    for key, value in [(None, b"v"), (b"k", None), (b"", b""), (None, None), ("ü".encode(), b"\x00\xff")]:
        producer.produce("odd", value, key, headers=[("a", b""), ("a", b"2")])
    for number in range(200):
        producer.produce("compacted", None if number % 17 == 0 else b"%d" % number, b"%d" % (number % 20))
        producer.produce("cut", b"%d" % number)
    assert producer.flush(20) == 0
    for kind in ("none", "gzip", "snappy", "lz4", "zstd"):
        packing = Producer({"bootstrap.servers": broker.kafka, "compression.type": kind, "linger.ms": 20})
        for number in range(100):
            packing.produce("packed", f"{kind} {number}" * 5, kind, partition=number % 2)
        assert packing.flush(20) == 0
    for number, commits in enumerate([True, False, True]):
        sending = transactional(broker.kafka, f"job-{number}")
        for one in range(50):
            sending.produce("transactions", b"%d of %d" % (one, number), partition=0)
        sending.flush(10)
        sending.commit_transaction(10) if commits else sending.abort_transaction(10)
    admin = AdminClient({"bootstrap.servers": broker.kafka})
    for one in admin.delete_records([TopicPartition("cut", 0, 120)]).values():
        one.result(20)


def test_our_source_and_sink_do_what_sparks_connector_does_in_every_case(
    start_broker: Callable[[], BrokerProcess], jars: list[Path]
) -> None:
    broker = start_broker()
    _fill(broker)

    job = subprocess.run(
        [sys.executable, str(JOB), ",".join(map(str, jars)), broker.kafka],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX * 6,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )

    assert job.returncode == 0, job.stdout[-2000:] + job.stderr[-3000:]
    told = by_name([json.loads(line) for line in job.stdout.splitlines() if line.startswith("{")])
    wrong = [told[case.name] for case in READING if not _agrees(told[case.name], refused=case.refused)]
    assert wrong == [], "\n".join(map(str, wrong))
    for number, writing in enumerate(WRITING):
        found = told[writing.name]
        if writing.refused:
            assert all(str(found[name]).startswith("refused") for name in ("ours", "theirs")), found
            continue
        assert (found["ours"], found["theirs"]) == (None, None), found
        ours, theirs = (_written(broker.kafka, f"{name}-{number}") for name in ("ours", "theirs"))
        assert len(ours) == 60
        if "partition" not in writing.query:
            # Rows of one key are in one partition with either; which one is the topic's partitioner's choice.
            ours, theirs = ([row[1:] for row in rows] for rows in (ours, theirs))
        assert sorted(ours, key=repr) == sorted(theirs, key=repr), writing.name
    assert told["stream"]["ours"][:2] == told["stream"]["theirs"][:2] == [PLAIN_ROWS, PLAIN_ROWS]
    assert all(told["stream"][name][2] <= 100 for name in ("ours", "theirs"))


def _agrees(found: dict[str, Any], *, refused: bool) -> bool:
    if refused:
        return all(str(found[name]).startswith("refused") for name in ("ours", "theirs"))
    return (found.get("different"), found.get("schema")) == (0, True)


def _written(address: str, topic: str) -> list[Any]:
    return [(row[0], row[3], row[4], row[5]) for row in truth(address, topic, 3)]
