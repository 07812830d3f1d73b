"""The index: finds the chunks of a message, forgets with the log, and is made anew where it cannot be trusted."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from goqueue.tracing.events import Subject
from goqueue.tracing.index import Entry, TraceIndex

TOPIC = UUID(int=1)
ONE = Subject(UUID(int=7), 0)
OTHER = Subject(UUID(int=7), 1)


def entries(first: int, count: int, subject: Subject = ONE) -> list[Entry]:
    """Chunks of 16 offsets each, one behind the other."""
    return [Entry(place, subject, [(4, place)]) for place in range(first, first + count)]


def opened(path: Path | None, *, start: int = 0, end: int = 0, rows_max: int = 10) -> TraceIndex:
    return TraceIndex(None if path is None else str(path), TOPIC, start=start, end=end, rows_max=rows_max)


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_message_is_found_in_its_chunks_and_in_no_others(tmp_path: Path, in_memory: bool) -> None:
    index = opened(None if in_memory else tmp_path)
    index.add([*entries(0, 3), Entry(3, OTHER, [(4, 0)]), Entry(4, ONE, [(10, 0)])], 5)
    assert index.find(ONE, 0) == [0, 4]
    assert index.find(ONE, 17) == [1, 4]
    assert index.find(OTHER, 0) == [3]
    assert index.find(Subject(UUID(int=9), 0), 0) == []


def test_a_new_file_begins_when_one_is_full_and_old_ones_go_with_the_log(tmp_path: Path) -> None:
    index = opened(tmp_path)
    for first in range(0, 100, 10):
        index.add(entries(first, 10), first + 10)
    assert index.file_count == 10
    index.drop_before(55)
    assert index.file_count == 5
    assert index.find(ONE, 16 * 40) == []
    assert index.find(ONE, 16 * 60) == [60]


def test_what_was_taken_in_is_there_after_a_restart(tmp_path: Path) -> None:
    index = opened(tmp_path)
    index.add(entries(0, 10), 10)
    index.add([*entries(10, 5), Entry(15, OTHER, [(20, 3)], ["ab" * 16])], 16)
    index.close()
    again = opened(tmp_path, end=16)
    assert again.end == 16
    assert again.find(ONE, 16 * 12) == [12]
    assert again.find(OTHER, 3 << 20) == [15]
    assert again.find_trace("ab" * 16) == [15]


def test_a_file_that_knows_more_than_the_log_is_made_anew(tmp_path: Path) -> None:
    index = opened(tmp_path)
    index.add(entries(0, 10), 10)
    index.add(entries(10, 5), 15)
    index.close()
    again = opened(tmp_path, end=12)
    assert (again.end, again.file_count) == (10, 1)


@pytest.mark.parametrize("damage", ["not a database at all" * 100, ""])
def test_a_damaged_file_and_those_behind_it_are_made_anew(tmp_path: Path, damage: str) -> None:
    index = opened(tmp_path)
    for first in range(0, 30, 10):
        index.add(entries(first, 10), first + 10)
    index.close()
    second = sorted(tmp_path.glob("*.index"))[1]
    second.write_text(damage)
    again = opened(tmp_path, end=30)
    assert (again.end, again.file_count) == (10, 1)


def test_an_index_of_another_log_is_not_used(tmp_path: Path) -> None:
    index = opened(tmp_path)
    index.add(entries(0, 5), 5)
    index.close()
    assert TraceIndex(str(tmp_path), UUID(int=2), start=0, end=5).end == 0
