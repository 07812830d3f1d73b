"""Where messages say which schema they were written with."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.errors import InvalidValue
from goqueue.formats.envelope import NO_ENVELOPE, Envelope, message_indexes, open_envelope, prefix_of

GUID = "89791762-2336-4186-9674-299b90a802e2"


def test_a_prefix_names_an_id_or_a_guid():
    assert open_envelope(b"\0\0\0\0\x07rest") == Envelope(7, None, 5)
    assert open_envelope(b"\1" + UUID(GUID).bytes + b"rest") == Envelope(None, GUID, 17)


@pytest.mark.parametrize("value", [b"", b"\0\0\0\0", b'{"a":1}', b"\1short", b"\2\0\0\0\1"])
def test_a_value_without_a_prefix_names_nothing(value):
    assert open_envelope(value) == NO_ENVELOPE


def test_headers_come_before_prefixes():
    headers = [("__value_schema_id", b"\0\0\0\0\x09"), ("__key_schema_id", b"\1" + UUID(GUID).bytes)]
    assert open_envelope(b"\0\0\0\0\x07", headers) == Envelope(9, None, 0, in_header=True)
    assert open_envelope(b"k", headers, is_key=True) == Envelope(None, GUID, 0, in_header=True)


def test_the_plain_header_is_a_number():
    assert open_envelope(b"{}", [("schema-id", b"12")]) == Envelope(12, None, 0, in_header=True)
    assert open_envelope(b"k", [("schema-id", b"12")], is_key=True) == NO_ENVELOPE
    assert open_envelope(prefix_of(12) + b"{}", [("schema-id", b"12")]) == Envelope(12, None, 5)
    with pytest.raises(InvalidValue, match="decimal"):
        open_envelope(b"{}", [("schema-id", b"twelve")])


def test_a_header_that_is_no_id_is_refused():
    with pytest.raises(InvalidValue, match="__value_schema_id"):
        open_envelope(b"{}", [("__value_schema_id", b"7")])


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=20))
def test_indexes_come_back_as_they_were(indexes):
    value = prefix_of(5, indexes) + b"body"
    found, start = message_indexes(value, 5)
    assert (found, value[start:]) == (tuple(indexes), b"body")


@pytest.mark.parametrize("value", [b"", b"\x04\x02", b"\x80" * 10, b"\x03\x01", b"\x02\x01", b"\xfe\x01"])
def test_broken_indexes_are_refused(value):
    with pytest.raises(InvalidValue):
        message_indexes(value, 0)
