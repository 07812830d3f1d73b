"""Tables that others change, replace or restore: no row is lost, doubled, or comes back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="needs goqueue[spark]")
pytest.importorskip("pyspark", reason="needs goqueue[spark]")
deltalake = pytest.importorskip("deltalake", reason="needs goqueue[lake]")
pytest.importorskip("pyiceberg.catalog", reason="needs goqueue[lake]")

from tests.unit.pipeline.lake.iceberg_deletes import delete_first_row  # noqa: E402
from tests.unit.pipeline.lake.test_lake_append import (  # noqa: E402
    catalog_of,
    data_files,
    end_before_the_commit,
    frame,
    iceberg,
    notes,
    numbers,
    pyiceberg_catalog,
    rows_of,
    writer,
)

from goqueue.pipeline.errors import PipelineError  # noqa: E402
from goqueue.pipeline.lake.compact import compact  # noqa: E402
from goqueue.pipeline.lake.delta import delta_table  # noqa: E402
from goqueue.pipeline.lake.iceberg import iceberg_table  # noqa: E402
from goqueue.pipeline.lake.table import Batch, StaleBatch  # noqa: E402


@pytest.fixture(params=["delta", "iceberg"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def opened(kind: str, folder: Path) -> Any:
    return delta_table(str(folder / "lake")) if kind == "delta" else iceberg_table("lake.events", catalog_of(folder))


def make_anew(kind: str, folder: Path, rows: Any, versions: int = 1) -> None:
    """The table is dropped, and there is another of its name."""
    if kind == "delta":
        shutil.rmtree(folder / "lake" / "_delta_log")
        for _ in range(versions):
            deltalake.write_deltalake(str(folder / "lake"), rows, mode="append")
        return
    catalog = pyiceberg_catalog.load_catalog(**catalog_of(folder))
    catalog.drop_table("lake.events")
    table = catalog.create_table("lake.events", rows.schema)
    for _ in range(versions):
        table.append(rows)


def in_between(act: Callable[[], None], monkeypatch: pytest.MonkeyPatch, place: str = "append") -> None:
    """Do something when the next files are written and not yet committed."""
    acts = iter([act])

    def step(name: str, _batch: int) -> None:
        for one in acts if name == "lake-files" else ():
            one()

    monkeypatch.setattr(f"goqueue.pipeline.lake.{place}.reached", step)


def test_a_checkpoint_that_is_older_than_the_table_is_refused(kind: str, tmp_path: Path) -> None:
    for number in range(3):
        writer(kind, tmp_path)(frame("query", number), number)

    # Planned anew, batch 1 has other messages than the one of that number that is there.
    with pytest.raises(StaleBatch, match="batch 1 of query query: the table has batch 2"):
        writer(kind, tmp_path)(frame("query", 1, 99), 1)

    assert numbers(rows_of(kind, tmp_path)) == [0, 1, 2]


@pytest.mark.parametrize("versions", [1, 9])
def test_a_running_sink_goes_on_with_a_table_that_was_made_anew(kind: str, versions: int, tmp_path: Path) -> None:
    write = writer(kind, tmp_path)
    for number in range(3):
        write(frame("query", number), number)
    make_anew(kind, tmp_path, pa.table({"n": pa.array([100], pa.int64())}), versions)

    write(frame("query", 3), 3)
    write(frame("query", 4), 4)

    assert numbers(rows_of(kind, tmp_path)) == [3, 4, *[100] * versions]
    assert len(opened(kind, tmp_path).files({})) == 2 + versions


def test_a_running_sink_makes_a_table_again_that_was_dropped(kind: str, tmp_path: Path) -> None:
    write = writer(kind, tmp_path)
    write(frame("query", 0), 0)
    if kind == "delta":
        shutil.rmtree(tmp_path / "lake")
    else:
        pyiceberg_catalog.load_catalog(**catalog_of(tmp_path)).drop_table("lake.events")

    write(frame("query", 1), 1)

    assert numbers(rows_of(kind, tmp_path)) == [1]


def test_files_for_a_table_that_was_made_anew_meanwhile_are_written_again(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = writer(kind, tmp_path)
    write(frame("query", 0), 0)
    # Its columns are in another order: by their numbers, `n` of the old table would be `m` of the new one.
    rows = pa.table({"m": pa.array([7], pa.int64()), "n": pa.array([100], pa.int64())})
    in_between(lambda: make_anew(kind, tmp_path, rows, 4), monkeypatch)

    write(frame("query", 3), 1)

    found = sorted(rows_of(kind, tmp_path).to_pylist(), key=lambda row: row["n"])
    assert found == [{"m": None, "n": 3}, *[{"m": 7, "n": 100}] * 4]
    assert notes(tmp_path) == []


def test_files_for_other_partitions_than_an_iceberg_table_has_by_then_are_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = writer("iceberg", tmp_path, partition_by=["truncate(10, n)"])
    write(frame("query", 1, x=pa.array(["a"])), 0)

    def divide() -> None:
        with iceberg(tmp_path).update_spec() as update:
            update.add_field("x", "identity")
        iceberg(tmp_path).append(pa.table({"n": pa.array([100], pa.int64()), "x": ["b"]}))

    in_between(divide, monkeypatch)
    write(frame("query", 3, 13, x=pa.array(["c", "c"])), 1)

    found = iceberg(tmp_path).scan(row_filter="x = 'c'").to_arrow()
    assert numbers(found) == [3, 13]
    assert (numbers(rows_of("iceberg", tmp_path)), notes(tmp_path)) == ([1, 3, 13, 100], [])


def test_rows_that_were_deleted_beside_their_file_do_not_come_back_with_a_compaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        writer("iceberg", tmp_path)(frame("query", number * 10, number * 10 + 1), number)
    lake = opened("iceberg", tmp_path)

    def read_files(_spark: Any, table: Any, files: Any, _columns: Any) -> Any:
        rows = [row for file in files for batch in table.file_reader(None)(file) for row in batch["n"].to_pylist()]
        return SimpleNamespace(coalesce=lambda _tasks: frame("maintain", *rows))

    monkeypatch.setattr("goqueue.pipeline.lake.compact.read_files", read_files)
    in_between(lambda: delete_first_row(iceberg(tmp_path)), monkeypatch, "compact")

    done = compact(None, lake, "maintain")  # type: ignore[arg-type]

    assert len(rows_of("iceberg", tmp_path)) == 5
    assert done.rewritten == 0
    assert (len(data_files(tmp_path)), notes(tmp_path)) == (4, [])


def test_rows_are_appended_to_an_iceberg_table_with_deletes_that_pyiceberg_cannot_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer("iceberg", tmp_path)(frame("query", 1, 2), 0)
    delete_first_row(iceberg(tmp_path), by_value="n")
    # Files that a killed run left are looked for in the table.
    end_before_the_commit(writer("iceberg", tmp_path), frame("query", 3), 1, monkeypatch)

    writer("iceberg", tmp_path)(frame("query", 3), 1)

    lake = opened("iceberg", tmp_path)
    assert (len(lake.paths()), len(data_files(tmp_path)), notes(tmp_path)) == (2, 3, [])
    with pytest.raises(PipelineError, match="has delete files"):
        lake.files({})


def delta_log(folder: Path, protocol: dict[str, Any], fields: list[dict[str, Any]], settings: dict[str, str]) -> Path:
    """A table as delta-spark makes it, without rows."""
    lake = folder / "lake"
    (lake / "_delta_log").mkdir(parents=True)
    columns = [{"nullable": True, "metadata": {}, "type": "long", **one} for one in fields]
    made = {
        "id": "made-by-others",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": columns}),
        "partitionColumns": [],
        "configuration": settings,
        "createdTime": 0,
    }
    lines = [json.dumps(one) for one in ({"protocol": protocol}, {"metaData": made})]
    (lake / "_delta_log" / f"{0:020d}.json").write_text("\n".join(lines))
    return lake


@pytest.mark.parametrize(
    ("feature", "versions", "about_n", "settings"),
    [
        (
            "columnMapping",
            (2, 5),
            {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"},
            {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "1"},
        ),
        ("generatedColumns", (1, 4), {"delta.generationExpression": "1 + 1"}, {}),
        ("identityColumns", (1, 6), {"delta.identity.start": 1, "delta.identity.step": 1}, {}),
        ("invariants", (1, 2), {"delta.invariants": '{"expression": {"expression": "n > 0"}}'}, {}),
        ("checkConstraints", (1, 3), {}, {"delta.constraints.positive": "n > 0"}),
    ],
)
def test_a_delta_table_whose_rules_are_not_known_is_refused_whatever_its_protocol_says(
    feature: str, versions: tuple[int, int], about_n: dict[str, Any], settings: dict[str, str], tmp_path: Path
) -> None:
    protocol = {"minReaderVersion": versions[0], "minWriterVersion": versions[1]}
    lake = delta_log(tmp_path, protocol, [{"name": "n", "metadata": about_n}], settings)

    with pytest.raises(PipelineError, match=f"uses {feature}, which cannot be written here"):
        delta_table(str(lake))


def test_a_value_that_a_delta_table_says_is_never_missing_is_not_left_out(tmp_path: Path) -> None:
    protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
    delta_log(tmp_path, protocol, [{"name": "n", "nullable": False}, {"name": "m"}], {})
    write = writer("delta", tmp_path)

    with pytest.raises(PipelineError, match=r"a row has no n, which the table .* says is never missing"):
        write(frame("query", None), 0)
    write(frame("query", 1), 0)

    assert numbers(rows_of("delta", tmp_path)) == [1]


def test_rows_are_not_taken_out_of_a_delta_table_that_only_takes_more(tmp_path: Path) -> None:
    settings = {"delta.appendOnly": "true"}
    lake = str(delta_log(tmp_path, {"minReaderVersion": 1, "minWriterVersion": 2}, [{"name": "n"}], settings))
    writer("delta", tmp_path)(frame("query", 1), 0)
    table = delta_table(lake)
    batch = Batch("merge", 0)
    attempt = table.write_log().begin(batch)

    with pytest.raises(PipelineError, match="takes appends only"):
        table.commit(batch, attempt, [], table.files({}))
