"""A pipeline whose checkpoints and state lie in S3, by Hadoop's file system: killed, continued, exact; and refused."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.e2e.kafka_raw import RawClient
from tests.e2e.process import BrokerProcess
from tests.e2e.spark.command import Command, run
from tests.e2e.spark.connector_jars import JarsMissing, s3a_jars
from tests.s3_server import s3_environment, s3_server

from goqueue.backup.addresses import open_files

pytest.importorskip("moto", reason="needs moto[server]")
pytest.importorskip("s3fs", reason="needs s3fs")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

PIPELINE = """
name: stored
broker: {broker}
checkpoint: s3://lake/state
trigger: available-now
live: false
sources:
  events: {{topic: events, max_per_batch: 100}}
steps:
  - select: {{columns: ["CAST(value AS STRING) AS n"]}}
sinks:
  - delta: {{path: "s3://lake/table"}}
settings:
  spark.sql.shuffle.partitions: "2"
"""
SETTINGS = """  spark.jars: "{jars}"
  spark.hadoop.fs.s3a.endpoint: "{s3}"
  spark.hadoop.fs.s3a.path.style.access: "true"
  spark.hadoop.fs.s3a.connection.ssl.enabled: "false"
"""


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with s3_server("lake", "other") as address:
        yield address


@pytest.fixture
def environment(s3: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    found = s3_environment(s3)
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    return found


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path / "broker").start()
    with RawClient(process.kafka) as raw:
        raw.create_topic("events", 2)
    producer = Producer({"bootstrap.servers": process.kafka})
    for number in range(400):
        producer.produce("events", str(number), partition=number % 2)
    assert producer.flush(20) == 0
    yield process
    process.kill()


def test_a_pipeline_with_its_state_in_a_store_goes_on_after_a_kill(
    broker: BrokerProcess, environment: dict[str, str], tmp_path: Path
) -> None:
    from deltalake import DeltaTable

    try:
        jars = s3a_jars(Path(os.environ.get("GOQUEUE_S3A_JARS", tmp_path / "jars")))
    except JarsMissing as error:
        pytest.skip(str(error))
    file = tmp_path / "stored.yaml"
    settings = SETTINGS.format(jars=",".join(map(str, jars)), s3=environment["AWS_ENDPOINT_URL"])
    file.write_text(PIPELINE.format(broker=broker.kafka) + settings)
    mark = tmp_path / "mark"
    words = ("pipeline", "run", file, "--master", "local[2]")
    command = Command(tmp_path, *words, GOQUEUE_SPARK_STEPS=f"kill:lake-written:1:{mark}", **environment)
    try:
        command.until(mark.exists)
        command.wait()
    finally:
        command.kill()
    files, root = open_files("s3://lake/state")
    # As it is a minute later.
    lock = json.loads(files.cat_file(f"{root}/run.lock"))
    files.pipe_file(f"{root}/run.lock", json.dumps({**lock, "renewed_s": 0}).encode())

    run(tmp_path, *words)

    found = DeltaTable("s3://lake/table").to_pyarrow_table()["n"].to_pylist()
    assert sorted(map(int, found)) == list(range(400))
    files.invalidate_cache()
    kept = {name.removeprefix(f"{root}/") for name in files.find(root)}
    assert {"run.json", "delta.starts.json", "history.jsonl", "delta/metadata"} <= kept
    assert not [path for path in tmp_path.rglob("*") if path.name in ("offsets", "commits")]


def test_a_store_that_spark_cannot_open_is_refused_before_a_query_starts(
    broker: BrokerProcess, environment: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "stored.yaml"
    file.write_text(PIPELINE.format(broker=broker.kafka).replace("s3://lake", "s3://other"))
    command = Command(tmp_path, "pipeline", "run", file, "--master", "local[1]", **environment)
    try:
        assert command.wait() != 0
    finally:
        command.kill()

    assert "checkpoint: Spark cannot open s3a://other/state" in command.output
    assert "hadoop-aws" in command.output
    files, root = open_files("s3://other/state")
    assert files.find(root) == []
