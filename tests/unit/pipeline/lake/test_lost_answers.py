"""Commits whose answer was lost, two drivers with one batch: nothing of the table is removed, nothing is left over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="needs goqueue[spark]")
pytest.importorskip("pyspark", reason="needs goqueue[spark]")
deltalake = pytest.importorskip("deltalake", reason="needs goqueue[lake]")
pytest.importorskip("pyiceberg.catalog", reason="needs goqueue[lake]")

from tests.unit.pipeline.lake.test_lake_append import (  # noqa: E402
    data_files,
    end_before_the_commit,
    frame,
    notes,
    numbers,
    rows_of,
    writer,
)

from goqueue.pipeline.lake.delta import DeltaLake  # noqa: E402
from goqueue.pipeline.lake.iceberg import IcebergLake  # noqa: E402


@pytest.fixture(params=["delta", "iceberg"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def lose_one_answer(kind: str, monkeypatch: pytest.MonkeyPatch, *, then: Any = None) -> None:
    """The next commit lands, and its writer is told of a conflict, as by a store that was asked twice."""
    from deltalake.exceptions import CommitFailedError
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.exceptions import CommitFailedException

    owner, name, error = {
        "delta": (deltalake.DeltaTable, "create_write_transaction", CommitFailedError),
        "iceberg": (SqlCatalog, "commit_table", CommitFailedException),
    }[kind]
    original = getattr(owner, name)
    lost = iter([True])

    def answered(self: Any, *words: Any, **more: Any) -> Any:
        answer = original(self, *words, **more)
        if next(lost, False):
            if then is not None:
                then()
            raise error("the version exists already")
        return answer

    monkeypatch.setattr(owner, name, answered)


def test_a_commit_that_landed_keeps_its_files_although_a_conflict_was_reported(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = writer(kind, tmp_path)
    write(frame("query", 1), 0)
    lose_one_answer(kind, monkeypatch)

    write(frame("query", 2), 1)
    write(frame("query", 3), 2)

    assert numbers(rows_of(kind, tmp_path)) == [1, 2, 3]
    assert (len(data_files(tmp_path)), notes(tmp_path)) == (3, [])


def test_it_keeps_them_too_if_the_next_batch_is_there_before_anyone_looks(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, other = writer(kind, tmp_path), writer(kind, tmp_path)
    write(frame("query", 1), 0)
    lose_one_answer(kind, monkeypatch, then=lambda: other(frame("query", 3), 2))

    write(frame("query", 2), 1)

    assert numbers(rows_of(kind, tmp_path)) == [1, 2, 3]
    assert (len(data_files(tmp_path)), notes(tmp_path)) == (3, [])


def test_a_driver_that_starts_leaves_the_files_of_one_that_still_runs(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer(kind, tmp_path)(frame("query", 1), 0)
    started = iter([writer(kind, tmp_path)])

    def step(name: str, _batch: int) -> None:
        # The second driver looks for leftovers, and is held up by another batch before it writes this one.
        for second in started if name == "lake-files" else ():
            second(frame("query", 1), 0)

    monkeypatch.setattr("goqueue.pipeline.lake.append.reached", step)
    writer(kind, tmp_path)(frame("query", 2), 1)

    assert numbers(rows_of(kind, tmp_path)) == [1, 2]
    assert (len(data_files(tmp_path)), notes(tmp_path)) == (2, [])


def test_of_two_drivers_with_one_batch_the_second_removes_what_it_wrote(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer(kind, tmp_path)(frame("query", 1), 0)
    others = iter([writer(kind, tmp_path)])

    def step(name: str, _batch: int) -> None:
        for other in others if name == "lake-files" else ():
            other(frame("query", 2), 1)

    monkeypatch.setattr("goqueue.pipeline.lake.append.reached", step)
    writer(kind, tmp_path)(frame("query", 2), 1)

    assert numbers(rows_of(kind, tmp_path)) == [1, 2]
    assert (len(data_files(tmp_path)), notes(tmp_path)) == (2, [])


def test_a_kill_after_the_commit_leaves_files_in_the_table_and_no_notes(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end_before_the_commit(writer(kind, tmp_path), frame("query", 1), 0, monkeypatch)
    end_before_the_commit(writer(kind, tmp_path), frame("query", 1), 0, monkeypatch, at="lake-written")

    writer(kind, tmp_path)(frame("query", 1), 0)

    assert numbers(rows_of(kind, tmp_path)) == [1]
    assert (len(data_files(tmp_path)), notes(tmp_path)) == (1, [])


@pytest.mark.parametrize("is_first", [True, False], ids=["first batch", "new column"])
def test_a_driver_that_looks_again_behind_the_batch_of_another_writes_nothing(
    kind: str, is_first: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_first:
        writer(kind, tmp_path)(frame("query", 0), 0)
    number, rows = (0, frame("query", 2)) if is_first else (1, frame("query", 2, colour=pa.array(["red"])))
    owner = DeltaLake if kind == "delta" else IcebergLake
    others = iter([writer(kind, tmp_path, add_columns=True)])
    original = owner.prepare

    def prepare(self: Any, schema: Any, *, add_columns: bool) -> None:
        # This driver has looked for the batch, and has not yet made the table or the column.
        for other in others:
            other(rows, number)
        original(self, schema, add_columns=add_columns)

    monkeypatch.setattr(owner, "prepare", prepare)
    writer(kind, tmp_path, add_columns=True)(rows, number)

    assert numbers(rows_of(kind, tmp_path)) == ([2] if is_first else [0, 2])
    assert (len(data_files(tmp_path)), notes(tmp_path)) == (1 if is_first else 2, [])
