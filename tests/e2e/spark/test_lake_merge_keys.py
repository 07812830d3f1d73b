"""Merging by keys of every kind, and by sequences that are missing: no row is lost, and none is there twice."""

from __future__ import annotations

import datetime as dt
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.e2e.spark.test_lake_merge import RULE, SCHEMA, catalog_of, opened

from goqueue.pipeline.lake.compact import compact
from goqueue.pipeline.lake.merge import MergeRule, merge
from goqueue.pipeline.lake.table import Batch


@pytest.fixture(params=["delta", "iceberg"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def far_away(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose clock is not in UTC."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


def rows_of(kind: str, folder: Path) -> list[dict[str, Any]]:
    """In no order: keys may be missing."""
    if kind == "delta":
        from deltalake import DeltaTable

        found = DeltaTable(str(folder / "lake")).to_pyarrow_table()
    else:
        from pyiceberg.catalog import load_catalog

        found = load_catalog(**catalog_of(folder)).load_table("lake.rows").scan().to_arrow()
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def put(spark: Any, kind: str, folder: Path, number: int, *rows: tuple[Any, ...], schema: str = SCHEMA) -> None:
    rule = RULE if schema == SCHEMA else MergeRule(("id",), "seq")
    merge(opened(kind, folder), spark.createDataFrame(rows, schema).coalesce(1), Batch("q", number), rule)


def test_a_row_without_a_sequence_is_the_oldest_and_not_lost(spark: Any, kind: str, tmp_path: Path) -> None:
    put(spark, kind, tmp_path, 0, (1, "ada", None, "c"), (2, "ben", None, "c"), (2, "Ben", 1, "c"))

    assert {row["id"]: row["name"] for row in rows_of(kind, tmp_path)} == {1: "ada", 2: "Ben"}


def test_a_row_without_a_key_is_found_although_the_keys_beside_it_are_elsewhere(
    spark: Any, kind: str, tmp_path: Path
) -> None:
    put(spark, kind, tmp_path, 0, (None, "no key", 1, "c"), (100, "x", 1, "c"))

    put(spark, kind, tmp_path, 1, (None, "still one", 2, "c"), (5, "y", 2, "c"))

    found = sorted((str(row["id"]), row["name"]) for row in rows_of(kind, tmp_path))
    assert found == [("100", "x"), ("5", "y"), ("None", "still one")]


@pytest.mark.usefixtures("far_away")
def test_times_as_keys_are_found_on_a_machine_in_another_zone(spark: Any, kind: str, tmp_path: Path) -> None:
    schema = "id TIMESTAMP, name STRING, seq BIGINT"
    at = dt.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC)
    put(spark, kind, tmp_path, 0, (at, "ada", 1), schema=schema)

    put(spark, kind, tmp_path, 1, (at, "Ada", 2), schema=schema)

    assert [(row["id"], row["name"]) for row in rows_of(kind, tmp_path)] == [(at, "Ada")]


@pytest.mark.parametrize(
    ("sql", "one", "other"),
    [
        ("BINARY", bytearray(b"\x00\xff"), bytearray(b"\x01")),
        ("BOOLEAN", True, False),
        ("DATE", dt.date(2026, 1, 2), dt.date(2026, 1, 3)),
        ("DOUBLE", -0.5, 1e300),
        ("STRING", "Köln \U0001f600" * 40, ""),
    ],
)
def test_keys_of_many_types_are_merged_by(
    spark: Any, kind: str, tmp_path: Path, sql: str, one: Any, other: Any
) -> None:
    schema = f"id {sql}, name STRING, seq BIGINT"
    put(spark, kind, tmp_path, 0, (one, "ada", 1), schema=schema)

    put(spark, kind, tmp_path, 1, (one, "Ada", 2), (other, "ben", 2), schema=schema)

    assert sorted(row["name"] for row in rows_of(kind, tmp_path)) == ["Ada", "ben"]


def test_a_key_that_is_not_a_number_is_found_beside_higher_ones(spark: Any, kind: str, tmp_path: Path) -> None:
    schema = "id DOUBLE, name STRING, seq BIGINT"
    put(spark, kind, tmp_path, 0, (math.nan, "ada", 1), (1.0, "x", 1), schema=schema)

    put(spark, kind, tmp_path, 1, (math.nan, "Ada", 2), (5.0, "y", 2), (-0.0, "zero", 2), schema=schema)
    put(spark, kind, tmp_path, 2, (0.0, "Zero", 3), schema=schema)

    assert sorted(row["name"] for row in rows_of(kind, tmp_path)) == ["Ada", "Zero", "x", "y"]


def test_a_compaction_tells_those_who_follow_a_delta_table_that_no_row_has_changed(spark: Any, tmp_path: Path) -> None:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction, create_table_with_add_actions

    # Files of another writer, one of which does not tell how many rows it has.
    for name in ("a", "b"):
        pq.write_table(pa.table({"id": [name]}), tmp_path / f"{name}.parquet")
    create_table_with_add_actions(
        str(tmp_path),
        DeltaTable.create(str(tmp_path / "other"), pa.schema([("id", pa.string())])).schema(),
        [
            AddAction("a.parquet", (tmp_path / "a.parquet").stat().st_size, {}, 0, True, '{"numRecords": 1}'),
            AddAction("b.parquet", (tmp_path / "b.parquet").stat().st_size, {}, 0, True, "{}"),
        ],
    )
    from goqueue.pipeline.lake.delta import delta_table

    done = compact(spark, delta_table(str(tmp_path)), "maintain")

    assert (done.rewritten, done.files_after) == (2, 1)
    assert sorted(DeltaTable(str(tmp_path)).to_pyarrow_table()["id"].to_pylist()) == ["a", "b"]
    newest = max((tmp_path / "_delta_log").glob("*.json")).read_text()
    actions = [
        one for line in newest.splitlines() for name, one in json.loads(line).items() if name in ("add", "remove")
    ]
    assert [one["dataChange"] for one in actions] == [False] * 3
