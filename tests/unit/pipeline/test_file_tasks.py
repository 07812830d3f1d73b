"""Files are read by tasks of about the same number of records, wherever one file ends and the next begins."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs goqueue[spark]")

from goqueue.pipeline.decoding.columns import Bounds
from goqueue.pipeline.errors import DataLost
from goqueue.pipeline.source.options import SourceOptions, parse_source_options
from goqueue.pipeline.source.plan import Range, Task, tasks_for
from goqueue.pipeline.source.segments import DataDirectory
from goqueue.records import TopicPartition

PLACE = TopicPartition("orders", 0)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A partition of three files that begin at 0, 100 and 200. What is in them is not looked at."""
    logs = tmp_path / "logs" / PLACE.topic / str(PLACE.partition)
    logs.mkdir(parents=True)
    for base in (0, 100, 200):
        (logs / f"{base:020}.log").touch()
    return tmp_path


def options(directory: Path, **more: str) -> SourceOptions:
    return parse_source_options({"path": str(directory), "subscribe": PLACE.topic, **more})


def cut(tasks: list[Task]) -> list[tuple[int, int, list[int]]]:
    """Of every task's one piece: where it begins and ends, and the files it lies in."""
    return [
        (one.bounds.start, one.bounds.end, [segment.base_offset for segment in one.segments])
        for task in tasks
        for one in task.pieces
    ]


def test_few_records_are_one_task_over_all_files(directory: Path) -> None:
    assert cut(tasks_for(options(directory), [Range(PLACE, 0, 300)], Bounds())) == [(0, 300, [0, 100, 200])]


def test_a_task_may_begin_in_the_middle_of_a_file(directory: Path) -> None:
    tasks = tasks_for(options(directory, minPartitions="2"), [Range(PLACE, 0, 300)], Bounds())
    assert cut(tasks) == [(0, 150, [0, 100]), (150, 300, [100, 200])]


def test_files_that_hold_nothing_wanted_are_not_opened(directory: Path) -> None:
    assert cut(tasks_for(options(directory), [Range(PLACE, 100, 200)], Bounds())) == [(100, 200, [100])]


def test_offsets_below_the_first_file_are_lost(directory: Path) -> None:
    (directory / "logs" / PLACE.topic / "0" / f"{0:020}.log").unlink()
    with pytest.raises(DataLost):
        tasks_for(options(directory), [Range(PLACE, 50, 300)], Bounds())
    passed = tasks_for(options(directory, failOnDataLoss="false"), [Range(PLACE, 50, 300)], Bounds())
    assert cut(passed) == [(100, 300, [100, 200])]


def test_a_look_passes_over_a_file_that_went_since_the_folder_was_listed(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = DataDirectory(str(directory)).segments(PLACE)
    Path(listed[0].path).unlink()
    monkeypatch.setattr(DataDirectory, "segments", lambda *_: listed)
    assert DataDirectory(str(directory)).look(PLACE).aborted == ()
