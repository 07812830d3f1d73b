"""Values that tables are partitioned by: each row is written once, whatever its value."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="needs goqueue[spark]")
pytest.importorskip("pyspark", reason="needs goqueue[spark]")
pytest.importorskip("deltalake", reason="needs goqueue[lake]")
pytest.importorskip("pyiceberg.catalog", reason="needs goqueue[lake]")

from tests.unit.pipeline.lake.test_lake_append import data_files, frame, numbers, rows_of, writer  # noqa: E402

from goqueue.pipeline.errors import PipelineError  # noqa: E402


def test_numbers_that_equal_nothing_or_each_other_are_values_of_their_own(tmp_path: Path) -> None:
    shares = [math.nan, 0.0, -0.0, 1.5, math.nan, None]

    writer("delta", tmp_path, partition_by=["x"])(frame("query", *range(6), x=pa.array(shares)), 0)

    found = sorted(rows_of("delta", tmp_path).to_pylist(), key=lambda row: row["n"])
    assert [str(row["x"]) for row in found] == [str(one) for one in shares]
    assert len(data_files(tmp_path)) == 5


@pytest.mark.parametrize("share", [math.nan, -0.0], ids=["nan", "minus zero"])
def test_numbers_that_iceberg_cannot_be_partitioned_by_are_refused(share: float, tmp_path: Path) -> None:
    write = writer("iceberg", tmp_path, partition_by=["x"])
    with pytest.raises(PipelineError, match=r"column 'x' has NaN or -0\.0"):
        write(frame("query", 1, 2, 3, x=pa.array([share, 0.0, None])), 0)

    write(frame("query", 1, 2, 3, x=pa.array([1.0, 0.0, None])), 0)

    assert numbers(rows_of("iceberg", tmp_path)) == [1, 2, 3]


def test_a_delta_table_that_would_have_nothing_but_partitions_is_refused(tmp_path: Path) -> None:
    write = writer("delta", tmp_path, partition_by=["n"])

    with pytest.raises(PipelineError, match="partition_by: all columns of the rows are named"):
        write(frame("query", 1, 2), 0)


def test_an_empty_text_is_not_stored_as_a_missing_value(tmp_path: Path) -> None:
    rows = frame("query", 1, 2, 3, x=pa.array(["", "a", None]))
    with pytest.raises(PipelineError, match=r"column 'x' has an empty text, which a Delta table reads as null"):
        writer("delta", tmp_path, partition_by=["x"])(rows, 0)

    writer("iceberg", tmp_path, partition_by=["x"])(rows, 0)

    found = sorted(rows_of("iceberg", tmp_path).to_pylist(), key=lambda row: row["n"])
    assert [row["x"] for row in found] == ["", "a", None]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
@pytest.mark.parametrize(
    "values",
    [
        pa.array(["a/b", "..", "a=b", "%2F", "'", "\n", "é\U0001f600", "a/b", None]),
        pa.array([Decimal("1.10"), Decimal("0.05"), None, Decimal("1.10")], pa.decimal128(38, 2)),
        pa.array([dt.datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=dt.UTC), None], pa.timestamp("us", "UTC")),
        pa.array([dt.datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=dt.UTC).replace(tzinfo=None), None], pa.timestamp("us")),
        pa.array([dt.date(1, 1, 1), dt.date(9999, 12, 31), None]),
        pa.array([True, False, None, True]),
        pa.array([-(2**63), 2**63 - 1, None]),
    ],
    ids=["text", "decimal", "instant", "local time", "date", "boolean", "integer"],
)
def test_values_of_every_kind_are_found_again(kind: str, values: Any, tmp_path: Path) -> None:
    write = writer(kind, tmp_path, partition_by=["x"])
    write(frame("query", *range(len(values)), x=values), 0)

    found = sorted(rows_of(kind, tmp_path).to_pylist(), key=lambda row: row["n"])

    assert [row["x"] for row in found] == values.to_pylist()
