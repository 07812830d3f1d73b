"""A batch with a right checksum may still hold nonsense; opening it gives `CorruptBatch` and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.codec.builders import raw_batch, some_batch, with_fields

from goqueue.codec.batch_decode import decode_records
from goqueue.codec.compression import Codec, compress
from goqueue.errors import CorruptBatch

# length 14: attributes, time delta, offset delta, key "k", value "v", no headers
GOOD = bytes([0x10, 0, 0, 0, 2, 0x6B, 2, 0x76, 0])


def varint(number: int) -> bytes:
    value = (number << 1) ^ (number >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(0x80 | (value & 0x7F))
        value >>= 7
    out.append(value)
    return bytes(out)


def record(body: bytes, length: int | None = None) -> bytes:
    return varint(len(body) if length is None else length) + body


def test_the_good_record_of_this_file_is_good() -> None:
    (only,) = decode_records(raw_batch(GOOD, count=1))
    assert (only.key, only.value, only.headers) == (b"k", b"v", ())


@pytest.mark.parametrize(
    "section",
    [
        b"",
        GOOD[:-1],
        GOOD + b"\x00",
        GOOD + GOOD,
        b"\xff" * 11,
        b"\x80" * 40,
        b"\x80",
        record(GOOD[1:], length=-1),
        record(GOOD[1:], length=7),
        record(b"\x00\x00\x00" + varint(-(2**62)) + b"\x00\x00", length=2**40),
        record(b"\x00\x00\x00" + varint(2**31) + b"kv"),
        record(b"\x00\x00\x00" + varint(2**63 - 1) + b"kv"),
        record(b"\x00\x00\x00" + varint(2**63 - 60) + b"kv"),
        record(b"\x00\x00\x00\x01" + varint(2**62) + b"v"),
        record(b"\x00\x00\x00\x01\x01" + varint(-1)),
        record(b"\x00\x00\x00\x01\x01" + varint(1)),
        record(b"\x00\x00\x00\x01\x01" + varint(2**62)),
        record(b"\x00\x00\x00\x01\x01\x02" + varint(-1) + b"\x01"),
        record(b"\x00\x00\x00\x01\x01\x02" + varint(1) + b"\xff" + b"\x01"),
        record(b"\x00\x00\x00\x01\x01\x02" + varint(1) + b"a" + varint(99)),
        record(b"\x00\x00" + varint(1) + b"\x01\x01\x00"),
        record(b"\x00\x00" + varint(-1) + b"\x01\x01\x00"),
        record(b"\x00\x00" + varint(2**62) + b"\x01\x01\x00"),
    ],
    ids=lambda section: section[:14].hex() or "empty",
)
def test_a_malformed_record_section_is_a_corrupt_batch(section: bytes) -> None:
    with pytest.raises(CorruptBatch):
        decode_records(raw_batch(section, count=1))


def test_offsets_that_do_not_rise_are_corrupt() -> None:
    with pytest.raises(CorruptBatch, match="do not rise"):
        decode_records(raw_batch(GOOD + GOOD, count=2))


@pytest.mark.parametrize("count", [-1, -(2**31), 0, 2, 2**31 - 1])
def test_a_count_that_is_not_the_number_of_records_is_corrupt(count: int) -> None:
    with pytest.raises(CorruptBatch):
        decode_records(raw_batch(GOOD, count=count, last_offset_delta=0))


def test_a_length_that_is_not_the_size_is_corrupt() -> None:
    for length in (-1, 0, 2**31 - 1):
        with pytest.raises(CorruptBatch):
            decode_records(with_fields(some_batch(), length=length))
    with pytest.raises(CorruptBatch):
        decode_records(b"")


@given(section=st.binary(max_size=120), count=st.integers(-2, 6), codec=st.sampled_from(Codec))
@settings(max_examples=400, deadline=None)
def test_junk_opens_to_records_or_to_a_corrupt_batch(section: bytes, count: int, codec: Codec) -> None:
    for inside in (section, compress(codec, section)):
        try:
            decode_records(raw_batch(inside, count=count, attributes=codec))
        except CorruptBatch:
            continue


@given(
    edits=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), min_size=1, max_size=4),
    cut=st.integers(0, 60),
)
@settings(max_examples=400, deadline=None)
def test_a_good_section_with_bytes_changed_opens_or_is_a_corrupt_batch(edits: list[tuple[int, int]], cut: int) -> None:
    section = bytearray(some_batch(4)[61:])
    for at, value in edits:
        section[at % len(section)] = value
    try:
        decode_records(raw_batch(bytes(section[: len(section) - cut]), count=4))
    except CorruptBatch:
        return


def test_every_flipped_bit_inside_a_record_section_opens_or_is_a_corrupt_batch() -> None:
    section = some_batch(2)[61:]
    for bit in range(len(section) * 8):
        damaged = bytearray(section)
        damaged[bit // 8] ^= 1 << (bit % 8)
        try:
            decode_records(raw_batch(bytes(damaged), count=2))
        except CorruptBatch:
            continue


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_batch_that_unpacks_to_more_than_allowed_is_corrupt(codec: Codec) -> None:
    bomb = raw_batch(compress(codec, bytes(10_000_000)), count=1, attributes=codec)
    with pytest.raises(CorruptBatch, match="more than 1000000 bytes"):
        decode_records(bomb, size_max=1_000_000)
