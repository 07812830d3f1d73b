"""Open segments: a limit on how many, and no file closed under a reader."""

from __future__ import annotations

import pytest

from goqueue.log.segment import Segment
from goqueue.log.segment_cache import SegmentCache, SegmentFiles
from goqueue.testing.memory_files import MemoryFiles


@pytest.fixture
def files():
    files = MemoryFiles()
    files.make_dirs("d")
    for number in range(5):
        files.open(f"d/{number:020d}.log", create=True).append([b"bytes"])
    return files


def segment(files, cache, base):
    return Segment(files, cache, "d", base, size_bytes=5, end_offset=base + 1, interval_bytes=100)


def is_open(handles):
    try:
        handles.log.size()
    except OSError:
        return False
    return True


def test_the_least_recently_used_is_closed_for_a_new_one(files):
    cache = SegmentCache(2)
    first, second, third = (segment(files, cache, base) for base in range(3))
    handles = []
    for one in (first, second, first, third):
        handles.append(one.pin())
        handles[-1].unpin()
    assert len(cache) == 2
    assert [is_open(one) for one in handles] == [True, False, True, True]


def test_a_pinned_file_is_closed_only_when_the_last_pin_goes(files):
    cache = SegmentCache(1)
    first, second = segment(files, cache, 0), segment(files, cache, 1)
    held, again = first.pin(), first.pin()
    assert held is again
    second.pin().unpin()
    held.unpin()
    assert is_open(held)
    assert again.log.pread(5, 0) == b"bytes"
    again.unpin()
    assert not is_open(held)


def test_retired_files_take_no_new_pin(files):
    handles = SegmentFiles(files, "d/00000000000000000000")
    assert handles.pin()
    handles.retire()
    assert not handles.pin()
    assert is_open(handles)
    handles.unpin()
    assert not is_open(handles)


def test_a_segment_that_is_gone_is_not_opened_again(files):
    cache = SegmentCache(4)
    one = segment(files, cache, 0)
    one.pin().unpin()
    one.remove_files()
    with pytest.raises(FileNotFoundError):
        one.pin()
    assert len(cache) == 0


def test_index_files_are_opened_once_and_closed_with_the_log(files):
    handles = SegmentFiles(files, "d/00000000000000000000")
    assert handles.index(".index") is None
    created = handles.index(".index", create=True)
    assert handles.index(".index") is created
    handles.retire()
    with pytest.raises(OSError, match="descriptor"):
        created.size()


def test_a_held_segment_is_not_the_caches_to_close(files):
    cache = SegmentCache(1)
    active, sealed = segment(files, cache, 0), segment(files, cache, 1)
    held = active.hold()
    sealed.pin().unpin()
    segment(files, cache, 2).pin().unpin()
    assert is_open(held)
    assert active.pin() is held
