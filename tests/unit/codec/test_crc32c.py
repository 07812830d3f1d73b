"""CRC-32C is Castagnoli's polynomial, over any buffer, in pieces or whole."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.codec.crc32c import crc32c, followed_by


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"", 0), (b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43)],
)
def test_known_checksums_of_rfc_3720_come_out(data: bytes, expected: int) -> None:
    assert crc32c(data) == expected


def test_it_is_not_the_checksum_of_zlib() -> None:
    assert crc32c(b"123456789") != zlib.crc32(b"123456789")


@given(data=st.binary(max_size=200), cut=st.integers(0, 200))
@settings(deadline=None)
def test_pieces_give_the_checksum_of_the_whole_for_every_kind_of_buffer(data: bytes, cut: int) -> None:
    whole = crc32c(data)
    assert crc32c(memoryview(data)[cut:], crc32c(bytearray(data[:cut]))) == whole


@given(first=st.binary(max_size=100), second=st.binary(max_size=700))
@settings(deadline=None)
def test_two_checksums_give_that_of_both_pieces_without_their_bytes(first: bytes, second: bytes) -> None:
    assert followed_by(crc32c(first), crc32c(second), len(second)) == crc32c(first + second)


@pytest.mark.parametrize("size", [255, 4095, 4096, 4097, 65_535, 65_536, 991_164, 2**24 - 1, 2**24])
def test_two_checksums_give_that_of_both_pieces_whatever_their_size(size: int) -> None:
    second = b"\x5a" * size
    assert followed_by(crc32c(b"before"), crc32c(second), size) == crc32c(second, crc32c(b"before"))
