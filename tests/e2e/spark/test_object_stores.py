"""Exports to and imports from an object store, on real Spark and a real S3 server process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.e2e.process import BrokerProcess
from tests.e2e.spark.command import Command, run
from tests.s3_server import s3_environment, s3_server

from goqueue.backup.addresses import open_files
from goqueue.errors import InvalidRequest
from goqueue.pipeline.backup import job
from goqueue.pipeline.jobs.export import LakeFormat, export
from goqueue.pipeline.jobs.import_files import FileFormat, import_files

pytest.importorskip("moto", reason="needs moto[server]")
pytest.importorskip("s3fs", reason="needs s3fs")
ROWS = 600


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with s3_server("lake") as address:
        yield address


@pytest.fixture
def environment(s3: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    found = s3_environment(s3)
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    return found


@pytest.fixture
def workers(spark: Any, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers of the session see the store as well; a user has these variables set before the session starts."""
    for name, value in environment.items():
        monkeypatch.setitem(spark.sparkContext.environment, name, value)


@pytest.fixture
def events(broker: BrokerProcess, topic: Callable[..., str]) -> str:
    name = topic(3)
    producer = Producer({"bootstrap.servers": broker.kafka, "compression.type": "zstd"})
    for number in range(ROWS):
        producer.produce(name, key=str(number), value=json.dumps({"n": number}), partition=number % 3)
    assert producer.flush(20) == 0
    return name


def silent(_done: int, _total: int) -> None:
    """No progress is shown."""


def names(address: str) -> set[str]:
    files, root = open_files(address)
    files.invalidate_cache()
    return {str(name).removeprefix(f"{root}/") for name in files.find(root)}


@pytest.mark.parametrize("lake", list(LakeFormat))
@pytest.mark.usefixtures("workers")
def test_an_export_is_a_table_in_the_store(
    lake: LakeFormat, spark: Any, broker: BrokerProcess, events: str, s3: str, tmp_path: Path
) -> None:
    to = f"s3a://lake/{events}-{lake}"
    options = {"subscribe": events, "kafka.bootstrap.servers": broker.kafka}
    catalog = {
        "name": "test",
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": "s3://lake/house",
        "s3.endpoint": s3,
    }

    done = export(spark, options, to, lake=lake, catalog=catalog, table="x.rows", show=silent)

    assert done.facts["rows"] == ROWS
    assert "_manifest.json" in names(to)
    assert not any(name.startswith("_exporting/") for name in names(to))
    assert sorted(_values(lake, to, catalog)) == sorted(json.dumps({"n": n}).encode() for n in range(ROWS))
    with pytest.raises(InvalidRequest, match="holds an export that is complete"):
        export(None, options, to, lake=lake, catalog=catalog, table="x.rows", show=silent)


def _values(lake: LakeFormat, to: str, catalog: dict[str, str]) -> list[bytes]:
    if lake is LakeFormat.DELTA:
        from deltalake import DeltaTable

        return list(DeltaTable(to.replace("s3a:", "s3:")).to_pyarrow_table()["value"].to_pylist())
    if lake is LakeFormat.ICEBERG:
        from pyiceberg.catalog import load_catalog

        return list(load_catalog(**catalog).load_table("x.rows").scan().to_arrow()["value"].to_pylist())
    import pyarrow.parquet as pq

    files, root = open_files(to)
    found = [pq.read_table(name, filesystem=files)["value"].to_pylist() for name in files.glob(f"{root}/**/*.parquet")]
    return [value for values in found for value in values]


@pytest.mark.usefixtures("workers")
def test_files_of_a_store_are_sent_to_a_topic_in_their_order(
    spark: Any, broker: BrokerProcess, topic: Callable[..., str], read: Callable[..., Any]
) -> None:
    target, address = topic(2), "s3://lake/in"
    files, root = open_files(address)
    for part in range(2):
        rows = [json.dumps({"id": n % 7, "n": part * 100 + n}) for n in range(100)]
        files.pipe_file(f"{root}/{part}.json", "\n".join(rows).encode())
    files.pipe_file(f"{root}/_SUCCESS", b"")
    options = {"kafka.bootstrap.servers": broker.kafka}

    done = import_files(spark, f"{address}/*.json", FileFormat.JSON, options, target, key="id")

    assert done.facts["rows"] == 200
    sent = [json.loads(row.value) for row in read(target).orderBy("partition", "offset").collect()]
    for key in range(7):
        of_key = [row["n"] for row in sent if row["id"] == key]
        assert of_key == sorted(of_key)
    assert len(sent) == 200
    with pytest.raises(InvalidRequest, match="there is nothing at s3://lake/nowhere"):
        import_files(spark, "s3://lake/nowhere", FileFormat.JSON, options, target)
    assert import_files(spark, address, FileFormat.JSON, options, target, dry_run=True).facts["rows"] == 200


@pytest.mark.usefixtures("workers")
def test_a_backup_by_spark_in_a_store_is_verified_and_restored(
    spark: Any, broker: BrokerProcess, events: str, tmp_path: Path
) -> None:
    target = f"s3://lake/backups-{events}"
    # As if it were stopped: the log's end may be cut off, which a backup of a stopped broker may see.
    job.backup(spark, broker.data_dir, target, ask_instant=lambda: None, show=silent)

    assert job.verify(spark, target, None, show=silent).problems == []
    report = job.restore(spark, target, None, tmp_path / "restored", show=silent)
    assert events in {row["topic"] for row in report.tables["Topics"]}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("step", ["export-task", "export-files"])
def test_an_export_that_was_killed_goes_on_with_what_it_has(
    step: str, broker: BrokerProcess, events: str, environment: dict[str, str], tmp_path: Path
) -> None:
    to = f"s3://lake/killed-{step}"
    words = (
        "jobs",
        "export",
        events,
        "--to",
        to,
        "--broker",
        broker.kafka,
        "--format",
        "delta",
        "--master",
        "local[1]",
    )
    mark = tmp_path / "mark"
    command = Command(tmp_path, *words, GOQUEUE_SPARK_STEPS=f"hold:{step}:any:{mark}", **environment)
    command.until(mark.exists)
    command.kill()
    assert "_manifest.json" not in names(to)
    finished = {name for name in names(to) if name.startswith("_exporting/") and name.endswith(".json")}
    assert finished
    # What a task that did not finish left behind.
    files, root = open_files(to)
    files.pipe_file(f"{root}/topic=old/partition=0/day=2020-01-01/0.parquet", b"torn")

    run(tmp_path, *words)

    assert "topic=old/partition=0/day=2020-01-01/0.parquet" not in names(to)
    assert sorted(_values(LakeFormat.DELTA, to, {})) == sorted(json.dumps({"n": n}).encode() for n in range(ROWS))
