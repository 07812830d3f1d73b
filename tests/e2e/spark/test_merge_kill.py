"""A topic of changes as a current table, killed at every step of every kind of table, and exact at the end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.kafka_raw import RawClient
from tests.e2e.process import BrokerProcess
from tests.e2e.spark.command import Command, run
from tests.e2e.spark.postgres_server import postgres_server
from tests.e2e.spark.test_lake_merge import PIPELINE, catalog_of, events, rows_of, send

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

STEPS = {
    "delta": ("lake-file", "lake-files", "lake-written"),
    "iceberg": ("lake-file", "lake-files", "lake-written"),
    "postgres": ("postgres-copy", "postgres-copied", "postgres-committed"),
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path / "broker").start()
    yield process
    process.kill()


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_lake_table_of_changes_is_exact_after_kills(kind: str, broker: BrokerProcess, tmp_path: Path) -> None:
    catalog = json.dumps(catalog_of(tmp_path))
    place = f"path: {tmp_path}/lake" if kind == "delta" else f"table: lake.rows, catalog: {catalog}"

    table = _killed_at_every_step(kind, f"{kind}: {{{place}, mode: cdc, keys: [id]}}", broker, tmp_path)

    assert rows_of(kind, tmp_path) == table


def test_a_database_table_of_changes_is_exact_after_kills(broker: BrokerProcess, tmp_path: Path) -> None:
    import psycopg

    with postgres_server() as url:
        sink = f"postgres: {{url: '{url}', table: customers, mode: cdc, keys: [id]}}"
        table = _killed_at_every_step("postgres", sink, broker, tmp_path)

        with psycopg.connect(url) as connection:
            found = connection.execute("SELECT * FROM customers ORDER BY id").fetchall()
            left = connection.execute("SELECT relname FROM pg_class WHERE relname LIKE 'goqueue_stage%'").fetchall()
    assert [{"id": one[0], "name": one[1], "city": one[2]} for one in found] == table
    assert left == []


def _killed_at_every_step(kind: str, sink: str, broker: BrokerProcess, home: Path) -> list[dict[str, Any]]:
    """The rows that must be there in the end."""
    with RawClient(broker.kafka) as raw:
        raw.create_topic("changes", 2)
        raw.create_topic("changes.bad", 1)
    sent, table = events(180)
    send(broker, "changes", sent)
    file = home / "customers.yaml"
    few_tasks = 'settings: {spark.sql.shuffle.partitions: "2"}\n'
    file.write_text(PIPELINE.format(broker=broker.kafka, home=home, topic="changes", sink=sink) + few_tasks)
    # The first step is one of an executor, whose death Spark mends; at the others the driver is killed.
    orders = [f"kill:{step}:{at + 1}:{home}/{step}" for at, step in enumerate(STEPS[kind])]
    for step in STEPS[kind][1:]:
        command = Command(home, "pipeline", "run", file, "--master", "local[2]", GOQUEUE_SPARK_STEPS=",".join(orders))
        try:
            command.until((home / step).exists)
            command.wait()
        finally:
            command.kill()
    assert all((home / step).exists() for step in STEPS[kind])
    run(home, "pipeline", "run", file, "--master", "local[2]")
    return [table[key] for key in sorted(table)]
