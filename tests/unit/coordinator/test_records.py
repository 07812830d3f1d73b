"""Versioned records: one byte of kind and version, then msgpack."""

from __future__ import annotations

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.coordinator.records import RecordCodec
from goqueue.errors import StorageError


class OffsetV0(msgspec.Struct, array_like=True, frozen=True):
    offset: int


class OffsetV1(msgspec.Struct, array_like=True, frozen=True):
    offset: int
    metadata: str


CODEC: RecordCodec[msgspec.Struct] = RecordCodec({0: OffsetV0, 7: OffsetV1})


@given(offset=st.integers(-(2**63), 2**63 - 1), metadata=st.text())
def test_what_is_encoded_is_decoded_as_the_version_it_was_written_in(offset: int, metadata: str) -> None:
    for value in (OffsetV0(offset), OffsetV1(offset, metadata)):
        assert CODEC.decode(CODEC.encode(value)) == value
    assert CODEC.encode(OffsetV1(offset, metadata))[0] == 7


@given(data=st.binary(max_size=40))
def test_strange_bytes_are_a_storage_error_and_nothing_else(data: bytes) -> None:
    with contextlib.suppress(StorageError):
        CODEC.decode(data)


@pytest.mark.parametrize("data", [b"", b"\x01\x91\x05", b"\x00", b"\x00\x91\xa1x", CODEC.encode(OffsetV0(5)) + b"\x00"])
def test_unknown_kinds_damage_and_leftovers_are_refused(data: bytes) -> None:
    with pytest.raises(StorageError):
        CODEC.decode(data)


def test_the_bytes_on_the_disk_never_change() -> None:
    assert CODEC.encode(OffsetV1(300, "m")) == b"\x07\x92\xcd\x01\x2c\xa1m"
