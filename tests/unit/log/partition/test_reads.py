"""Reading: from anywhere, across segments, checked, without copies, never past the bound."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.codec.batch import parse_batch_header, verify_batch
from goqueue.codec.batch_encode import build_batch
from goqueue.codec.compression import Codec
from goqueue.codec.frame_walk import check_frame
from goqueue.errors import CorruptFrame, OffsetOutOfRange
from goqueue.log.partition_log import PartitionLog
from goqueue.log.segment import segment
from goqueue.log.segment.file_names import OFFSET_INDEX
from goqueue.log.segment.handle_cache import SegmentCache
from goqueue.ports import ColdRead


@pytest.fixture(autouse=True, params=["small", "large"], scope="module")
def frames_count_as(request):
    """Large frames are read up to where the index says that one begins; these are as small for both."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment, "_LARGE_FRAME_BYTES", 64 * 1024 if request.param == "small" else 1)
        yield


def fill(desk):
    """36 offsets in 12 batches of three, in several segments."""
    for number in range(12):
        desk.append(*(b"%d" % number + b"." * 40 for _ in range(3)))


@pytest.mark.parametrize("max_bytes", [1, 300, 700, 10**6])
def test_every_offset_can_be_read_from_across_all_segments(desk, max_bytes):
    fill(desk)
    assert len(desk.log.segments) > 2
    for offset in range(36):
        whole_batch = offset - offset % 3
        assert desk.offsets(offset, max_bytes=max_bytes) == list(range(whole_batch, 36))


def test_a_read_that_goes_on_from_the_last_one_needs_no_search(desk):
    fill(desk)
    desk.read()
    for one in desk.log.segments[:-1]:
        assert one.resume[:2] == (one.end_offset, one.size_bytes)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("producer", [{}, {"producer_id": 9, "producer_epoch": 1, "base_sequence": 40}])
def test_an_emptied_batch_that_an_earlier_version_stored_is_served_without_its_codec(desk, codec, producer):
    """Some clients do not survive the decompression of nothing (librdkafka aborts its process)."""
    desk.append(b"before")
    whole = parse_batch_header(desk.batch(b"a", b"b", codec=codec, **producer))
    emptied = build_batch(whole._replace(count=0), b"")
    desk.log.append_batch(emptied, now_ms=desk.now_ms, leader_epoch=0, thinned=True)
    desk.append(b"behind")
    read = desk.log.read_batches(0, max_bytes=10**6, upper=4)

    _, served, _ = read.batches
    header = verify_batch(served)
    assert header == whole._replace(
        base_offset=1, leader_epoch=0, attributes=whole.attributes & ~7, count=0, length=49, crc=header.crc
    )
    assert read.bytes == sum(map(len, read.batches))
    assert desk.offsets() == [0, 3]
    # A replica and a backup get what is stored.
    frame = desk.log.read_frames(1, max_bytes=1, upper=4).batches[0]
    assert bytes(frame[34:])[16:] == emptied[16:]


def test_at_least_one_batch_comes_however_little_is_asked_for(desk):
    desk.append(b"x" * 500)
    read = desk.log.read_batches(0, max_bytes=1, upper=1)
    assert [len(batch) > 500 for batch in read.batches] == [True]
    assert (read.next_offset, read.bytes) == (1, len(read.batches[0]))


def test_no_more_bytes_come_than_were_asked_for_behind_the_first_batch(desk):
    fill(desk)
    read = desk.log.read_batches(0, max_bytes=700, upper=36)
    assert sum(map(len, read.batches)) == read.bytes <= 700
    assert len(read.batches) > 1


@pytest.mark.parametrize("upper", range(37))
def test_no_batch_that_ends_beyond_the_bound_is_returned(desk, upper):
    fill(desk)
    assert desk.offsets(0, upper=upper) == list(range(upper - upper % 3))


