"""Old versions of a table are forgotten, and the files that only they had are removed; no other file is."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs goqueue[spark]")
pytest.importorskip("deltalake", reason="needs goqueue[lake]")
pytest.importorskip("pyiceberg.catalog", reason="needs goqueue[lake]")

from tests.unit.pipeline.lake.test_lake_append import (
    catalog_of,
    data_files,
    frame,
    iceberg,
    notes,
    numbers,
    rows_of,
    writer,
)

from goqueue.pipeline.lake.iceberg import IcebergLake, iceberg_table
from goqueue.pipeline.lake.table import Batch


def opened(folder: Path) -> IcebergLake:
    return iceberg_table("lake.events", catalog_of(folder))


def written(folder: Path) -> None:
    """Three batches; the files of the first two are replaced by one, as a merge or a compaction does it."""
    for number in range(3):
        writer("iceberg", folder)(frame("query", number), number)
    table = opened(folder)
    old = [file for file in table.files({}) if "00000" in file.path][:2]
    attempt = table.write_log().begin(Batch("merge", 0))
    rows = [batch for file in old for batch in table.file_reader(None)(file)]
    added = list(table.file_writer(attempt)(iter(rows)))
    table.commit(Batch("merge", 0), attempt, added, old)
    table.write_log().forget(attempt)


def expire(folder: Path) -> int:
    # Whatever is older than the newest.
    newest = iceberg(folder).current_snapshot().timestamp_ms
    return opened(folder).expire(int(time.time() * 1000) - newest)


def below(folder: Path) -> set[str]:
    """The files of the table, but for those of its metadata that begin anew with each version."""
    return {str(path) for path in folder.rglob("*") if path.suffix in (".parquet", ".avro")}


def in_use(folder: Path) -> set[str]:
    table = iceberg(folder)
    found = set()
    for snapshot in table.metadata.snapshots:
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            found.add(manifest.manifest_path)
            found |= {one.data_file.file_path for one in manifest.fetch_manifest_entry(table.io)}
    return {path.removeprefix("file://") for path in found}


def test_files_that_only_old_snapshots_had_are_removed(tmp_path: Path) -> None:
    written(tmp_path)
    assert len(data_files(tmp_path)) == 4

    assert expire(tmp_path) == 3

    assert numbers(rows_of("iceberg", tmp_path)) == [0, 1, 2]
    assert len(data_files(tmp_path)) == 2
    assert below(tmp_path) == in_use(tmp_path)
    assert notes(tmp_path) == []
    # What is written afterwards finds its number, and a second run has nothing to do.
    writer("iceberg", tmp_path)(frame("query", 2), 2)
    assert (expire(tmp_path), numbers(rows_of("iceberg", tmp_path))) == (0, [0, 1, 2])


def test_what_a_kill_leaves_the_next_run_removes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path)

    def stop(_step: str, _batch: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("goqueue.pipeline.lake.iceberg_expiry.reached", stop)
        with pytest.raises(KeyboardInterrupt):
            expire(tmp_path)
    assert len(data_files(tmp_path)) == 4

    assert expire(tmp_path) == 0

    assert (below(tmp_path), notes(tmp_path)) == (in_use(tmp_path), [])
    assert numbers(rows_of("iceberg", tmp_path)) == [0, 1, 2]


def test_a_snapshot_with_a_tag_keeps_its_files(tmp_path: Path) -> None:
    written(tmp_path)
    table = iceberg(tmp_path)
    first = min(table.metadata.snapshots, key=lambda one: one.timestamp_ms).snapshot_id
    table.manage_snapshots().create_tag(first, "audit").commit()

    assert expire(tmp_path) == 2

    assert numbers(iceberg(tmp_path).scan(snapshot_id=first).to_arrow()) == [0]
    assert numbers(rows_of("iceberg", tmp_path)) == [0, 1, 2]
    assert below(tmp_path) == in_use(tmp_path)


def test_a_table_that_wants_no_files_removed_keeps_them(tmp_path: Path) -> None:
    written(tmp_path)
    with iceberg(tmp_path).transaction() as change:
        change.set_properties({"gc.enabled": "false"})

    assert expire(tmp_path) == 3

    assert len(data_files(tmp_path)) == 4


def test_files_elsewhere_that_were_added_to_a_table_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    written(tmp_path)
    export = tmp_path / "export.parquet"
    pq.write_table(pa.table({"n": pa.array([7], pa.int64())}), export)
    iceberg(tmp_path).add_files([f"file://{export}"])
    table: Any = opened(tmp_path)
    old = [file for file in table.files({}) if file.path == str(export)]
    table.commit(Batch("merge", 1), "merge/1.000000000001", [], old)

    expire(tmp_path)

    assert export.exists()
    assert numbers(rows_of("iceberg", tmp_path)) == [0, 1, 2]
