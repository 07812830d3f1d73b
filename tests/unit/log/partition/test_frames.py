"""Frames out of files and buffers: the fast reader agrees with the careful one; lost tracks are found again."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.codec.batch import encode_prefix, parse_batch_header
from goqueue.codec.batch_encode import encode_batch
from goqueue.codec.frame import Flags, FrameDamage, encode_frame_header
from goqueue.codec.frame_walk import walk_frames
from goqueue.log.segment import frame_reader
from goqueue.log.segment.frame_reader import find_frame, frame_at, frames_in
from goqueue.log.segment.frame_spans import frame_spans
from goqueue.records import NewRecord
from goqueue.testing.memory_files import MemoryFiles


def frame(offset, *values, headers=b""):
    batch = encode_batch([NewRecord(None, value) for value in values], now_ms=5)
    value = encode_prefix(offset, parse_batch_header(batch).length, 0) + batch[16:]
    return (
        encode_frame_header([value], flags=0, offset=offset, timestamp_ns=9, priority=1, headers=headers)
        + value
        + headers
    )


def log_of(*values):
    return b"".join(frame(offset, value) for offset, value in enumerate(values))


def in_file(content):
    file = MemoryFiles().open("f", create=True)
    file.append([content])
    return file


def careful(view):
    found = []
    try:
        for one in walk_frames(view):
            value_end = one.position + 34 + one.header.value_bytes
            found.append((one.position, value_end, one.end, one.header.offset, one.batch.last_offset))
    except FrameDamage as damage:
        return found, (damage.position, damage.reason, damage.is_short)
    return found, None


def fast(view):
    found = []
    try:
        found.extend(frame_spans(view))
    except FrameDamage as damage:
        return found, (damage.position, damage.reason, damage.is_short)
    return found, None


@settings(max_examples=150, deadline=None)
@given(
    values=st.lists(st.binary(max_size=80), min_size=1, max_size=5),
    headers=st.binary(max_size=10),
    flip=st.none() | st.tuples(st.integers(0, 2000), st.integers(0, 7)),
    cut=st.integers(0, 60),
)
def test_the_fast_reader_finds_and_refuses_what_the_careful_one_does(values, headers, flip, cut):
    data = bytearray(b"".join(frame(at * 3, value, value, headers=headers) for at, value in enumerate(values)))
    if flip is not None:
        data[flip[0] % len(data)] ^= 1 << flip[1]
    view = memoryview(bytes(data))[: len(data) - cut]
    assert fast(view) == careful(view)


def test_frames_larger_than_a_read_and_frames_across_reads_are_found(monkeypatch):
    monkeypatch.setattr(frame_reader, "CHUNK_BYTES", 300)
    data = log_of(b"a" * 100, b"b" * 100, b"c" * 2000, b"d", b"e" * 150)
    found = [one.header.offset for _, _, one in frames_in(in_file(data), 0, len(data))]
    assert found == [0, 1, 2, 3, 4]


def test_damage_is_named_by_its_place_in_the_file(monkeypatch):
    monkeypatch.setattr(frame_reader, "CHUNK_BYTES", 300)
    data = bytearray(log_of(*[b"x" * 100] * 6))
    place = 4 * (len(data) // 6)
    data[place + 60] ^= 1
    with pytest.raises(FrameDamage) as damage:
        list(frames_in(in_file(data), 0, len(data)))
    assert (damage.value.position, damage.value.is_short) == (place, False)


def test_one_frame_is_read_alone():
    data = log_of(b"a", b"b")
    _, second = frame_at(in_file(data), len(data) // 2, len(data))
    assert second.header.offset == 1
    with pytest.raises(FrameDamage):
        frame_at(in_file(data), 5, len(data))


def test_the_next_sound_frame_is_found_behind_any_damage(monkeypatch):
    monkeypatch.setattr(frame_reader, "CHUNK_BYTES", 64)
    data = log_of(b"a" * 50, b"b" * 50, b"c" * 50)
    size = len(data) // 3
    for byte in range(size):
        broken = bytearray(data)
        broken[size + byte] ^= 0x11
        assert find_frame(in_file(broken), size, len(data), offset_min=1, offset_max=99) == 2 * size


def test_nothing_is_found_where_nothing_sound_follows():
    data = bytearray(log_of(b"a" * 50, b"b" * 50))
    data[len(data) // 2 + 40] ^= 1
    assert find_frame(in_file(data), len(data) // 2, len(data), offset_min=1, offset_max=99) is None


def test_a_frame_of_an_impossible_offset_is_passed_over():
    data = bytearray(log_of(b"a") + frame(500, b"b") + frame(1, b"c"))
    size = len(log_of(b"a"))
    data[3] ^= 0x80
    assert find_frame(in_file(data), 0, len(data), offset_min=1, offset_max=99) == 2 * size


def test_a_frame_inside_the_value_of_a_damaged_one_is_not_found_first():
    inside = frame(1, b"inside") + frame(2, b"and one more, so that the first looks at home")
    data = bytearray(frame(0, b"x" * 10 + inside + b"y" * 10) + frame(1, b"real"))
    data[-len(frame(1, b"real")) - 1] ^= 1
    assert find_frame(in_file(data), 0, len(data), offset_min=1, offset_max=99) == len(data) - len(frame(1, b"real"))


def test_flags_of_the_future_are_refused():
    value = encode_batch([NewRecord(None, b"v")], now_ms=1)
    data = encode_frame_header([value], flags=0x80, offset=0, timestamp_ns=1, priority=0) + value
    assert not 0x80 & sum(Flags)
    with pytest.raises(FrameDamage, match="flags"):
        list(frame_spans(memoryview(data)))
