"""Spark's own Kafka connector works on our Kafka port and sees what our source sees, if its jar can be had."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.kafka_clients import Confluent, Sent
from tests.e2e.kafka_raw import RawClient
from tests.e2e.spark.kafka_truth import transactional, truth

pytest.importorskip("pyspark", reason="needs goqueue[spark]")

from tests.e2e.spark.connector_jars import JarsMissing, connector_jars

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

JOB = Path(__file__).with_name("connector_job.py")


@pytest.fixture
def jars(tmp_path) -> list[Path]:
    """Fetched once a run, or kept in the folder that GOQUEUE_CONNECTOR_JARS names."""
    try:
        return connector_jars(Path(os.environ.get("GOQUEUE_CONNECTOR_JARS", tmp_path / "jars")))
    except JarsMissing as error:
        pytest.skip(str(error))


def test_sparks_kafka_connector_reads_and_writes_as_we_do(start_broker, jars):
    broker = start_broker()
    with RawClient(broker.kafka) as raw:
        raw.create_topic("from", 2)
        raw.create_topic("to", 1)
    messages = [
        Sent(b"value %d" % n, b"key %d" % n if n % 3 else None, (("h", b"%d" % n),) * (n % 2), partition=n % 2)
        for n in range(2000)
    ]
    Confluent().produce(broker.kafka, "from", messages, compression="lz4")
    for number, commits in enumerate([True, False]):
        producer = transactional(broker.kafka, f"job-{number}")
        for one in range(50):
            producer.produce("from", b"transactional %d" % one, partition=0)
        producer.flush(10)
        producer.commit_transaction(10) if commits else producer.abort_transaction(10)

    job = subprocess.run(
        [sys.executable, str(JOB), ",".join(map(str, jars)), broker.kafka, "from", "to"],
        capture_output=True,
        text=True,
        timeout=400,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )

    assert job.returncode == 0, job.stderr[-3000:]
    assert "theirs 2050 ours 2050" in job.stdout
    assert "different 0" in job.stdout
    assert len(truth(broker.kafka, "to")) == 2050
