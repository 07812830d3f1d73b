"""`goqueue pipeline run` as a process: killed half-way, its planner killed, watched and stopped from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.e2e.kafka_raw import RawClient
from tests.e2e.process import BrokerProcess
from tests.e2e.spark.command import GOQUEUE, RUN_SECONDS_MAX, Command, children_of, run
from tests.e2e.spark.kafka_truth import truth

from goqueue.pipeline.examples import example_text
from goqueue.pipeline.examples.generate import generate

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

MESSAGES = 1500


@pytest.fixture
def events(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker with a topic of two partitions."""
    broker = BrokerProcess(tmp_path / "broker").start()
    with RawClient(broker.kafka) as raw:
        raw.create_topic("events", 2)
    produce(broker, MESSAGES)
    yield broker
    broker.kill()


def produce(broker: BrokerProcess, count: int, seed: int = 1) -> None:
    producer = Producer({"bootstrap.servers": broker.kafka})
    for row in generate("lake", count, bad_share=0, seed=seed):
        producer.produce("events", key=row["key"], value=row["value"])
    assert producer.flush(20) == 0


def lake_file(broker: BrokerProcess, folder: Path, sink: str, *, trigger: str, per_batch: int = 100) -> Path:
    """The example `lake` with small batches, and this sink."""
    text = example_text("lake").replace("127.0.0.1:9092", broker.kafka).replace("trigger: 5s", f"trigger: {trigger}")
    text = text.replace("{topic: events}", f"{{topic: events, max_per_batch: {per_batch}}}")
    text = text.replace("- delta: {name: table, path: ./lake/events, partition_by: [day]}", f"- {sink}")
    assert sink in text
    file = folder / "lake.yaml"
    file.write_text(text)
    return file


def catalog_of(folder: Path) -> dict[str, str]:
    uri, warehouse = f"sqlite:///{folder}/catalog.db", f"file://{folder}/house"
    return {"name": "test", "type": "sql", "uri": uri, "warehouse": warehouse}


def delta_rows(folder: Path) -> list[dict[str, Any]]:
    from deltalake import DeltaTable

    path = str(folder / "lake")
    return DeltaTable(path).to_pyarrow_table().to_pylist() if DeltaTable.is_deltatable(path) else []


def iceberg_rows(folder: Path) -> list[dict[str, Any]]:
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog(**catalog_of(folder))
    return (
        catalog.load_table("lake.events").scan().to_arrow().to_pylist() if catalog.table_exists("lake.events") else []
    )


@pytest.mark.parametrize(
    "when", ["before the commit", "between two commits", "a task with its files", "anywhere, and the broker too"]
)
@pytest.mark.parametrize(("kind", "rows"), [("delta", delta_rows), ("iceberg", iceberg_rows)])
def test_a_lake_table_is_exact_after_kills(
    events: BrokerProcess, tmp_path: Path, kind: str, rows: Callable[[Path], list[dict[str, Any]]], when: str
) -> None:
    catalog = json.dumps(catalog_of(tmp_path))
    place = f"path: {tmp_path}/lake" if kind == "delta" else f"table: lake.events, catalog: {catalog}"
    sink = f"{kind}: {{name: table, {place}}}"
    file = lake_file(events, tmp_path, sink, trigger="200ms")
    mark = tmp_path / "mark"
    steps = {"before the commit": "hold:lake-files", "a task with its files": "kill:lake-file"}

    order = f"{steps.get(when, 'hold:lake-written')}:2:{mark}"
    command = Command(tmp_path, "pipeline", "run", file, GOQUEUE_SPARK_STEPS=order)
    if when == "between two commits":
        # The table's, which has the batch now, and Spark's own: a plain sink would write the batch twice.
        command.until(mark.exists)
        command.kill()
        assert len(rows(tmp_path)) == 300
    elif when == "before the commit":
        command.until(mark.exists)
        command.kill()
        assert len(rows(tmp_path)) == 200
    elif when == "a task with its files":
        # Spark runs the task again; or the query falls, and is started again.
        command.until(lambda: len(rows(tmp_path)) >= 400, every_s=0.1)
        command.kill()
    else:
        command.until(lambda: rows(tmp_path), every_s=0.1)
        events.kill()
        command.kill()
        events.start()
    assert 0 < len(rows(tmp_path)) < MESSAGES
    run(tmp_path, "pipeline", "run", lake_file(events, tmp_path, sink, trigger="available-now"))

    found = sorted((row["partition"], row["offset"], row["key"], row["value"]) for row in rows(tmp_path))
    stored = [
        (row[0], row[1], (row[3] or b"").decode(), (row[4] or b"").decode()) for row in truth(events.kafka, "events", 2)
    ]
    assert len(found) == MESSAGES
    assert found == stored
    # Nothing is left of what the kills interrupted.
    assert sorted(tmp_path.rglob("*.parquet")) == sorted(files_of(kind, tmp_path))