def test_reading_at_the_end_finds_nothing_and_outside_the_log_is_refused(desk):
    fill(desk)
    desk.log.delete_before(4)
    assert desk.log.read_batches(36, max_bytes=100, upper=36).batches == []
    for offset in (3, 37):
        with pytest.raises(OffsetOutOfRange) as refused:
            desk.log.read_batches(offset, max_bytes=100, upper=36)
        assert (refused.value.start, refused.value.end) == (4, 36)


def test_large_batches_of_any_size_are_not_read_in_part_and_then_again(desk):
    desk.reopen(segment_bytes=1 << 30, index_interval_bytes=4096)
    for number in range(12):
        desk.append(b"." * (1_000_000 if number % 2 else 10_000))
    offset, asked = 0, []
    log = desk.log.segments[0].pin().log
    with pytest.MonkeyPatch.context() as patch:
        pread = type(log).pread
        patch.setattr(type(log), "pread", lambda file, size, *a, **k: asked.append(size) or pread(file, size, *a, **k))
        while offset < 12:
            offset = desk.log.read_batches(offset, max_bytes=4_000_000, upper=12).next_offset
    assert sum(asked) < desk.log.segments[0].size_bytes + 12 * 100


def test_batches_are_views_of_one_buffer(desk):
    fill(desk)
    batches = desk.log.read_batches(0, max_bytes=600, upper=36).batches
    assert len(batches) > 1
    assert len({id(batch.obj) for batch in batches}) == 1


def test_whole_frames_can_be_read_and_hold_the_same_batches(desk):
    fill(desk)
    frames = desk.log.read_frames(7, max_bytes=500, upper=36).batches
    batches = desk.log.read_batches(7, max_bytes=500, upper=36).batches
    assert check_frame(frames[0]).offset == 6
    assert [bytes(frame[34:]) for frame in frames] == [bytes(batch) for batch in batches][: len(frames)]


def test_a_damaged_frame_is_named_and_its_neighbours_are_served(desk):
    fill(desk)
    position, header, _ = list(desk.log.segments[0].frames())[1]
    desk.files.flip_bit(desk.path(), position + 60)
    assert desk.offsets(0, upper=3) == [0, 1, 2]
    assert desk.log.read_batches(0, max_bytes=10**6, upper=36).next_offset == 3
    for offset in (3, 4, 5):
        with pytest.raises(CorruptFrame) as damage:
            desk.log.read_batches(offset, max_bytes=100, upper=36)
        assert (damage.value.where, damage.value.position) == (desk.path(), position)
    assert desk.offsets(6) == list(range(6, 36))
    assert header.offset == 3


@pytest.mark.parametrize("part", ["length", "magic"])
def test_frames_behind_one_whose_header_is_damaged_are_found_again(desk, part):
    fill(desk)
    position, _, _ = list(desk.log.segments[0].frames())[1]
    desk.files.flip_bit(desk.path(), position + (31 if part == "length" else 0), 5)
    with pytest.raises(CorruptFrame):
        desk.log.read_batches(3, max_bytes=100, upper=36)
    assert desk.offsets(6) == list(range(6, 36))


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 80, b"\xff" * 80, b"\0\0\0\1\0\0\0\7" * 20, b"\0\0\0\1\0\0\xff\7" * 20]
)
def test_an_index_that_lies_misleads_nobody(desk, content):
    fill(desk)
    base = desk.log.segments[1].base_offset
    desk.restart()
    desk.rewrite(desk.path(base, OFFSET_INDEX), content)
    desk.reopen()
    for offset in range(36):
        assert desk.offsets(offset) == list(range(offset - offset % 3, 36))


def test_an_index_entry_that_points_too_far_is_noticed(desk):
    fill(desk)
    position, header, _ = list(desk.log.segments[0].frames())[3]
    assert header.offset == 9
    desk.restart()
    desk.rewrite(desk.path(0, OFFSET_INDEX), (1).to_bytes(4, "big") + position.to_bytes(4, "big"))
    desk.reopen()
    for offset in range(36):
        assert desk.offsets(offset) == list(range(offset - offset % 3, 36))


