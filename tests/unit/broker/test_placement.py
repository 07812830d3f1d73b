"""Records on their way to partitions."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.broker.arrivals.placement import PlacedRecords, place_records, split_placed
from goqueue.codec.batch_encode import encode_batch
from goqueue.partitioner import RoundRobin, partition_for_key
from goqueue.records import NewRecord

HEADERS = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=40)), max_size=3).map(tuple)
RECORDS = st.builds(
    NewRecord,
    key=st.none() | st.binary(max_size=20),
    value=st.none() | st.binary(max_size=300),
    headers=HEADERS,
    timestamp_ms=st.none() | st.integers(0, 2**45),
)


@settings(deadline=None)
@given(st.lists(RECORDS, max_size=40), st.integers(1, 5))
def test_every_record_is_placed_once_and_in_order(records: list[NewRecord], partitions: int) -> None:
    placements = place_records(
        records, range(len(records)), partitions=partitions, algorithm="murmur3", turns=RoundRobin()
    )
    placed = [position for one in placements for position in one.positions]
    assert sorted(placed) == list(range(len(records)))
    assert len({placed.partition for placed in placements}) == len(placements)
    for placed in placements:
        assert list(placed.positions) == sorted(placed.positions)
        for position in placed.positions:
            key = records[position].key
            assert key is None or partition_for_key(key, partitions) == placed.partition


def test_records_without_a_key_are_even_over_several_requests() -> None:
    turns = RoundRobin()
    counts: Counter[int] = Counter()
    for size in (1, 2, 5, 1, 3):
        records = [NewRecord(None, b"v")] * size
        for placed in place_records(records, range(size), partitions=3, algorithm="murmur3", turns=turns):
            counts[placed.partition] += len(placed.positions)
    assert counts == {0: 4, 1: 4, 2: 4}


@settings(deadline=None)
@given(st.lists(RECORDS, min_size=1, max_size=30), st.integers(100, 3000))
def test_batches_stay_below_the_limit_unless_one_record_is_too_large(records: list[NewRecord], limit: int) -> None:
    pieces = split_placed(PlacedRecords(0, range(len(records))), records, limit)
    assert [position for piece in pieces for position in piece.positions] == list(range(len(records)))
    for piece in pieces:
        batch = encode_batch([records[position] for position in piece.positions], now_ms=1_700_000_000_000)
        assert len(batch) <= limit or len(piece.positions) == 1
