"""Lake tables as sinks: a batch is there once, however often Spark runs it, and kills leave no files behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from goqueue.pipeline.errors import PipelineError

pa = pytest.importorskip("pyarrow", reason="needs goqueue[spark]")
pytest.importorskip("pyspark", reason="needs goqueue[spark]")
deltalake = pytest.importorskip("deltalake", reason="needs goqueue[lake]")
pyiceberg_catalog = pytest.importorskip("pyiceberg.catalog", reason="needs goqueue[lake]")

from goqueue.pipeline.declared.form.sinks import DeltaSink, IcebergSink  # noqa: E402
from goqueue.pipeline.declared.running.tables import lake_writer, of_query  # noqa: E402

WriteBatch = Callable[[Any, int], None]
Table = tuple[WriteBatch, Callable[[], list[int]]]


def catalog_of(folder: Path) -> dict[str, str]:
    uri, warehouse = f"sqlite:///{folder}/catalog.db", f"file://{folder}/house"
    return {"name": "test", "type": "sql", "uri": uri, "warehouse": warehouse}


def iceberg(folder: Path) -> Any:
    return pyiceberg_catalog.load_catalog(**catalog_of(folder)).load_table("lake.events")


def rows_of(kind: str, folder: Path) -> Any:
    if kind == "delta":
        return deltalake.DeltaTable(str(folder / "lake")).to_pyarrow_table()
    return iceberg(folder).scan().to_arrow()


def writer(kind: str, folder: Path, **words: Any) -> WriteBatch:
    if kind == "delta":
        return of_query(lake_writer(DeltaSink(path=str(folder / "lake"), **words)), "")
    return of_query(lake_writer(IcebergSink(table="lake.events", catalog=catalog_of(folder), **words)), "")


@pytest.fixture(params=["delta", "iceberg"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def table(kind: str, tmp_path: Path) -> Table:
    """What writes a batch, and what reads all rows."""
    return writer(kind, tmp_path), lambda: numbers(rows_of(kind, tmp_path))


def numbers(rows: Any) -> list[int]:
    return sorted(rows["n"].to_pylist())


def frame(query: str | None, *rows: int, **more: Any) -> Any:
    """Rows of a batch, as the thread of a query sees them; tasks run in this process."""
    from pyspark.sql.pandas.types import from_arrow_schema

    data = pa.table({"n": pa.array(rows, pa.int64()), **more})

    def map_in_arrow(task: Any, _schema: str) -> Any:
        done = [one for one in task(iter(data.to_batches())) for one in one["file"].to_pylist()]
        return SimpleNamespace(collect=lambda: [SimpleNamespace(file=one) for one in done])

    context = SimpleNamespace(getLocalProperty={"sql.streaming.queryId": query}.get)
    return SimpleNamespace(
        mapInArrow=map_in_arrow,
        schema=from_arrow_schema(data.schema),
        columns=data.column_names,
        sparkSession=SimpleNamespace(sparkContext=context),
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


def test_two_queries_may_write_to_one_table(kind: str, tmp_path: Path) -> None:
    # Each with a look at the table of its own, which is old by the time that it commits.
    one, other = writer(kind, tmp_path), writer(kind, tmp_path)
    for batch in range(2):
        one(frame("one", batch), batch)
        other(frame("other", 10 + batch), batch)
    one(frame("one", 1), 1)

    assert numbers(rows_of(kind, tmp_path)) == [0, 1, 10, 11]


def test_a_batch_is_known_after_its_snapshot_was_removed(tmp_path: Path) -> None:
    write = writer("iceberg", tmp_path)
    write(frame("one", 1), 0)
    first = iceberg(tmp_path).current_snapshot().snapshot_id
    write(frame("other", 2), 0)
    iceberg(tmp_path).maintenance.expire_snapshots().by_id(first).commit()

    write(frame("one", 1), 0)

    assert numbers(iceberg(tmp_path).scan().to_arrow()) == [1, 2]


def test_a_batch_of_no_query_is_refused(table: Table) -> None:
    write, _ = table
    with pytest.raises(PipelineError, match="does not tell which query"):
        write(frame(None, 1), 0)


def test_a_commit_that_failed_leaves_files_that_the_next_run_removes(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer(kind, tmp_path)(frame("query", 1), 0)
    end_before_the_commit(writer(kind, tmp_path), frame("query", 2), 1, monkeypatch)
    assert len(data_files(tmp_path)) == 2

    writer(kind, tmp_path)(frame("query", 2), 1)

    assert numbers(rows_of(kind, tmp_path)) == [1, 2]
    assert len(data_files(tmp_path)) == 2
    assert notes(tmp_path) == []


def test_files_of_a_first_batch_that_failed_are_removed_too(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end_before_the_commit(writer(kind, tmp_path), frame("query", 1), 0, monkeypatch)
    assert len(data_files(tmp_path)) == 1

    writer(kind, tmp_path)(frame("query", 1), 0)

    assert numbers(rows_of(kind, tmp_path)) == [1]
    assert len(data_files(tmp_path)) == 1
    assert notes(tmp_path) == []


def end_before_the_commit(
    write: WriteBatch, rows: Any, batch: int, monkeypatch: pytest.MonkeyPatch, *, at: str = "lake-files"
) -> None:
    def stop(step: str, _batch: int) -> None:
        if step == at:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("goqueue.pipeline.lake.append.reached", stop)
        with pytest.raises(KeyboardInterrupt):
            write(rows, batch)


def data_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.parquet"))


def notes(folder: Path) -> list[Path]:
    """What was announced and not forgotten."""
    return [
        one for one in folder.rglob("*") if one.is_file() and ("_goqueue" in str(one) or "goqueue-writes" in str(one))
    ]


def test_rows_are_divided_by_partition_columns_and_keep_missing_and_odd_values(kind: str, tmp_path: Path) -> None:
    towns = ["Köln", None, "a/b c", "Köln"]
    by = ["town"] if kind == "delta" else ["town", "bucket(2, n)"]
    write = writer(kind, tmp_path, partition_by=by)
    write(frame("query", 1, 2, 3, 4, town=pa.array(towns)), 0)

    found = {row["n"]: row["town"] for row in rows_of(kind, tmp_path).to_pylist()}

    assert found == dict(enumerate(towns, 1))


def test_a_new_column_is_refused_until_it_is_allowed(kind: str, tmp_path: Path) -> None:
    writer(kind, tmp_path)(frame("query", 1), 0)
    wider = frame("query", 2, colour=pa.array(["red"]))

    with pytest.raises(PipelineError, match="no column 'colour': add `add_columns: true`"):
        writer(kind, tmp_path)(wider, 1)
    writer(kind, tmp_path, add_columns=True)(wider, 1)

    rows = sorted(rows_of(kind, tmp_path).to_pylist(), key=lambda row: row["n"])
    assert rows == [{"n": 1, "colour": None}, {"n": 2, "colour": "red"}]


def test_a_column_of_another_type_is_refused(kind: str, tmp_path: Path) -> None:
    writer(kind, tmp_path)(frame("query", 1, v=pa.array(["text"])), 0)

    with pytest.raises(PipelineError, match=r"column 'v' is .*string in the table and double in the rows: cast it"):
        writer(kind, tmp_path)(frame("query", 2, v=pa.array([1.5])), 1)


def test_statistics_of_files_hold_and_leave_out_files(tmp_path: Path) -> None:
    import datetime as dt

    at = dt.datetime(2026, 1, 1, 10, 0, 0, 123456, tzinfo=dt.UTC)
    more = {
        "at": pa.array([at, None], pa.timestamp("us", "UTC")),
        "text": pa.array(["x" * 100, "a"]),
        "share": pa.array([0.5, float("nan")]),
    }
    writer("delta", tmp_path)(frame("query", 1, 5, **more), 0)
    table = deltalake.DeltaTable(str(tmp_path / "lake"))

    (action,) = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    assert (action["num_records"], action["min.n"], action["max.n"], action["null_count.at"]) == (2, 1, 5, 1)
    assert action["min.at"] <= at <= action["max.at"]
    assert action["max.text"] > "x" * 100
    dataset = table.to_pyarrow_dataset()
    import pyarrow.compute as pc

    assert dataset.to_table(filter=pc.field("n") == 5).num_rows == 1
    assert dataset.to_table(filter=pc.field("at") == pa.scalar(at)).num_rows == 1


def test_a_column_that_the_rows_lack_has_no_value(kind: str, tmp_path: Path) -> None:
    writer(kind, tmp_path)(frame("query", 1, colour=pa.array(["red"])), 0)

    writer(kind, tmp_path)(frame("query", 2), 1)

    assert {row["n"]: row["colour"] for row in rows_of(kind, tmp_path).to_pylist()} == {1: "red", 2: None}


def test_files_of_many_partitions_hold_back_no_more_than_one_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow.parquet as pq

    from goqueue.pipeline.lake import partitioned
    from goqueue.pipeline.lake.stores import table_folder

    monkeypatch.setattr(partitioned, "_WAITING_BYTES_MAX", 50_000)

    def batches() -> Any:
        for first in range(0, 400, 20):
            rows = range(first, first + 20)
            towns = pa.array([f"town {n % 20}" for n in rows])
            columns = [pa.array(rows, pa.int64()), towns, pa.array(["x" * 2000] * 20)]
            yield pa.RecordBatch.from_arrays(columns, ["n", "town", "text"])

    files = table_folder(str(tmp_path), {})
    done = list(partitioned.write_partitioned(files, batches(), ["town"], prefix="0", announce=lambda _path: None))

    assert (len(done), sum(file.rows for file in done)) == (20, 400)
    assert sum(pq.ParquetFile(tmp_path / file.path).num_row_groups for file in done) > 20
    assert [row["n"] for row in pq.read_table(tmp_path).sort_by("n").to_pylist()] == list(range(400))


def test_files_of_another_writer_are_read_and_replaced_whatever_their_partition_is_called(tmp_path: Path) -> None:
    from goqueue.pipeline.lake.delta import delta_table
    from goqueue.pipeline.lake.table import Batch

    folder, towns = str(tmp_path / "lake"), ["a b", "Köln/x%20", None, "plain"]
    for number in range(2):
        rows = pa.table({"n": pa.array(range(4 * number, 4 * number + 4), pa.int64()), "die Stadt": towns})
        deltalake.write_deltalake(folder, rows, mode="append", partition_by=["die Stadt"])
    before = rows_of("delta", tmp_path)
    table = delta_table(folder)
    old = table.files({})

    attempt = table.write_log().begin(Batch("compaction", 0))
    again = iter([batch for file in old for batch in table.file_reader(None)(file)])
    added = list(table.file_writer(attempt)(again))
    table.commit(Batch("compaction", 0), attempt, added, old)

    assert rows_of("delta", tmp_path).sort_by("n").equals(before.sort_by("n"))
    assert delta_table(folder).paths() == {file.path for file in added}
    assert len(added) == 4
