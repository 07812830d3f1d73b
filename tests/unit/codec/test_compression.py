"""Compression: every codec goes there and back, and no input unpacks without bound."""

from __future__ import annotations

import gzip
import struct

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.codec.compression import Codec, compress, decompress
from goqueue.errors import CorruptBatch, UnsupportedCompression

PACKERS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
ROOM = 1 << 20


@given(codec=st.sampled_from(Codec), data=st.binary(max_size=3000), repeat=st.integers(1, 60))
@settings(max_examples=150, deadline=None)
def test_what_is_packed_comes_back(codec: Codec, data: bytes, repeat: int) -> None:
    plain = data * repeat
    assert decompress(codec, compress(codec, memoryview(plain)), ROOM) == plain


@pytest.mark.parametrize("codec", PACKERS)
def test_five_megabytes_that_pack_well_come_back(codec: Codec) -> None:
    plain = b"the same again " * 350_000
    assert decompress(codec, compress(codec, plain), 8 << 20) == plain


@pytest.mark.parametrize("codec", PACKERS)
def test_exactly_the_limit_fits_and_one_byte_more_does_not(codec: Codec) -> None:
    packed = compress(codec, bytes(100_000))
    assert len(decompress(codec, packed, 100_000)) == 100_000
    with pytest.raises(CorruptBatch, match="more than 99999 bytes"):
        decompress(codec, packed, 99_999)


@pytest.mark.parametrize("codec", PACKERS)
def test_a_bomb_is_refused(codec: Codec) -> None:
    bomb = compress(codec, bytes(40_000_000))
    with pytest.raises(CorruptBatch, match="more than"):
        decompress(codec, bomb, ROOM)


@pytest.mark.parametrize("codec", PACKERS)
def test_every_shortened_input_is_corrupt_or_shorter(codec: Codec) -> None:
    plain = b"some text, some more text, " * 9
    packed = compress(codec, plain)
    for cut in range(len(packed)):
        try:
            assert decompress(codec, packed[:cut], ROOM) != plain
        except CorruptBatch:
            continue


@given(codec=st.sampled_from(PACKERS), junk=st.binary(max_size=300))
@settings(max_examples=300, deadline=None)
def test_junk_never_raises_anything_but_corrupt_batch(codec: Codec, junk: bytes) -> None:
    try:
        decompress(codec, junk, ROOM)
    except CorruptBatch:
        return


@given(codec=st.sampled_from(PACKERS), at=st.integers(0, 10_000), bit=st.integers(0, 7))
@settings(max_examples=300, deadline=None)
def test_a_flipped_bit_never_raises_anything_but_corrupt_batch(codec: Codec, at: int, bit: int) -> None:
    packed = bytearray(compress(codec, b"0123456789" * 50))
    packed[at % len(packed)] ^= 1 << bit
    try:
        decompress(codec, packed, ROOM)
    except CorruptBatch:
        return


def test_snappy_is_written_in_the_java_framing_and_read_plain_too() -> None:
    assert compress(Codec.SNAPPY, b"abc" * 20).startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(b"abc" * 20)), ROOM) == b"abc" * 20


def test_a_snappy_block_that_lies_about_its_length_is_corrupt() -> None:
    header = compress(Codec.SNAPPY, b"")
    for length in (-1, 50, 2**31 - 1):
        with pytest.raises(CorruptBatch, match="claims"):
            decompress(Codec.SNAPPY, header + struct.pack(">i", length) + b"abc", ROOM)
    with pytest.raises(CorruptBatch, match="end inside"):
        decompress(Codec.SNAPPY, header + b"\x00\x00", ROOM)


def test_lz4_blocks_do_not_refer_to_each_other_because_java_refuses_that() -> None:
    descriptor = compress(Codec.LZ4, b"x" * 200_000)[4]
    assert descriptor & 0x20


def test_gzip_of_another_library_is_read() -> None:
    assert decompress(Codec.GZIP, gzip.compress(b"hello" * 100), ROOM) == b"hello" * 100


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_named(codec: int) -> None:
    with pytest.raises(UnsupportedCompression, match=str(codec)):
        compress(codec, b"")
    with pytest.raises(UnsupportedCompression, match=str(codec)):
        decompress(codec, b"", ROOM)
