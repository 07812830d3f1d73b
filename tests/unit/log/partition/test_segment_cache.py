"""Open segments: a limit on how many, and no file closed under a reader."""

from __future__ import annotations

import pytest

from goqueue.log.segment.handle_cache import SegmentCache
from goqueue.log.segment.segment import Segment
from goqueue.log.segment.segment_files import SegmentFiles
from goqueue.node.disk.os_files import OsFiles
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


def test_an_active_segment_is_closed_like_any_other_once_it_is_synced(files):
    cache = SegmentCache(1)
    active = segment(files, cache, 0)
    active.begin()
    active.append((b"more",), 4, 1, 2, 0)
    held = active.held
    active.rest()
    segment(files, cache, 1).pin().unpin()
    assert is_open(held), "what is not synced stays open"

    active.note_synced()
    segment(files, cache, 2).pin().unpin()
    segment(files, cache, 3).pin().unpin()

    assert not is_open(held)
    active.append((b"again",), 5, 2, 3, 0)
    handles, end = active.pin_to_end()
    assert handles.log.pread(end, 0) == b"bytesmoreagain"


def test_a_reader_and_the_next_append_share_the_files_of_an_active_segment(files):
    cache = SegmentCache(4)
    active = segment(files, cache, 0)
    read = active.pin()
    active.append((b"more",), 4, 1, 2, 0)
    assert active.held is read


def test_bytes_left_by_a_failed_append_are_cut_before_the_next(files):
    cache = SegmentCache(4)
    active = segment(files, cache, 0)
    files.open("d/00000000000000000000.log").append([b"torn"])
    active.append((b"more",), 4, 1, 2, 0)
    assert files.read("d/00000000000000000000.log") == b"bytesmore"


def test_too_many_unsynced_files_refuse_one_more_and_ask_for_a_sync(files):
    asked = []
    cache = SegmentCache(1, kept_files_max=2, on_crowded=lambda: asked.append(True))
    kept = [segment(files, cache, base) for base in range(3)]
    for one in kept[:2]:
        one.append((b"more",), 4, 9, 9, 0)
    with pytest.raises(OSError, match="files of segments are open"):
        kept[2].append((b"more",), 4, 9, 9, 0)
    assert asked
    kept[0].note_synced()
    kept[1].note_synced()
    kept[2].append((b"more",), 4, 9, 9, 0)
    assert kept[2].size_bytes == 9


def test_a_reader_does_not_trust_the_size_that_a_late_reader_found(tmp_path):
    """The reader opened before the append, and came to the cache after the owner's files had left it."""
    files = OsFiles(tmp_path)
    files.make_dirs("d")
    files.open("d/00000000000000000000.log", create=True).append([b"bytes"])
    cache = SegmentCache(4)
    active = segment(files, cache, 0)
    late = cache.open(active)
    active.append((b"more",), 4, 1, 2, 0)
    active.note_synced()
    cache.discard(active)
    cache.put(active, late)

    handles, end = active.pin_to_end()
    assert handles.log.pread(end, 0) == b"bytesmore"
    handles.unpin()
    active.release()
    files.close()


def test_the_owner_takes_a_late_readers_files_and_appends_at_the_end(tmp_path):
    files = OsFiles(tmp_path)
    files.make_dirs("d")
    files.open("d/00000000000000000000.log", create=True).append([b"bytes"])
    cache = SegmentCache(4)
    active = segment(files, cache, 0)
    late = cache.open(active)
    active.append((b"more",), 4, 1, 2, 0)
    active.note_synced()
    cache.discard(active)
    cache.put(active, late)

    active.append((b"again",), 5, 2, 3, 0)

    assert files.read("d/00000000000000000000.log") == b"bytesmoreagain"
    active.release()
    files.close()
