"""Idempotence: what a partition takes, refuses and recognises of a producer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.codec.batch import BatchHeader
from goqueue.errors import (
    DamagedIndex,
    DuplicateSequence,
    InvalidTransactionState,
    OutOfOrderSequence,
    ProducerFenced,
)
from goqueue.log.state.producer_state import LastBatch, ProducerState, StoredBatch
from goqueue.records import AbortedTransaction

SEQUENCE_MAX = 2**31 - 1
DAY_MS = 24 * 3600 * 1000


def batch(sequence, *, producer_id=7, epoch=0, count=1, transactional=False, control=False):
    return BatchHeader(
        base_offset=0,
        length=49,
        leader_epoch=0,
        magic=2,
        crc=0,
        attributes=(0x10 if transactional else 0) | (0x20 if control else 0),
        last_offset_delta=count - 1,
        base_timestamp_ms=0,
        max_timestamp_ms=0,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        count=count,
    )


def marker(*, producer_id=7, epoch=0):
    return batch(-1, producer_id=producer_id, epoch=epoch, transactional=True, control=True)


def fresh(window=5, expiry_ms=7 * DAY_MS):
    return ProducerState(window, expiry_ms)


def write(state, header, offset, *, now_ms=1000):
    """As the log does it: look, write, take note."""
    assert state.check(header) is None
    state.apply(header, offset, commit=None, now_ms=now_ms)


def mark(state, offset, *, commit, producer_id=7, epoch=0, now_ms=1000, coordinator_epoch=-1):
    header = marker(producer_id=producer_id, epoch=epoch)
    assert state.check(header, coordinator_epoch=coordinator_epoch) is None
    return state.apply(header, offset, commit=commit, now_ms=now_ms, coordinator_epoch=coordinator_epoch)


def test_a_retry_within_the_window_gets_the_offsets_of_the_original():
    state = fresh()
    write(state, batch(0, count=3), 100, now_ms=5)
    write(state, batch(3, count=2), 110, now_ms=6)

    assert state.check(batch(0, count=3)) == StoredBatch(0, 2, 100, 102, 5)
    assert state.check(batch(3, count=2)) == StoredBatch(3, 4, 110, 111, 6)


def test_a_check_without_its_write_leaves_no_trace_so_the_retry_is_taken_w35():
    state = fresh()
    write(state, batch(0), 0)
    before = state.encode()

    for _ in range(3):  # each time the disk refused
        assert state.check(batch(1)) is None
    with pytest.raises(OutOfOrderSequence):
        state.check(batch(9))

    assert state.encode() == before
    write(state, batch(1), 1)


def test_a_gap_in_the_sequence_is_refused():
    state = fresh()
    write(state, batch(0), 0)
    with pytest.raises(OutOfOrderSequence, match="sent sequence 2, expected 1"):
        state.check(batch(2))


def test_a_batch_that_overlaps_the_window_but_matches_none_is_refused():
    state = fresh()
    write(state, batch(0, count=4), 0)
    with pytest.raises(OutOfOrderSequence):
        state.check(batch(0, count=2))
    with pytest.raises(OutOfOrderSequence):
        state.check(batch(2, count=4))


def test_a_batch_older_than_the_window_is_a_duplicate_whose_offset_is_forgotten():
    state = fresh(window=5)
    for sequence in range(6):
        write(state, batch(sequence), sequence)

    assert state.check(batch(1)) is not None
    with pytest.raises(DuplicateSequence):
        state.check(batch(0))


def test_what_a_producer_sent_before_we_knew_it_is_not_called_a_duplicate():
    """Its history here begins at 100: sequence 99 may never have been stored at all."""
    state = fresh(window=2)
    for sequence in range(100, 105):
        write(state, batch(sequence), sequence)

    with pytest.raises(DuplicateSequence):
        state.check(batch(100))
    with pytest.raises(OutOfOrderSequence):
        state.check(batch(99))
    with pytest.raises(OutOfOrderSequence):
        state.check(batch(99, count=2))


def test_an_unknown_producer_may_begin_anywhere_as_in_kafka():
    state = fresh()
    write(state, batch(41), 0)
    write(state, batch(42), 1)
    with pytest.raises(OutOfOrderSequence):
        state.check(batch(44))


def test_a_new_epoch_starts_anew_at_sequence_zero_w34():
    state = fresh()
    write(state, batch(0, epoch=0), 0)
    write(state, batch(1, epoch=0), 1)

    with pytest.raises(OutOfOrderSequence, match="begins epoch 1 at sequence 2"):
        state.check(batch(2, epoch=1))
    write(state, batch(0, epoch=1), 2)
    assert state.check(batch(0, epoch=1)).first_offset == 2
    with pytest.raises(OutOfOrderSequence):
        state.check(batch(5, epoch=1))


def test_an_older_epoch_is_fenced_even_when_its_batch_is_a_retry_w36():
    state = fresh()
    write(state, batch(0, epoch=3), 0)
    write(state, batch(0, epoch=4), 1)
    with pytest.raises(ProducerFenced, match="epoch 3, but epoch 4"):
        state.check(batch(0, epoch=3))


def test_sequences_wrap_from_the_largest_to_zero_w40():
    state = fresh(window=2)
    write(state, batch(SEQUENCE_MAX - 1, count=2), 0)
    write(state, batch(0), 2)
    write(state, batch(1), 3)

    with pytest.raises(DuplicateSequence):
        state.check(batch(SEQUENCE_MAX - 1, count=2))
    assert state.check(batch(0)).first_offset == 2


def test_one_batch_may_lie_across_the_wrap():
    state = fresh()
    write(state, batch(SEQUENCE_MAX, count=3), 10)
    assert state.check(batch(SEQUENCE_MAX, count=3)) == StoredBatch(SEQUENCE_MAX, 1, 10, 12, 1000)
    write(state, batch(2), 13)


def test_producers_do_not_disturb_each_other():
    state = fresh()
    write(state, batch(0, producer_id=1), 0)
    write(state, batch(0, producer_id=2), 1)
    write(state, batch(1, producer_id=1), 2)
    assert state.check(batch(0, producer_id=2)).first_offset == 1


def test_batches_without_a_producer_are_not_remembered():
    state = fresh()
    header = batch(-1, producer_id=-1, epoch=-1)
    assert state.check(header) is None
    assert state.apply(header, 0, commit=None, now_ms=0) is None
    assert len(state) == 0


def test_an_open_transaction_holds_back_the_stable_offset_until_its_marker():
    state = fresh()
    write(state, batch(0, producer_id=1, transactional=True), 10)
    write(state, batch(0, producer_id=2, transactional=True), 11)
    write(state, batch(1, producer_id=1, transactional=True), 12)
    assert state.first_open_offset() == 10

    assert mark(state, 13, commit=True, producer_id=1) is None
    assert state.first_open_offset() == 11
    assert mark(state, 14, commit=True, producer_id=2) is None
    assert state.first_open_offset() is None


def test_an_abort_marker_names_what_it_aborts_and_the_stable_offset_of_that_moment():
    state = fresh()
    write(state, batch(0, producer_id=1, transactional=True), 10)
    write(state, batch(0, producer_id=2, transactional=True), 20)

    assert mark(state, 30, commit=False, producer_id=2) == AbortedTransaction(2, 20, 30, 10)
    assert mark(state, 31, commit=False, producer_id=1) == AbortedTransaction(1, 10, 31, 32)


def test_a_marker_above_the_high_watermark_does_not_yet_settle_its_transaction():
    state = fresh()
    write(state, batch(0, producer_id=1, transactional=True), 10)
    write(state, batch(0, producer_id=2, transactional=True), 11)
    mark(state, 12, commit=True, producer_id=1)

    state.settle(12)
    assert state.first_unstable_offset() == 10
    state.settle(13)
    assert state.first_unstable_offset() == 11
    mark(state, 13, commit=True, producer_id=2)
    state.settle(14)
    assert state.first_unstable_offset() is None


def test_a_marker_without_data_decides_nothing_but_fences_the_older_epoch():
    state = fresh()
    assert mark(state, 0, commit=False, epoch=5) is None
    with pytest.raises(ProducerFenced):
        state.check(batch(0, epoch=4))
    with pytest.raises(ProducerFenced):
        state.check(marker(epoch=4))
    write(state, batch(0, epoch=5), 1)


def test_a_marker_with_a_bumped_epoch_resets_the_sequence():
    state = fresh()
    write(state, batch(0, epoch=0, transactional=True), 0)
    mark(state, 1, commit=True, epoch=1)
    with pytest.raises(ProducerFenced):
        state.check(batch(1, epoch=0, transactional=True))
    with pytest.raises(OutOfOrderSequence):
        state.check(batch(1, epoch=1, transactional=True))
    write(state, batch(0, epoch=1, transactional=True), 2)


def test_a_marker_with_the_same_epoch_lets_the_sequence_go_on():
    state = fresh()
    write(state, batch(0, transactional=True), 0)
    mark(state, 1, commit=True)
    write(state, batch(1, transactional=True), 2)
    assert state.first_open_offset() == 2


def test_a_plain_write_inside_an_open_transaction_is_refused():
    state = fresh()
    write(state, batch(0, transactional=True), 0)
    with pytest.raises(InvalidTransactionState):
        state.check(batch(1))


def test_a_marker_from_a_replaced_coordinator_is_refused():
    state = fresh()
    write(state, batch(0, transactional=True), 0)
    mark(state, 1, commit=True, coordinator_epoch=4)
    with pytest.raises(InvalidTransactionState, match="coordinator epoch 3"):
        state.check(marker(), coordinator_epoch=3)
    assert state.check(marker(), coordinator_epoch=4) is None


def test_idle_producers_are_forgotten_but_never_one_with_an_open_transaction():
    state = fresh(expiry_ms=100)
    write(state, batch(0, producer_id=1), 0, now_ms=1000)
    write(state, batch(0, producer_id=2, transactional=True), 1, now_ms=1000)
    write(state, batch(0, producer_id=3), 2, now_ms=1001)

    assert state.expire(1099) == 0
    assert state.expire(1100) == 1
    assert sorted(info.producer_id for info in state.producers()) == [2, 3]
    assert state.first_open_offset() == 1
    assert state.expire(10**9) == 1


def test_an_expired_producer_may_go_on_where_it_was_w40():
    state = fresh(expiry_ms=100)
    write(state, batch(0), 0, now_ms=0)
    state.expire(1000)
    write(state, batch(1), 1, now_ms=1000)


def test_operators_see_what_kafka_shows_of_a_producer():
    state = fresh()
    write(state, batch(0, epoch=2, count=5, transactional=True), 40, now_ms=77)
    (info,) = state.producers()
    assert (info.producer_id, info.epoch, info.last_sequence) == (7, 2, 4)
    assert (info.last_timestamp_ms, info.coordinator_epoch, info.open_first_offset) == (77, -1, 40)


def test_compaction_learns_the_last_batch_of_every_producer():
    state = fresh()
    write(state, batch(0, producer_id=1, count=3), 10)
    mark(state, 20, commit=False, producer_id=2, epoch=6)
    assert state.last_batches() == {1: LastBatch(12, 0), 2: LastBatch(-1, 6)}


def test_a_replay_with_gaps_left_by_compaction_is_taken_and_claims_no_more_than_it_saw():
    state = fresh(window=1)
    state.apply(batch(0), 0, commit=None, now_ms=0)
    state.apply(batch(50), 90, commit=None, now_ms=0)
    state.apply(batch(51), 91, commit=None, now_ms=0)
    with pytest.raises(OutOfOrderSequence):
        state.check(batch(30))
    with pytest.raises(DuplicateSequence):
        state.check(batch(50))
    write(state, batch(52), 92)


def test_a_snapshot_brings_back_windows_and_open_transactions_in_order():
    state = fresh()
    write(state, batch(0, producer_id=9, transactional=True), 5)
    write(state, batch(0, producer_id=1, count=4), 6)
    write(state, batch(0, producer_id=3, transactional=True), 12)
    write(state, batch(4, producer_id=1), 13)

    again = ProducerState.decode(state.encode(), 5, DAY_MS)
    assert again.encode() == state.encode()
    assert again.first_open_offset() == again.first_unstable_offset() == 5
    mark(again, 20, commit=True, producer_id=9)
    assert again.first_open_offset() == 12
    assert again.check(batch(0, producer_id=1, count=4)).first_offset == 6
    with pytest.raises(OutOfOrderSequence):
        again.check(batch(6, producer_id=1))


def test_a_snapshot_is_refused_after_any_single_bit_flip_or_cut():
    state = fresh()
    write(state, batch(0, count=2), 0)
    write(state, batch(2), 2)
    data = state.encode()

    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamagedIndex):
            ProducerState.decode(damaged, 5, DAY_MS)
    for size in range(len(data)):
        with pytest.raises(DamagedIndex):
            ProducerState.decode(data[:size], 5, DAY_MS)
    with pytest.raises(DamagedIndex):
        ProducerState.decode(data + b"\0", 5, DAY_MS)


def test_a_smaller_window_applies_at_once_and_a_larger_one_from_then_on():
    state = fresh(window=3)
    for sequence in range(3):
        write(state, batch(sequence), sequence)
    state.reconfigure(1, DAY_MS)
    with pytest.raises(DuplicateSequence):
        state.check(batch(1))
    state.reconfigure(2, DAY_MS)
    write(state, batch(3), 3)
    assert state.check(batch(2)).first_offset == 2


@given(
    start=st.sampled_from([0, 5, SEQUENCE_MAX - 3, SEQUENCE_MAX]),
    counts=st.lists(st.integers(1, 4), min_size=1, max_size=12),
    window=st.integers(1, 5),
)
def test_every_stored_batch_is_answered_exactly_and_nothing_else_is_taken(start, counts, window):
    state = fresh(window=window)
    sequence, offset, stored = start, 0, []
    for count in counts:
        write(state, batch(sequence, count=count), offset)
        stored.append((sequence, count, offset))
        sequence = (sequence + count) % 2**31
        offset += count

    for first, count, at in stored[-window:]:
        assert state.check(batch(first, count=count)).first_offset == at
    for first, count, _ in stored[:-window]:
        with pytest.raises(DuplicateSequence):
            state.check(batch(first, count=count))
    with pytest.raises(OutOfOrderSequence):
        state.check(batch((sequence + 1) % 2**31))
    with pytest.raises(OutOfOrderSequence):
        state.check(batch((start - 1) % 2**31))
    assert state.check(batch(sequence)) is None
    assert ProducerState.decode(state.encode(), window, DAY_MS).encode() == state.encode()
