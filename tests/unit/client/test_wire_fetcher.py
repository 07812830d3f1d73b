"""The reader of raw batches: what it says when a batch came damaged."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from goqueue.client.wire.fetcher import fetch_range
from goqueue.codec.batch import PREFIX_BYTES, encode_prefix
from goqueue.codec.batch_encode import encode_batch
from goqueue.errors import CorruptBatch, DamagedFetch, UnsupportedFormat, wire_of
from goqueue.records import NewRecord, TopicPartition

PLACE = TopicPartition("orders", 3)


class OneAnswer:
    """A broker of one partition, without a network: every fetch is answered by the same bytes."""

    def __init__(self, records: bytes) -> None:
        row = SimpleNamespace(
            error_code=0,
            records=memoryview(records),
            aborted_transactions=None,
            high_watermark=99,
            last_stable_offset=99,
        )
        self.answer = SimpleNamespace(error_code=0, responses=[SimpleNamespace(partitions=[row])])

    def leader(self, place):
        assert place == PLACE
        return self

    def call(self, *_):
        return self.answer

    def repeat(self, work):
        return work()

    def close(self):
        """Nothing is open."""


def batch_at(offset: int, *values: bytes) -> bytes:
    batch = encode_batch([NewRecord(None, value) for value in values], now_ms=1_000)
    return encode_prefix(offset, len(batch) - 12, 0) + batch[PREFIX_BYTES:]


def flipped(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]


def test_a_damaged_batch_is_named_by_topic_partition_and_offset():
    sound, damaged = batch_at(40, b"a", b"b"), flipped(batch_at(42, b"c"), 66)
    with pytest.raises(DamagedFetch) as caught:
        list(fetch_range(OneAnswer(sound + damaged), PLACE, 40, 50))
    error = caught.value
    assert (error.topic, error.partition, error.offset) == ("orders", 3, 42)
    assert str(error) == "topic 'orders', partition 3, is damaged at offset 42: the batch's checksum does not match"
    assert "goqueue log verify" in error.hint
    assert wire_of(error) == wire_of(CorruptBatch("any"))


def test_damage_in_the_first_batch_is_at_the_offset_that_was_asked_for():
    with pytest.raises(DamagedFetch, match="damaged at offset 41: "):
        list(fetch_range(OneAnswer(flipped(batch_at(40, b"a", b"b"), 66)), PLACE, 41, 50))


def test_a_length_that_cannot_be_is_damage_too():
    broken = bytearray(batch_at(42, b"c"))
    broken[8:12] = (-5).to_bytes(4, "big", signed=True)
    with pytest.raises(DamagedFetch, match="damaged at offset 42: a batch claims 7 bytes"):
        list(fetch_range(OneAnswer(batch_at(40, b"a", b"b") + bytes(broken)), PLACE, 40, 50))


def test_an_old_message_format_is_not_called_damage():
    old = bytearray(batch_at(40, b"a"))
    old[PREFIX_BYTES] = 1
    with pytest.raises(UnsupportedFormat, match="format 1"):
        list(fetch_range(OneAnswer(bytes(old)), PLACE, 40, 50))
