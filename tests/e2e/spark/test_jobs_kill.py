"""Bulk jobs killed half-way, with everything they started: nothing half-done is left, and they can be run again.

A job is killed while it is held at a named step, or when the test sees the first traces of its work.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from tests.e2e.kafka_raw import RawClient
from tests.e2e.process import BrokerProcess
from tests.e2e.spark.command import Command, run
from tests.e2e.spark.kafka_truth import Row, truth

from goqueue.backup.files import verify_file
from goqueue.backup.store import BackupStore

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PARTITIONS = 24
MESSAGES = 24_000


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BrokerProcess]:
    """A broker with a topic that takes many tasks."""
    broker = BrokerProcess(tmp_path / "source").start()
    with RawClient(broker.kafka) as raw:
        raw.create_topic("events", PARTITIONS)
        raw.create_topic("copy", 2)
    producer = Producer({"bootstrap.servers": broker.kafka})
    for number in range(MESSAGES):
        producer.produce("events", key=str(number), value=f"value {number}", partition=number % PARTITIONS)
        producer.poll(0)
    assert producer.flush(30) == 0
    monkeypatch.setenv("GOQUEUE_SERVER", f"http://{broker.http}")
    yield broker
    broker.kill()


def everything(broker: BrokerProcess) -> list[Row]:
    return truth(broker.kafka, "events", PARTITIONS)


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def killed_at(step: str, folder: Path, *words: object) -> None:
    """Run a job until it reaches a step, and kill it there."""
    mark = folder / f"at-{step}"
    command = Command(folder, *words, GOQUEUE_SPARK_STEPS=f"hold:{step}:any:{mark}")
    command.until(mark.exists)
    command.kill()


def killed_when_there_is(pattern: str, folder: Path, *words: object) -> None:
    """Run a job, and kill it when a file of this pattern appears."""
    command = Command(folder, *words, "--master", "local[1]")
    command.until(lambda: next(folder.glob(pattern), None))
    assert not command.ended
    command.kill()


@pytest.mark.parametrize("when", ["while it copies", "before it is listed"])
def test_backup(home: BrokerProcess, tmp_path: Path, when: str) -> None:
    store = tmp_path / "store"
    words = ("jobs", "backup", "--data-dir", home.data_dir, "--to", store)

    if when == "while it copies":
        killed_when_there_is("store/objects/*/*", tmp_path, *words)
    else:
        killed_at("backup-copied", tmp_path, *words)
    assert not (store / "backups").exists()

    # Something that was being written when its process died.
    left = next(store.glob("objects/*/*")).with_suffix(".1.new")
    left.touch()
    run(tmp_path, *words)
    manifest = BackupStore(store).read()
    assert [problem for file in manifest.files if (problem := verify_file(file, str(store)))] == []
    assert not left.exists()
    assert len(list((store / "backups").iterdir())) == 1


@pytest.mark.parametrize("when", ["while it copies", "before it appears"])
def test_restore(home: BrokerProcess, tmp_path: Path, when: str) -> None:
    run(tmp_path, "jobs", "backup", "--data-dir", home.data_dir, "--to", tmp_path / "store")
    target = tmp_path / "target"
    target.mkdir()
    words = ("jobs", "restore", "--from", tmp_path / "store", "--data-dir", target / "data")

    if when == "while it copies":
        killed_when_there_is("target/data.restoring-*/logs/events/*", tmp_path, *words)
    else:
        killed_at("restore-laid", tmp_path, *words)
    assert "data" not in names_in(target)
    run(tmp_path, *words)

    assert names_in(target) == {"data"}
    copy = BrokerProcess(target).start()
    try:
        assert everything(copy) == everything(home)
    finally:
        copy.kill()


@pytest.mark.parametrize("when", ["while it writes", "before it appears"])
def test_export(home: BrokerProcess, tmp_path: Path, when: str) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    words = ("jobs", "export", "events", "--to", lake / "out", "--broker", home.kafka, "--format", "delta")

    if when == "while it writes":
        killed_when_there_is("lake/out.exporting-*/topic=events/*", tmp_path, *words)
    else:
        killed_at("export-written", tmp_path, *words)
    assert "out" not in names_in(lake)
    run(tmp_path, *words)

    from deltalake import DeltaTable

    assert names_in(lake) == {"out"}
    rows = DeltaTable(str(lake / "out")).to_pyarrow_table().select(["partition", "offset", "value"]).to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == [(row[0], row[1], row[4]) for row in everything(home)]


@pytest.mark.parametrize("step", ["export-moved", "export-added"])
def test_export_to_iceberg_killed_before_and_after_the_commit_of_the_table(
    home: BrokerProcess, tmp_path: Path, step: str
) -> None:
    uri, warehouse = f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/house"
    catalog = {"name": "test", "type": "sql", "uri": uri, "warehouse": warehouse}
    words = ["jobs", "export", "events", "--to", tmp_path / "out", "--broker", home.kafka, "--format", "iceberg"]
    words += [word for name, value in catalog.items() for word in ("--catalog", f"{name}={value}")]

    killed_at(step, tmp_path, *words)
    if step == "export-moved":
        run(tmp_path, *words)
    else:
        refused = Command(tmp_path, *words)
        assert refused.wait() == 1, refused.output
        assert "holds an export that is complete" in refused.output

    from pyiceberg.catalog import load_catalog

    table = load_catalog(**catalog).load_table("goqueue.export")
    assert table.scan().to_arrow().num_rows == MESSAGES
    assert names_in(tmp_path / "out") == {"_manifest.json", "topic=events"}
    files = json.loads((tmp_path / "out" / "_manifest.json").read_text())
    assert sum(pq.read_metadata(tmp_path / "out" / file["path"]).num_rows for file in files) == MESSAGES


@pytest.mark.parametrize("step", ["staged", "committing"])
def test_import(home: BrokerProcess, tmp_path: Path, step: str) -> None:
    rows = [{"id": number, "user": f"u{number % 7}"} for number in range(2000)]
    (tmp_path / "rows.json").write_text("\n".join(json.dumps(row) for row in rows))
    words = ("jobs", "import", tmp_path / "rows.json", "copy", "--key", "user", "--broker", home.kafka)

    killed_at(step, tmp_path, *words)
    assert truth(home.kafka, "copy", 2, "read_uncommitted")
    assert truth(home.kafka, "copy", 2) == []

    run(tmp_path, *words)

    found = [json.loads(row[4] or b"") for row in truth(home.kafka, "copy", 2)]
    assert sorted(row["id"] for row in found) == list(range(2000))
