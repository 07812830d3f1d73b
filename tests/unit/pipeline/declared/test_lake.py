"""Lake tables as sinks: a batch is there once, however often Spark runs it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from goqueue.pipeline.declared.lake import WriteBatch, delta_writer, iceberg_writer
from goqueue.pipeline.errors import PipelineError

pa = pytest.importorskip("pyarrow", reason="needs goqueue[spark]")
deltalake = pytest.importorskip("deltalake", reason="needs goqueue[lake]")
pyiceberg_catalog = pytest.importorskip("pyiceberg.catalog", reason="needs goqueue[lake]")

Table = tuple[WriteBatch, Callable[[], list[int]]]


@pytest.fixture(params=["delta", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    """What writes a batch, and what reads all rows."""
    if request.param == "delta":
        path = str(tmp_path / "lake")
        return delta_writer(path, ()), lambda: numbers(deltalake.DeltaTable(path).to_pyarrow_table())
    settings = catalog_of(tmp_path)
    return iceberg_writer("lake.events", settings), lambda: numbers(iceberg(settings).scan().to_arrow())


def catalog_of(folder: Path) -> dict[str, str]:
    uri, warehouse = f"sqlite:///{folder}/catalog.db", f"file://{folder}/house"
    return {"name": "test", "type": "sql", "uri": uri, "warehouse": warehouse}


def iceberg(settings: dict[str, str]) -> Any:
    return pyiceberg_catalog.load_catalog(**settings).load_table("lake.events")


def numbers(rows: Any) -> list[int]:
    return sorted(rows["n"].to_pylist())


def frame(query: str | None, *rows: int) -> Any:
    """Rows of a batch, as the thread of a query sees them."""
    context = SimpleNamespace(getLocalProperty={"sql.streaming.queryId": query}.get)
    return SimpleNamespace(
        toArrow=lambda: pa.table({"n": pa.array(rows, pa.int64())}), sparkSession=SimpleNamespace(sparkContext=context)
    )


def test_a_batch_that_runs_again_is_not_written_again(table: Table) -> None:
    write, rows = table
    write(frame("query", 1, 2), 0)
    write(frame("query", 3), 1)

    write(frame("query", 3), 1)

    assert rows() == [1, 2, 3]


def test_batches_of_a_query_that_began_anew_count_although_their_numbers_were_used(table: Table) -> None:
    write, rows = table
    for batch in range(3):
        write(frame("before", batch), batch)

    write(frame("after its checkpoint was removed", 7), 0)

    assert rows() == [0, 1, 2, 7]


def test_two_queries_may_write_to_one_table(table: Table) -> None:
    write, rows = table
    for batch in range(2):
        write(frame("one", batch), batch)
        write(frame("other", 10 + batch), batch)
    write(frame("one", 1), 1)

    assert rows() == [0, 1, 10, 11]


def test_a_batch_is_known_after_its_snapshot_was_removed(tmp_path: Path) -> None:
    settings = catalog_of(tmp_path)
    write = iceberg_writer("lake.events", settings)
    write(frame("one", 1), 0)
    first = iceberg(settings).current_snapshot().snapshot_id
    write(frame("other", 2), 0)
    iceberg(settings).maintenance.expire_snapshots().by_id(first).commit()

    write(frame("one", 1), 0)

    assert numbers(iceberg(settings).scan().to_arrow()) == [1, 2]


def test_a_batch_of_no_query_is_refused(table: Table) -> None:
    write, _ = table
    with pytest.raises(PipelineError, match="does not tell which query"):
        write(frame(None, 1), 0)
