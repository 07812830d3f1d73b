"""Cutting stretches out of batches, against the opened records."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from goqueue.codec.batch import HEADER_BYTES, BatchHeader, encode_prefix, parse_batch_header, verify_batch
from goqueue.codec.batch_cut import START, Mark, cut_batch, is_cuttable
from goqueue.codec.batch_decode import decode_records
from goqueue.codec.batch_encode import encode_batch
from goqueue.codec.compression import Codec
from goqueue.errors import CorruptBatch
from goqueue.records import NewRecord

BASE = 7_000
_bytes = st.none() | st.binary(max_size=200)
_records = st.builds(
    NewRecord,
    key=_bytes,
    value=_bytes,
    headers=st.lists(st.tuples(st.text(max_size=5), st.binary(max_size=9)), max_size=2).map(tuple),
    timestamp_ms=st.integers(1_000_000, 1_000_000 + 2**40),
)


def _stored(records: list[NewRecord], **more: int) -> tuple[bytes, BatchHeader]:
    """A batch as it lies in the log, at some offset."""
    batch = encode_batch(records, now_ms=5, **more)
    placed = encode_prefix(BASE, len(batch) - 12, 3) + batch[16:]
    return placed, parse_batch_header(placed)


def _sized(*sizes: int) -> list[NewRecord]:
    return [NewRecord(None, bytes(size)) for size in sizes]


@given(records=st.lists(_records, min_size=1, max_size=40), ends=st.tuples(st.floats(0, 1), st.floats(0, 1)))
def test_a_stretch_opens_to_the_records_that_lie_there(records: list[NewRecord], ends: tuple[float, float]) -> None:
    batch, header = _stored(records)
    first, last = sorted(int(one * (len(records) - 1)) for one in ends)

    cut, mark = cut_batch(batch, header, first, last)

    assert decode_records(cut) == decode_records(batch)[first : last + 1]
    assert verify_batch(cut)[:1] == (BASE,)
    assert mark.delta == last + 1
    assert (mark.position == len(batch)) == (last == len(records) - 1)


@given(sizes=st.lists(st.sampled_from([0, 1, 50, 62, 8_000]), min_size=1, max_size=8), repeat=st.integers(1, 40))
@example(sizes=[50], repeat=40)
@example(sizes=[8_180], repeat=40)
def test_stretches_one_after_the_other_make_up_the_batch(sizes: list[int], repeat: int) -> None:
    records = _sized(*[size for size in sizes for _ in range(repeat)])
    batch, header = _stored(records)
    found, mark, step = [], START, 1 + len(records) // 5
    while mark.delta < len(records):
        last = min(mark.delta + step, len(records)) - 1
        cut, mark = cut_batch(batch, header, mark.delta, last, mark)
        found += decode_records(cut)

    assert found == decode_records(batch)
    assert mark.position == len(batch)


# From 64 records on the offset takes two bytes and from 8,192 on three, so their sizes differ too.
@pytest.mark.parametrize(("first", "last"), [(0, 0), (0, 499), (60, 70), (8_000, 8_499), (8_999, 8_999), (0, 8_999)])
def test_thousands_of_records_of_one_size_are_cut_anywhere(first: int, last: int) -> None:
    batch, header = _stored(_sized(*[100] * 9_000))

    cut, mark = cut_batch(batch, header, first, last)

    assert decode_records(cut) == decode_records(batch)[first : last + 1]
    again, _ = cut_batch(batch, header, first, last, Mark(last + 1, mark.position))
    assert again == cut


def test_the_whole_batch_is_cut_to_itself() -> None:
    batch, header = _stored(_sized(1, 2, 3))

    assert cut_batch(batch, header, 0, 2) == (batch, Mark(3, len(batch)))


def test_producer_and_times_stay_and_a_view_is_cut_as_well() -> None:
    batch, header = _stored(_sized(1, 2, 3), producer_id=9, producer_epoch=1, base_sequence=4)

    cut, _ = cut_batch(memoryview(batch), header, 1, 1)

    kept = verify_batch(cut)
    assert (kept.base_offset, kept.last_offset, kept.count) == (BASE, BASE + 1, 1)
    assert (kept.producer_id, kept.producer_epoch, kept.base_sequence) == (9, 1, 4)
    assert (kept.base_timestamp_ms, kept.max_timestamp_ms) == (5, 5)


def test_packed_batches_and_those_with_gaps_are_not_cut() -> None:
    _, plain = _stored(_sized(1, 2))
    _, packed = _stored(_sized(1, 2), codec=Codec.GZIP)

    assert is_cuttable(plain)
    assert not is_cuttable(packed)
    assert not is_cuttable(plain._replace(count=1))
    assert not is_cuttable(plain._replace(count=100_001, last_offset_delta=100_000))


@pytest.mark.parametrize(
    ("at", "byte"),
    [(0, 0x01), (0, 0x7E), (2, 0x02)],
    ids=["a negative size", "a size behind the end", "a wrong offset"],
)
def test_records_that_are_not_where_they_should_be_are_noticed(at: int, byte: int) -> None:
    batch, header = _stored(_sized(1, 2, 3))
    broken = bytearray(batch)
    # The first record: size, attributes, timestamp, offset.
    broken[HEADER_BYTES + (at + 1 if at else 0)] = byte

    with pytest.raises(CorruptBatch):
        cut_batch(bytes(broken), header, 0, 1)


@given(section=st.binary(max_size=60), first=st.integers(0, 30), more=st.integers(0, 30))
def test_whatever_bytes_there_are_nothing_but_a_corrupt_batch_comes_of_them(
    section: bytes, first: int, more: int
) -> None:
    batch, header = _stored(_sized(1))
    strange = batch[:HEADER_BYTES] + section
    try:
        cut, _ = cut_batch(strange, header, first, first + more)
    except CorruptBatch:
        return
    assert len(cut) <= len(strange)
