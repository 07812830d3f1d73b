"""Frames: there and back, and no single flipped bit goes unnoticed."""

from __future__ import annotations

import re
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.codec.builders import NOW_MS, framed, some_batch

from goqueue.codec.batch import ATTRIBUTES_AT, parse_batch_header
from goqueue.codec.batch_encode import encode_batch
from goqueue.codec.crc32c import crc32c
from goqueue.codec.frame import (
    HEADER_BYTES,
    HEADERS_BYTES_MAX,
    Flags,
    FrameDamage,
    encode_frame_header,
    outline_frames,
    parse_frame_header,
)
from goqueue.codec.frame_headers import decode_headers, encode_headers
from goqueue.codec.frame_walk import check_frame, sound_frames, walk_frames
from goqueue.errors import InvalidRecord
from goqueue.records import NewRecord

KNOWN_FLAGS = st.sampled_from([0, *(int(flag) for flag in Flags), 0x7B])


def test_the_header_is_the_34_bytes_of_the_requirements() -> None:
    batch = some_batch()
    frame = framed(batch, offset=7, flags=Flags.TRANSACTIONAL, priority=1)
    assert frame[:4] == b"GQ\x01\x20"
    assert struct.unpack(">qqBBHIH", frame[8:34]) == (7, NOW_MS * 1_000_000, 1, 0, 0, len(batch), 0)
    assert len(frame) == 34 + len(batch)


def test_the_checksum_covers_every_byte_but_its_own_four() -> None:
    frame = framed(some_batch(), headers=encode_headers([("a", b"b")]))
    assert int.from_bytes(frame[4:8], "big") == crc32c(frame[8:], crc32c(frame[:4]))