def files_of(kind: str, folder: Path) -> list[Path]:
    """The files that the table has."""
    if kind == "delta":
        from deltalake import DeltaTable

        return [Path(one) for one in DeltaTable(str(folder / "lake")).file_uris()]
    from pyiceberg.catalog import load_catalog

    table = load_catalog(**catalog_of(folder)).load_table("lake.events")
    return [Path(task.file.file_path.removeprefix("file://")) for task in table.scan().plan_files()]


def test_a_run_survives_the_death_of_its_planner_and_is_watched_and_stopped_from_outside(
    events: BrokerProcess, tmp_path: Path
) -> None:
    file = lake_file(events, tmp_path, f"delta: {{name: table, path: {tmp_path}/lake}}", trigger="200ms")
    command = Command(tmp_path, "pipeline", "run", file)
    try:
        command.until(lambda: len(delta_rows(tmp_path)) == MESSAGES, every_s=0.2)
        told = ask(tmp_path, "status", file, "-o", "json")
        assert (told["running"], told["sinks"][0]["rows_written"]) == (True, MESSAGES)

        kill_planner(command)
        produce(events, 200, seed=2)
        command.until(lambda: len(delta_rows(tmp_path)) == MESSAGES + 200, every_s=0.2)
        deadline = time.monotonic() + RUN_SECONDS_MAX
        while (told := ask(tmp_path, "status", file, "-o", "json")["sinks"][0])["rows_written"] < MESSAGES + 200:
            assert time.monotonic() < deadline, told
        assert (told["restarts"], told["lag"]) == (1, {"events": 0})

        refused = Command(tmp_path, "pipeline", "run", file)
        assert refused.wait() == 1, refused.output
        assert f"it runs already, as process {command.pid}" in refused.output

        run(tmp_path, "pipeline", "stop", file)
        assert command.wait() == 0, command.output
        assert ask(tmp_path, "status", file, "-o", "json")["state"] == "stopped"
    finally:
        command.kill()
    places = [(row["partition"], row["offset"]) for row in delta_rows(tmp_path)]
    assert len(set(places)) == len(places) == MESSAGES + 200


def test_a_run_of_what_is_there_ends_although_its_planner_dies_after_the_last_batch(
    events: BrokerProcess, tmp_path: Path
) -> None:
    sink = f"delta: {{name: table, path: {tmp_path}/lake}}"
    file = lake_file(events, tmp_path, sink, trigger="available-now", per_batch=MESSAGES)
    written = tmp_path / "written"
    command = Command(tmp_path, "pipeline", "run", file, GOQUEUE_SPARK_STEPS=f"hold:lake-written:0:{written}")
    try:
        command.until(written.exists)
        kill_planner(command)
        Path(f"{written}.go").touch()

        # The query that is started again has nothing left to read.
        assert command.wait() == 0, command.output
    finally:
        command.kill()
    told = ask(tmp_path, "status", file, "-o", "json")
    assert (told["state"], told["sinks"][0]["restarts"]) == ("stopped", 1)
    assert len(delta_rows(tmp_path)) == MESSAGES


def kill_planner(command: Command) -> None:
    (planner,) = [pid for pid, line in children_of(command.pid) if "python_streaming_source_runner" in line]
    os.kill(planner, signal.SIGKILL)


def ask(folder: Path, *words: object) -> dict[str, Any]:
    """What a command of `goqueue pipeline` prints."""
    command = [str(GOQUEUE), "pipeline", *map(str, words)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
