"""What a batch must pass before it is written."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.broker.arrivals.arrival import Arrival
from goqueue.broker.arrivals.batch_checks import check_acks, header_of
from goqueue.broker.arrivals.steps import Limits, RequireKeys
from goqueue.broker.replicas.partitions import Partition
from goqueue.caller import ANONYMOUS
from goqueue.codec.batch import HEADER_BYTES
from goqueue.codec.batch_encode import encode_batch
from goqueue.codec.compression import Codec
from goqueue.errors import (
    CorruptBatch,
    GoQueueError,
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTimestamp,
    MessageTooLarge,
    NotEnoughReplicas,
    UnsupportedFormat,
)
from goqueue.metadata.settings.topic_config import TopicConfig, parse_topic_config
from goqueue.ports import Buffer
from goqueue.records import Acks, NewRecord

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


def batch_at(*timestamps_ms: int) -> bytes:
    return encode_batch([NewRecord(b"k", b"v", (), at) for at in timestamps_ms], now_ms=NOW_MS)


def check_limits_of(config: TopicConfig, batch: bytes) -> None:
    Limits()(arrival_of(config, batch))


def check_keys(batch: Buffer) -> None:
    RequireKeys()(arrival_of(parse_topic_config({"cleanup.policy": "compact"}), batch))


def arrival_of(config: TopicConfig, batch: Buffer) -> Arrival:
    partition = cast("Partition", SimpleNamespace(config=config, in_sync_replicas=1))
    return Arrival(partition, header_of(batch), batch, Acks.LEADER, ANONYMOUS, NOW_MS)


def test_one_batch_of_the_current_format_passes() -> None:
    batch = batch_at(NOW_MS)
    assert header_of(batch).count == 1
    assert header_of(memoryview(batch)).count == 1


def test_two_batches_at_once_are_refused_as_kafka_does() -> None:
    with pytest.raises(InvalidRecord, match="2 batches"):
        header_of(batch_at(NOW_MS) * 2)


@pytest.mark.parametrize("damage", [b"", b"\0" * 10, b"\0" * HEADER_BYTES, batch_at(1)[:-1], batch_at(1) + b"\0"])
def test_what_is_no_batch_is_refused(damage: bytes) -> None:
    with pytest.raises((CorruptBatch, UnsupportedFormat)):
        header_of(damage)


@pytest.mark.parametrize("magic", [0, 1, 3, 255])
def test_other_formats_are_refused_by_their_name(magic: int) -> None:
    batch = bytearray(batch_at(NOW_MS))
    batch[16] = magic
    with pytest.raises(UnsupportedFormat):
        header_of(batch)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_taken_or_refused_by_our_own_errors(data: bytes) -> None:
    with suppress(GoQueueError):
        header_of(data)


def test_a_batch_may_be_as_large_as_the_topic_says_and_no_larger() -> None:
    batch = batch_at(NOW_MS)
    check_limits_of(parse_topic_config({"max.message.bytes": str(len(batch))}), batch)
    with pytest.raises(MessageTooLarge):
        check_limits_of(parse_topic_config({"max.message.bytes": str(len(batch) - 1)}), batch)


@pytest.mark.parametrize("ahead_ms", [0, HOUR_MS, -HOUR_MS, -NOW_MS])
def test_timestamps_within_the_default_bounds_pass(ahead_ms: int) -> None:
    check_limits_of(parse_topic_config({}), batch_at(NOW_MS + ahead_ms))


def test_a_timestamp_from_the_future_is_refused() -> None:
    with pytest.raises(InvalidTimestamp, match=r"message\.timestamp\.after\.max\.ms"):
        check_limits_of(parse_topic_config({}), batch_at(NOW_MS, NOW_MS + HOUR_MS + 1))


def test_a_timestamp_from_the_past_is_refused_where_the_topic_says_so() -> None:
    config = parse_topic_config({"message.timestamp.before.max.ms": "1000"})
    check_limits_of(config, batch_at(NOW_MS - 1000))
    with pytest.raises(InvalidTimestamp, match=r"message\.timestamp\.before\.max\.ms"):
        check_limits_of(config, batch_at(NOW_MS - 1001, NOW_MS))


def test_a_record_without_a_timestamp_is_not_too_old() -> None:
    config = parse_topic_config({"message.timestamp.before.max.ms": "1000"})
    check_limits_of(config, batch_at(-1))


def test_where_the_broker_stamps_records_their_own_time_does_not_matter() -> None:
    config = parse_topic_config({"message.timestamp.type": "LogAppendTime", "message.timestamp.before.max.ms": "1"})
    check_limits_of(config, batch_at(0, NOW_MS * 2))


@pytest.mark.parametrize("codec", list(Codec))
def test_a_record_without_a_key_is_found_in_any_batch(codec: Codec) -> None:
    keyed = [NewRecord(b"", b"empty is a key"), NewRecord(b"k", None)]
    check_keys(encode_batch(keyed, codec=codec, now_ms=NOW_MS))
    with pytest.raises(InvalidRecord, match="record 2 has no key"):
        check_keys(encode_batch([*keyed, NewRecord(None, b"v")], codec=codec, now_ms=NOW_MS))


def test_a_damaged_batch_is_not_opened() -> None:
    batch = bytearray(encode_batch([NewRecord(b"k", b"value")], now_ms=NOW_MS))
    batch[-2] ^= 1
    with pytest.raises(CorruptBatch, match="checksum"):
        check_keys(batch)


def test_acks_are_none_leader_or_all() -> None:
    for acks in (0, 1, -1):
        check_acks(acks, 1, 1)
    for acks in (2, -2):
        with pytest.raises(InvalidRequiredAcks):
            check_acks(acks, 1, 1)


def test_acks_all_needs_enough_copies_and_the_others_do_not() -> None:
    with pytest.raises(NotEnoughReplicas):
        check_acks(-1, 1, 2)
    check_acks(1, 1, 2)
    check_acks(0, 1, 2)
