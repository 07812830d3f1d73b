"""Columns of lake tables: their types as Spark takes them, and which columns of a batch fit."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow", reason="needs goqueue[spark]")
pytest.importorskip("pyspark", reason="needs goqueue[spark]")
pytest.importorskip("deltalake", reason="needs goqueue[lake]")

from goqueue.pipeline.declared.form.sinks import DeltaSink  # noqa: E402
from goqueue.pipeline.declared.running.tables import merge_rule  # noqa: E402
from goqueue.pipeline.errors import PipelineError  # noqa: E402
from goqueue.pipeline.lake.delta import delta_table  # noqa: E402
from goqueue.pipeline.lake.iceberg import iceberg_table  # noqa: E402
from goqueue.pipeline.lake.table import Batch, TableMismatch, check_columns  # noqa: E402
from goqueue.pipeline.lake.types import plain_schema  # noqa: E402


def test_types_are_plain_at_every_depth() -> None:
    tags = pa.large_list(pa.field("element", pa.large_string(), nullable=False))
    place = pa.struct([pa.field("city", pa.large_string(), nullable=False), pa.field("tags", tags)])
    by_name = pa.map_(pa.large_string(), pa.field("value", pa.large_binary(), nullable=False))

    plain = plain_schema(pa.schema([pa.field("place", place, nullable=False), pa.field("by_name", by_name)]))

    assert plain.field("place").nullable
    assert plain.field("place").type == pa.struct(
        [("city", pa.string()), ("tags", pa.list_(pa.field("element", pa.string())))]
    )
    assert plain.field("by_name").type == pa.map_(pa.string(), pa.binary())


def test_a_column_that_differs_from_another_in_case_only_is_refused() -> None:
    table, rows = pa.schema([("id", pa.int64()), ("Town", pa.string())]), pa.schema([("town", pa.string())])

    with pytest.raises(TableMismatch, match="'town' differs only in case from 'Town' of the table: rename it"):
        check_columns(table, rows, add_columns=True)


@pytest.mark.parametrize("kind", [pa.binary(), pa.list_(pa.int32()), pa.struct([("a", pa.int32())])])
def test_a_table_that_cannot_be_divided_by_a_column_is_refused_before_rows_are_written(
    tmp_path: Path, kind: pa.DataType
) -> None:
    table = delta_table(str(tmp_path / "lake"), ["at"])

    with pytest.raises(PipelineError, match=r"partition_by: column 'at' is .*, by which no table can be divided"):
        table.prepare(pa.schema([("at", kind)]), add_columns=False)


@pytest.mark.parametrize(
    ("column", "partition_by", "told"),
    [
        (pa.int64(), ["nope"], "partition_by: Could not find field with name nope"),
        (pa.float64(), ["bucket(4, n)"], r"partition_by: bucket\[4\] cannot transform double values from n"),
        (pa.int16(), [], "column 'n' is int32 in the table and int16 in the rows: cast it"),
        (pa.duration("us"), [], r"Column 'n' has an unsupported type: duration\[us\], which Iceberg does not have"),
    ],
)
def test_an_iceberg_table_that_could_not_take_the_rows_is_not_made(
    tmp_path: Path, column: pa.DataType, partition_by: list[str], told: str
) -> None:
    pytest.importorskip("pyiceberg", reason="needs goqueue[lake]")
    uri, warehouse = f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/house"
    catalog = {"name": "test", "type": "sql", "uri": uri, "warehouse": warehouse}

    with pytest.raises(PipelineError, match=told):
        iceberg_table("lake.rows", catalog, partition_by).prepare(pa.schema([("n", column)]), add_columns=True)

    assert iceberg_table("lake.rows", catalog).schema is None


def test_of_the_columns_of_a_change_only_what_the_step_adds_is_not_stored() -> None:
    sink = DeltaSink(path="lake", mode="cdc", keys=["_id"])

    assert merge_rule(sink, ["_id", "_rev", "_op", "_sequence", "_changed_ms"]).not_stored == (
        "_op",
        "_sequence",
        "_changed_ms",
    )


@pytest.mark.parametrize("partition_by", [(), ("day(at)",)])
def test_times_of_a_session_in_another_zone_are_written_as_they_are(
    tmp_path: Path, partition_by: tuple[str, ...]
) -> None:
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/house"}
    table = iceberg_table("lake.visits", catalog, partition_by)
    utc, berlin = pa.timestamp("us", "UTC"), pa.timestamp("us", "Europe/Berlin")
    table.prepare(pa.schema([("at", utc), ("seen", pa.list_(pa.struct([("at", utc)])))]), add_columns=False)
    late = dt.datetime(2026, 1, 1, 23, 30, tzinfo=dt.UTC)
    kinds = pa.schema([("at", berlin), ("seen", pa.list_(pa.struct([("at", berlin)])))])
    rows = pa.RecordBatch.from_pylist([{"at": late, "seen": [{"at": late}]}], kinds)

    attempt = table.write_log().begin(Batch("query", 0))
    files = list(table.file_writer(attempt)(iter([rows])))
    table.commit(Batch("query", 0), attempt, files)

    table.refresh()
    (file,) = table.files({})
    assert [row for batch in table.file_reader(None)(file) for row in batch.to_pylist()] == [
        {"at": late, "seen": [{"at": late}]}
    ]
    assert ("at_day=2026-01-01" in file.path) == bool(partition_by)
