"""Records: what is written is read back, and what was written long ago still is."""

from __future__ import annotations

from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.errors import StorageError
from goqueue.groups.records import (
    KEYS,
    VALUES,
    ClassicGroupKey,
    ClassicGroupRecord,
    ConsumerGroupKey,
    ConsumerGroupRecord,
    CurrentKey,
    CurrentRecord,
    Key,
    MemberKey,
    MemberRecord,
    OffsetKey,
    OffsetRecord,
    QueueKey,
    QueueRecord,
    SettingsKey,
    SettingsRecord,
    ShareGroupKey,
    ShareGroupRecord,
    ShareMemberKey,
    TargetKey,
    TargetRecord,
    Value,
)

_names = st.text(max_size=20)
_keys: st.SearchStrategy[Key] = st.one_of(
    st.builds(OffsetKey, _names, _names, st.integers(0, 2**31)),
    st.builds(ClassicGroupKey, _names),
    st.builds(ConsumerGroupKey, _names),
    st.builds(MemberKey, _names, _names),
    st.builds(TargetKey, _names, _names),
    st.builds(CurrentKey, _names, _names),
    st.builds(QueueKey, _names),
    st.builds(ShareGroupKey, _names),
    st.builds(ShareMemberKey, _names, _names),
    st.builds(SettingsKey, _names),
)


@given(_keys)
def test_every_key_comes_back(key: Key) -> None:
    assert KEYS.decode(KEYS.encode(key)) == key


_ints = st.integers(-(2**31), 2**31)
_partitions = st.lists(st.tuples(st.uuids(), st.lists(st.integers(0, 99)).map(tuple)), max_size=3).map(tuple)
_values: st.SearchStrategy[Value] = st.one_of(
    st.builds(OffsetRecord, st.uuids(), _ints, _ints, st.text(), _ints),
    st.builds(TargetRecord, _partitions),
    st.builds(CurrentRecord, _ints, _ints, st.integers(0, 2), _partitions, _partitions),
    st.builds(ConsumerGroupRecord, _ints, _ints),
    st.builds(ShareGroupRecord, _ints, _ints),
    st.builds(SettingsRecord, _ints, _ints, _names),
    st.builds(
        QueueRecord,
        st.sampled_from(["", "exclusive", "shared"]),
        st.booleans(),
        st.dictionaries(_names, st.one_of(st.booleans(), _ints, st.floats(allow_nan=False), _names)),
        st.integers(0, 2**31),
        st.booleans(),
    ),
)


@given(_values)
def test_every_value_comes_back(value: Value) -> None:
    assert VALUES.decode(VALUES.encode(value)) == value


def test_the_bytes_on_disk_do_not_change() -> None:
    """Compaction compares keys byte by byte, and a newer broker must read what an older one wrote."""
    topic_id = UUID(int=7)
    assert KEYS.encode(OffsetKey("g", "t", 3)) == b"\x01\x93\xa1g\xa1t\x03"
    assert KEYS.encode(CurrentKey("g", "m")) == b"\x06\x92\xa1g\xa1m"
    assert KEYS.encode(SettingsKey("g")) == b"\x0a\x91\xa1g"
    assert VALUES.encode(SettingsRecord(6, 1, "")) == b"\x09\x93\x06\x01\xa0"
    record = OffsetRecord(topic_id, 42, -1, "", 9)
    assert VALUES.decode(b"\x01\x95\xd9$" + str(topic_id).encode() + b"\x2a\xff\xa0\x09") == record
    assert VALUES.encode(record)[:2] == b"\x01\x95"


def test_a_value_without_the_newest_fields_is_read() -> None:
    older = b"\x02" + msgspec.msgpack.encode((4, "consumer", None, None, 17))

    assert VALUES.decode(older) == ClassicGroupRecord(4, "consumer", None, None, 17, ())


@pytest.mark.parametrize("damaged", [b"", b"\x63\x90", b"\x04\x91\xa1x", b"\x05\xc1"])
def test_what_cannot_be_read_says_so(damaged: bytes) -> None:
    with pytest.raises(StorageError):
        VALUES.decode(damaged)


def test_a_member_record_keeps_every_field() -> None:
    record = MemberRecord("i", "rack", "client", "10.0.0.1", 300_000, ("a", "b"), "x.*", "uniform")

    assert VALUES.decode(VALUES.encode(record)) == record
