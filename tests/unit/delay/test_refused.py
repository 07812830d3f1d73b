"""Batches that were refused while their shard was loading: what is behind them waits until they have come again."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pytest

from goqueue.codec.batch import BatchHeader, parse_batch_header
from goqueue.codec.batch_encode import encode_batch
from goqueue.delay.firing.refused import REFUSED_MS_MAX, RefusedBatches
from goqueue.errors import NotLeader
from goqueue.records import NewRecord

PLACE: Any = Mock(topic_id=UUID(int=1), id=0)
OTHER: Any = Mock(topic_id=UUID(int=1), id=1)
LAST_SEQUENCE = 2**31 - 1


def header(sequence: int, *, count: int = 2, epoch: int = 0, producer_id: int = 7) -> BatchHeader:
    records = [NewRecord(None, b"x")] * count
    batch = encode_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, now_ms=1_000)
    return parse_batch_header(batch)


def is_refused(refused: RefusedBatches, one: BatchHeader, now_ms: int = 0, place: Any = PLACE) -> bool:
    try:
        refused.check(place, one, now_ms)
    except NotLeader:
        return True
    return False


def test_what_is_behind_a_refused_batch_is_refused_until_all_of_it_has_come_again():
    refused = RefusedBatches()
    assert isinstance(refused.refuse(PLACE, header(10), 0), NotLeader)
    assert is_refused(refused, header(14))
    assert is_refused(refused, header(12))
    assert not is_refused(refused, header(10))
    assert is_refused(refused, header(14)), "12 was refused, too"
    assert not is_refused(refused, header(12))
    assert not is_refused(refused, header(14))
    assert not refused


def test_what_is_before_a_refused_batch_passes():
    refused = RefusedBatches()
    refused.refuse(PLACE, header(10), 0)
    assert not is_refused(refused, header(8))
    assert is_refused(refused, header(12))


def test_an_earlier_batch_that_is_refused_later_is_the_one_that_must_come_first():
    refused = RefusedBatches()
    refused.refuse(PLACE, header(10), 0)
    refused.refuse(PLACE, header(8), 0)
    assert is_refused(refused, header(10))
    assert not is_refused(refused, header(8))
    assert not is_refused(refused, header(10))
    assert not refused


def test_sequences_are_compared_across_their_end():
    refused = RefusedBatches()
    refused.refuse(PLACE, header(LAST_SEQUENCE), 0)
    assert is_refused(refused, header(1))
    assert not is_refused(refused, header(LAST_SEQUENCE))
    assert not is_refused(refused, header(1))
    assert not refused


@pytest.mark.parametrize(
    ("one", "place"), [(header(20, producer_id=8), PLACE), (header(20), OTHER), (header(-1, producer_id=-1), PLACE)]
)
def test_other_producers_and_partitions_are_not_concerned(one: BatchHeader, place: Any):
    refused = RefusedBatches()
    refused.refuse(PLACE, header(10), 0)
    assert not is_refused(refused, one, place=place)
    assert is_refused(refused, header(12))


def test_a_producer_that_begins_a_new_epoch_starts_afresh():
    refused = RefusedBatches()
    refused.refuse(PLACE, header(10), 0)
    assert not is_refused(refused, header(20, epoch=1))
    assert not refused


def test_a_batch_that_never_comes_again_does_not_stop_its_producer_for_ever():
    refused = RefusedBatches()
    refused.refuse(PLACE, header(10), 0)
    assert is_refused(refused, header(12), REFUSED_MS_MAX)
    assert not is_refused(refused, header(12), REFUSED_MS_MAX + 1)
    assert not refused


def test_a_batch_without_a_sequence_is_refused_and_not_remembered():
    refused = RefusedBatches()
    assert isinstance(refused.refuse(PLACE, header(-1, producer_id=-1), 0), NotLeader)
    assert not refused