@settings(max_examples=100, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 400), min_size=1, max_size=30),
    at=st.floats(0, 1),
    max_bytes=st.integers(1, 1500),
    cut=st.integers(0, 10),
)
def test_any_read_returns_what_a_list_of_all_batches_would(make_desk, sizes, at, max_bytes, cut):
    desk = make_desk()
    for size in sizes:
        desk.append(b"x" * size, b"y")
    offset = int(at * desk.log.end_offset)
    upper = desk.log.end_offset - cut
    read = desk.log.read_batches(offset, max_bytes=max_bytes, upper=upper)
    wanted = [
        batch
        for batch in desk.read()
        if parse_batch_header(batch).last_offset >= offset and parse_batch_header(batch).last_offset < upper
    ]
    assert [bytes(batch) for batch in read.batches] == wanted[: len(read.batches)]
    assert bool(read.batches) == bool(wanted)
    assert len(read.batches) <= 1 or read.bytes <= max_bytes
    if read.batches:
        assert read.next_offset == parse_batch_header(read.batches[-1]).last_offset + 1
    else:
        assert read.next_offset == offset


def test_a_cold_read_is_refused_when_waiting_is_not_wanted(desk):
    fill(desk)
    desk.files.faults.cold = lambda path: path == desk.path()
    with pytest.raises(ColdRead):
        desk.log.read_batches(0, max_bytes=100, upper=36, nowait=True)
    assert desk.log.read_batches(0, max_bytes=100, upper=36).batches


def test_what_is_warm_is_served_up_to_what_is_cold(desk):
    fill(desk)
    second = desk.log.segments[1]
    desk.files.faults.cold = lambda path: path == second.path
    read = desk.log.read_batches(0, max_bytes=10**6, upper=36, nowait=True)
    assert read.next_offset == second.base_offset


def test_logs_share_a_limit_of_open_segments(desk, make_desk, monkeypatch):
    cache = SegmentCache(3)
    logs = []
    for name in ("a", "b"):
        log = PartitionLog.open(
            desk.files, name, settings=desk.settings, topic_id=desk.log.topic_id, now_ms=1, cache=cache
        )
        for _ in range(30):
            log.append_batch(desk.batch(b"x" * 200), now_ms=1, leader_epoch=0)
        logs.append(log)
    for log in logs:
        offset = 0
        while offset < 30:
            offset = log.read_batches(offset, max_bytes=1, upper=30).next_offset
            assert len(cache) <= 3


def test_a_segment_deleted_under_a_reader_can_be_read_to_its_end(desk):
    fill(desk)
    frames = desk.log.segments[0].frames()
    next(frames)
    desk.log.delete_before(30)
    assert not desk.files.exists(desk.path())
    assert [header.offset for _, header, _ in frames] == [3, 6, 9]


def test_the_leader_epoch_in_a_batch_is_that_of_its_writer(desk):
    desk.append(b"a", epoch=3)
    desk.append(b"b", epoch=9)
    assert [parse_batch_header(batch).leader_epoch for batch in desk.read()] == [3, 9]


def test_a_search_by_time_goes_around_damaged_frames(desk):
    for _ in range(6):
        desk.append(b"a")
        desk.now_ms += 1000
    (segment,) = desk.log.segments
    places = [position for position, _, _ in segment.frames()]
    first_ms = desk.now_ms - 6000
    desk.files.flip_bit(desk.path(), places[1] + 60)
    desk.files.flip_bit(desk.path(), places[5] + 60)
    found = [desk.log.offset_for_timestamp(first_ms + 1000 * at, upper=6) for at in range(6)]
    assert [one and one.offset for one in found] == [0, 2, 2, 3, 4, None]
    assert desk.log.offset_of_max_timestamp(6).offset == 4
