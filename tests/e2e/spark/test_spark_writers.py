"""Delta and Iceberg tables that Spark itself writes, by their own jars on PySpark 4.1: once, also after a replay."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.e2e.kafka_raw import RawClient
from tests.e2e.process import BrokerProcess
from tests.e2e.spark.connector_jars import JarsMissing, lake_jars

PYTHONS = [one for one in os.environ.get("GOQUEUE_OLDER_SPARK", "").split() if "4.1" in one]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not PYTHONS, reason="make test-spark-older"),
]

PIPELINE = """
name: own
broker: {broker}
checkpoint: {home}/state
trigger: available-now
live: false
sources:
  events: {{topic: events, max_per_batch: 100}}
steps:
  - select: {{columns: ["CAST(CAST(value AS STRING) AS BIGINT) AS n", "partition"]}}
sinks:
  - delta: {{path: {home}/delta, writer: spark, partition_by: [partition]}}
  - iceberg: {{table: lake.db.rows, writer: spark, partition_by: [partition]}}
settings:
  spark.jars: "{jars}"
  spark.sql.extensions: io.delta.sql.DeltaSparkSessionExtension
  spark.sql.catalog.spark_catalog: org.apache.spark.sql.delta.catalog.DeltaCatalog
  spark.sql.catalog.lake: org.apache.iceberg.spark.SparkCatalog
  spark.sql.catalog.lake.type: hadoop
  spark.sql.catalog.lake.warehouse: {home}/house
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path / "broker").start()
    with RawClient(process.kafka) as raw:
        raw.create_topic("events", 2)
    yield process
    process.kill()


def send(broker: BrokerProcess, first: int, end: int) -> None:
    producer = Producer({"bootstrap.servers": broker.kafka})
    for number in range(first, end):
        producer.produce("events", str(number), partition=number % 2)
    assert producer.flush(20) == 0


def rows(home: Path) -> dict[str, list[int]]:
    from deltalake import DeltaTable
    from pyiceberg.table import StaticTable

    newest = max((home / "house/db/rows/metadata").glob("v*.metadata.json"), key=lambda one: int(one.name[1:-14]))
    found = {"delta": DeltaTable(str(home / "delta")).to_pyarrow_table()}
    found["iceberg"] = StaticTable.from_metadata(f"file://{newest}").scan().to_arrow()
    return {name: sorted(one["n"].to_pylist()) for name, one in found.items()}


def test_each_row_is_there_once_although_a_batch_runs_again(broker: BrokerProcess, tmp_path: Path) -> None:
    try:
        jars = lake_jars(Path(os.environ.get("GOQUEUE_LAKE_JARS", tmp_path / "jars")))
    except JarsMissing as error:
        pytest.skip(str(error))
    file = tmp_path / "own.yaml"
    file.write_text(PIPELINE.format(broker=broker.kafka, home=tmp_path, jars=",".join(map(str, jars))))

    def run() -> None:
        words = [PYTHONS[0], "-m", "goqueue", "pipeline", "run", str(file), "--master", "local[1]", "--quiet"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=400, check=False, cwd=tmp_path)
        assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"

    send(broker, 0, 250)
    run()
    for sink in ("delta", "iceberg"):
        # As after a kill between the commit of the table and that of Spark: the last batch runs again.
        batches = tmp_path / "state" / sink / "commits"
        last = max(int(one.name) for one in batches.iterdir() if one.name.isdigit())
        (batches / str(last)).unlink()
        (batches / f".{last}.crc").unlink(missing_ok=True)
    send(broker, 250, 300)

    run()
    # Before 4.2 a run of what is there is one batch, which was the one that ran again.
    run()

    for found in rows(tmp_path).values():
        assert [number for number, times in Counter(found).items() if times > 1] == []
        assert sorted(set(range(300)) - set(found)) == []