def test_every_single_flipped_bit_of_a_frame_is_detected() -> None:
    frame = framed(some_batch(2), offset=5, flags=Flags.COMPRESSED, headers=encode_headers([("h", b"1")]))
    check_frame(frame)
    for bit in range(len(frame) * 8):
        damaged = bytearray(frame)
        damaged[bit // 8] ^= 1 << (bit % 8)
        with pytest.raises(FrameDamage):
            check_frame(damaged)


def test_a_flipped_bit_is_detected_with_frames_on_both_sides() -> None:
    first, middle, last = (framed(some_batch(1), offset=offset) for offset in range(3))
    for bit in range(len(middle) * 8):
        damaged = bytearray(middle)
        damaged[bit // 8] ^= 1 << (bit % 8)
        walk = walk_frames(first + damaged + last)
        assert next(walk).header.offset == 0
        with pytest.raises(FrameDamage) as caught:
            next(walk)
        assert caught.value.position == len(first)


def test_every_cut_of_a_frame_is_short_and_no_cut_is_sound() -> None:
    frame = framed(some_batch(1))
    for size in range(1, len(frame)):
        with pytest.raises(FrameDamage) as caught:
            next(walk_frames(frame[:size]))
        assert caught.value.is_short


@given(
    offset=st.integers(0, 2**62),
    flags=KNOWN_FLAGS,
    priority=st.integers(0, 4),
    count=st.integers(1, 5),
    lead=st.binary(max_size=40),
    pairs=st.lists(st.tuples(st.text(st.characters(codec="utf-8"), max_size=9), st.binary(max_size=9)), max_size=3),
)
@settings(deadline=None)
def test_a_frame_anywhere_in_a_buffer_reads_as_it_was_written(
    offset: int, flags: int, priority: int, count: int, lead: bytes, pairs: list[tuple[str, bytes]]
) -> None:
    batch = some_batch(count)
    headers = encode_headers(pairs)
    frame = framed(batch, offset=offset, flags=flags, priority=priority, headers=headers)
    header = check_frame(memoryview(lead + frame + b"rest")[: len(lead) + len(frame)], len(lead))
    assert header == parse_frame_header(lead + frame, len(lead))
    assert header.flags == flags | (Flags.HEADERS if pairs else 0)
    assert (header.offset, header.priority, header.value_bytes) == (offset, priority, len(batch))
    assert header.size == len(frame)
    assert decode_headers(frame[HEADER_BYTES + len(batch) :]) == pairs


def test_walking_gives_every_frame_with_its_place_and_both_headers() -> None:
    frames = [framed(some_batch(n), offset=10 * n) for n in range(1, 6)]
    data = b"".join(frames)
    found = list(walk_frames(data))
    assert [f.header.offset for f in found] == [10, 20, 30, 40, 50]
    assert [f.batch.count for f in found] == [1, 2, 3, 4, 5]
    assert [data[f.position : f.end] for f in found] == frames
    assert list(walk_frames(data, found[3].position, found[4].position)) == [found[3]]


def test_sound_frames_are_those_that_walking_gives_up_to_an_offset() -> None:
    data = b"".join(framed(some_batch(n), offset=10 * n) for n in range(1, 6))
    walked = list(walk_frames(data))
    starts = [f.position + HEADER_BYTES for f in walked]
    assert sound_frames(data, 2**62) == (starts, len(data), False)
    # The fourth covers offsets 40 to 43. What is behind the bound is not looked at.
    damaged = data[: walked[4].position] + b"no frame"
    assert sound_frames(damaged, 44) == (starts[:4], walked[4].position, True)
    assert sound_frames(data, 45) == (starts[:4], walked[4].position, True)
    for cut in range(walked[4].position + 1, len(data)):
        assert sound_frames(data[:cut], 2**62) == (starts[:4], walked[4].position, False)


def test_sound_frames_notice_every_flipped_bit_as_walking_does() -> None:
    first, middle, last = (framed(some_batch(1), offset=offset) for offset in range(3))
    for bit in range(len(middle) * 8):
        damaged = bytearray(middle)
        damaged[bit // 8] ^= 1 << (bit % 8)
        data = first + damaged + last
        with pytest.raises(FrameDamage) as walked:
            list(walk_frames(data))
        if walked.value.is_short:
            assert sound_frames(data, 2**62) == ([HEADER_BYTES], len(first), False)
        else:
            with pytest.raises(FrameDamage, match=re.escape(str(walked.value))):
                sound_frames(data, 2**62)


def test_a_frame_without_room_for_a_batch_is_not_sound() -> None:
    small = encode_frame_header([b"four"], flags=0, offset=0, timestamp_ns=0, priority=2) + b"four"
    with pytest.raises(FrameDamage, match="holds no batch"):
        sound_frames(small, 2**62)


def test_an_outline_has_the_places_and_flags_of_all_whole_frames() -> None:
    frames = [framed(some_batch(n), offset=10 * n, flags=Flags.CONTROL if n % 2 else 0) for n in range(1, 6)]
    data = b"".join(frames)
    walked = [(f.position, f.end, f.header.offset, f.header.flags) for f in walk_frames(data)]
    assert list(outline_frames(data, 0, len(data))) == walked
    for cut in range(len(data) - len(frames[-1]), len(data)):
        assert list(outline_frames(data[:cut], 0, cut)) == walked[:-1]
    broken = bytearray(data)
    broken[walked[2][0]] ^= 0xFF
    with pytest.raises(FrameDamage, match="no frame begins here") as caught:
        list(outline_frames(broken, 0, len(broken)))
    assert caught.value.position == walked[2][0]


def test_an_outline_needs_the_headers_of_frames_only() -> None:
    frames = [framed(some_batch(n), offset=10 * n) for n in range(1, 6)]
    data = b"".join(frames)
    start = len(frames[0])
    (second,) = outline_frames(data[start : start + HEADER_BYTES], start, len(data))
    assert second == (start, start + len(frames[1]), 20, 0)
    with pytest.raises(FrameDamage) as caught:
        list(outline_frames(data[start + 1 : start + 99], start + 1, len(data)))
    assert caught.value.position == start + 1


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (0, 0x58, "no frame begins here"),
        (2, 2, "version 2"),
        (3, 0x80, "flags 0x80"),
        (3, 0x04, "flags 0x04"),
        (8, 0xFF, "negative"),
        (24, 5, "priority 5"),
        (25, 1, "reserved byte 1"),
        (27, 1, "key length 1"),
    ],
)
def test_a_header_that_cannot_be_says_what_is_wrong(at: int, value: int, reason: str) -> None:
    frame = bytearray(framed(some_batch()))
    frame[at] = value
    for read in (parse_frame_header, check_frame):
        with pytest.raises(FrameDamage, match=reason):
            read(frame)


def resealed(frame: bytes | bytearray) -> bytes:
    crc = crc32c(frame[8:], crc32c(frame[:4]))
    return bytes(frame[:4]) + crc.to_bytes(4, "big") + bytes(frame[8:])


@pytest.mark.parametrize(
    ("at", "value"),
    [(34, 9), (34 + 11, 0xFF), (34 + 16, 1), (34 + 57, 0x80), (34 + 60, 9)],
    ids=["base offset", "length", "magic", "negative count", "more records than offsets"],
)
def test_a_batch_that_does_not_fit_its_frame_is_damage_even_with_a_right_checksum(at: int, value: int) -> None:
    frame = bytearray(framed(some_batch()))
    frame[at] = value
    with pytest.raises(FrameDamage, match="does not fit"):
        check_frame(resealed(frame))


@pytest.mark.parametrize("size", [100, 300_000, 1_000_003])
@pytest.mark.parametrize("headers", [b"", b"headers of the frame"])
def test_a_known_checksum_of_the_last_part_gives_the_same_header_as_its_bytes(size: int, headers: bytes) -> None:
    parts = [b"the part before", b"\x5a" * size]

    def header(last_crc: int | None) -> bytes:
        return encode_frame_header(
            parts, flags=1, offset=7, timestamp_ns=9, priority=2, headers=headers, last_crc=last_crc
        )

    assert header(crc32c(parts[1])) == header(None)


def test_large_bytes_that_changed_after_their_checksum_was_taken_make_a_damaged_frame() -> None:
    batch = bytearray(encode_batch([NewRecord(None, bytes(300_000))], now_ms=1))
    checksum = parse_batch_header(batch).crc
    batch[1_000] ^= 1
    lead, rest = batch[:ATTRIBUTES_AT], batch[ATTRIBUTES_AT:]
    header = encode_frame_header((lead, rest), flags=0, offset=0, timestamp_ns=0, priority=0, last_crc=checksum)
    with pytest.raises(FrameDamage, match="checksum"):
        check_frame(header + batch)


def test_a_value_too_small_for_a_batch_is_damage() -> None:
    header = encode_frame_header([b"tiny"], flags=0, offset=0, timestamp_ns=0, priority=0)
    with pytest.raises(FrameDamage, match="holds no batch"):
        check_frame(header + b"tiny")


@given(junk=st.binary(max_size=200))
@settings(deadline=None)
def test_junk_is_damage_and_nothing_else(junk: bytes) -> None:
    for data in (junk, b"GQ\x01" + junk, framed(some_batch(1))[:34] + junk):
        try:
            list(walk_frames(data))
        except FrameDamage:
            continue


def test_headers_that_do_not_fit_their_block_are_refused() -> None:
    with pytest.raises(InvalidRecord):
        encode_headers([("a", bytes(HEADERS_BYTES_MAX)), ("b", b"")])
    with pytest.raises(InvalidRecord):
        encode_headers([("a", bytes(HEADERS_BYTES_MAX + 1))])
    with pytest.raises(InvalidRecord):
        encode_frame_header([b""], flags=0, offset=0, timestamp_ns=0, priority=0, headers=bytes(HEADERS_BYTES_MAX + 1))


@given(block=st.binary(min_size=1, max_size=40))
@settings(deadline=None)
def test_a_junk_headers_block_is_damage_or_reads_to_the_same_bytes(block: bytes) -> None:
    try:
        pairs = decode_headers(block)
    except FrameDamage:
        return
    assert encode_headers(pairs) == (block if pairs else b"")
