"""Record batches: built, checked, opened, thinned out, stamped."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.codec.builders import NOW_MS, new_records, raw_batch, some_batch, timestamps_ms, with_fields

from goqueue.codec.batch import (
    CODEC_MASK,
    BatchHeader,
    check_batch,
    encode_prefix,
    parse_batch_header,
    sound_batches,
    split_batches,
    verify_batch,
)
from goqueue.codec.batch_decode import decode_records
from goqueue.codec.batch_encode import encode_batch, encode_sparse_batch, stamped
from goqueue.codec.compression import Codec
from goqueue.codec.markers import encode_marker, marker_is_commit
from goqueue.errors import CorruptBatch, InvalidRecord, UnsupportedCompression, UnsupportedFormat
from goqueue.records import NewRecord, Record, TimestampType


@given(records=st.lists(new_records, min_size=1, max_size=12), codec=st.sampled_from(Codec))
@settings(deadline=None)
def test_records_come_back_as_they_went_in(records: list[NewRecord], codec: Codec) -> None:
    batch = encode_batch(records, codec=codec, now_ms=NOW_MS)
    header = check_batch(batch)
    assert (header.count, header.codec, header.size) == (len(records), codec, len(batch))
    stamps = [NOW_MS if r.timestamp_ms is None else r.timestamp_ms for r in records]
    assert decode_records(batch) == [Record(i, stamps[i], r.key, r.value, r.headers) for i, r in enumerate(records)]
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (stamps[0], max(stamps))


@given(records=st.lists(new_records, min_size=1, max_size=12), only=st.sets(st.integers(0, 12)))
@settings(deadline=None)
def test_some_records_can_be_taken_out_of_a_batch(records: list[NewRecord], only: set[int]) -> None:
    batch = encode_batch(records, now_ms=NOW_MS)
    assert decode_records(batch, only=only) == [one for one in decode_records(batch) if one.offset in only]


def test_producer_sequence_and_transaction_are_in_the_header() -> None:
    batch = encode_batch(
        [NewRecord(b"k", b"v")] * 4,
        producer_id=77,
        producer_epoch=3,
        base_sequence=10,
        transactional=True,
        now_ms=NOW_MS,
    )
    header = check_batch(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (77, 3, 10, 13)
    assert header.is_transactional
    assert not header.is_control
    assert (header.base_offset, header.leader_epoch, header.last_offset) == (0, -1, 3)


@pytest.mark.parametrize(
    ("base", "delta", "last"), [(0, 0, 0), (2**31 - 1, 0, 2**31 - 1), (2**31 - 1, 1, 0), (2**31 - 2, 5, 3), (-1, 9, -1)]
)
def test_sequences_begin_again_at_zero_after_two_to_the_31(base: int, delta: int, last: int) -> None:
    header = parse_batch_header(some_batch())._replace(base_sequence=base, last_offset_delta=delta)
    assert header.last_sequence == last


def test_a_batch_takes_its_place_without_touching_its_checksum() -> None:
    batch = some_batch()
    placed = encode_prefix(1000, len(batch) - 12, 6) + batch[16:]
    header = verify_batch(placed)
    assert (header.base_offset, header.leader_epoch, header.last_offset) == (1000, 6, 1002)
    assert [r.offset for r in decode_records(placed)] == [1000, 1001, 1002]


def test_every_flipped_bit_behind_the_magic_is_refused_at_the_door() -> None:
    batch = some_batch(1)
    for bit in range(16 * 8, len(batch) * 8):
        damaged = bytearray(batch)
        damaged[bit // 8] ^= 1 << (bit % 8)
        with pytest.raises((CorruptBatch, UnsupportedFormat)):
            check_batch(damaged)


def test_a_batch_must_be_exactly_as_long_as_it_says() -> None:
    batch = some_batch()
    for wrong in (batch + b"x", batch[:-1], batch[:61], batch[:60], batch[:17], batch[:5], b""):
        with pytest.raises(CorruptBatch):
            check_batch(wrong)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"count": 0}, InvalidRecord),
        ({"count": -1, "last_offset_delta": -2}, InvalidRecord),
        ({"count": 2}, InvalidRecord),
        ({"last_offset_delta": 5}, InvalidRecord),
        ({"attributes": 5}, UnsupportedCompression),
        ({"attributes": 0x30, "producer_id": 1, "producer_epoch": 0, "base_sequence": 0}, InvalidRecord),
        ({"attributes": 0x10}, InvalidRecord),
        ({"producer_id": 5}, InvalidRecord),
        ({"producer_id": 5, "base_sequence": 0, "producer_epoch": -1}, InvalidRecord),
    ],
)
def test_what_a_client_may_not_send_is_refused(fields: dict[str, int], error: type[Exception]) -> None:
    with pytest.raises(error):
        check_batch(with_fields(some_batch(), **fields))


@pytest.mark.parametrize("magic", [0, 1, 3])
def test_other_message_formats_are_named_even_when_shorter_than_our_header(magic: int) -> None:
    old = bytes(8) + (30).to_bytes(4, "big") + bytes(4) + bytes([magic]) + bytes(13)
    for read in (check_batch, split_batches):
        with pytest.raises(UnsupportedFormat, match=str(magic)):
            read(old)
    with pytest.raises(UnsupportedFormat):
        decode_records(with_fields(some_batch(), magic=magic))


def test_batches_back_to_back_are_split_without_copying() -> None:
    batches = [some_batch(n) for n in range(1, 5)]
    data = b"".join(batches)
    views = split_batches(data)
    assert views == batches
    assert all(view.obj is data for view in views)
    assert split_batches(b"") == []


def test_a_split_that_does_not_come_out_even_is_corrupt() -> None:
    batch = some_batch()
    for wrong in (
        batch + batch[:-1],
        batch + b"x",
        batch[:40],
        with_fields(batch, length=-12),
        with_fields(batch, length=4),
    ):
        with pytest.raises(CorruptBatch):
            split_batches(wrong)


@given(data=st.data(), codec=st.sampled_from(Codec), base=st.integers(0, 2**40))
@settings(deadline=None)
def test_a_thinned_batch_keeps_place_range_producer_and_the_records_left(
    data: st.DataObject, codec: Codec, base: int
) -> None:
    news = data.draw(st.lists(new_records, min_size=1, max_size=8))
    kept = data.draw(st.sets(st.integers(0, len(news) - 1)))
    whole = with_fields(
        encode_batch(news, codec=codec, producer_id=9, producer_epoch=1, base_sequence=40, now_ms=NOW_MS),
        base_offset=base,
        leader_epoch=4,
    )
    header = parse_batch_header(whole)
    left = [r for i, r in enumerate(decode_records(whole)) if i in kept]
    sparse = encode_sparse_batch(header, left)
    after = verify_batch(sparse)
    assert decode_records(sparse) == left
    assert after.count == len(left)
    for name in ("base_offset", "leader_epoch", "last_offset_delta", "producer_id", "base_sequence"):
        assert getattr(after, name) == getattr(header, name)
    # Clients may not survive the decompression of nothing: what is empty says no codec.
    assert after.attributes == (header.attributes if left else header.attributes & ~CODEC_MASK)
    assert after.last_sequence == header.last_sequence


def test_a_thinned_batch_with_broker_time_keeps_that_time() -> None:
    batch = stamped(some_batch(), NOW_MS + 500)
    left = decode_records(batch)[1:2]
    sparse = encode_sparse_batch(parse_batch_header(batch), left)
    assert [(r.offset, r.timestamp_ms) for r in decode_records(sparse)] == [(1, NOW_MS + 500)]


def test_records_outside_the_batch_or_out_of_order_cannot_be_put_in() -> None:
    header = parse_batch_header(some_batch(3))
    one, two = Record(1, NOW_MS, None, b""), Record(2, NOW_MS, None, b"")
    for wrong in ([two, one], [one, one], [Record(3, NOW_MS, None, b"")]):
        with pytest.raises(CorruptBatch):
            encode_sparse_batch(header, wrong)


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_says_how_its_transaction_ended(commit: bool) -> None:
    batch = encode_marker(commit, producer_id=5, producer_epoch=2, coordinator_epoch=8, now_ms=NOW_MS)
    header = verify_batch(batch)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.count) == (5, 2, -1, 1)
    assert marker_is_commit(batch) is commit
    (record,) = decode_records(batch)
    assert record.key == (b"\x00\x00\x00\x01" if commit else b"\x00\x00\x00\x00")
    assert record.value == b"\x00\x00\x00\x00\x00\x08"


def test_what_is_no_marker_is_not_taken_for_one() -> None:
    leader_change = raw_batch(b"\x12\x00\x00\x00\x08\x00\x00\x00\x02\x01\x00", count=1, attributes=0x20)
    for batch in (some_batch(1), some_batch(2), leader_change):
        with pytest.raises(CorruptBatch):
            marker_is_commit(batch)


@given(codec=st.sampled_from(Codec), now_ms=timestamps_ms)
@settings(deadline=None)
def test_a_stamped_batch_shows_the_brokers_time_on_every_record(codec: Codec, now_ms: int) -> None:
    batch = encode_batch(
        [NewRecord(b"k", b"v", timestamp_ms=5), NewRecord(b"l", b"w", timestamp_ms=9)], codec=codec, now_ms=1
    )
    after = stamped(memoryview(batch), now_ms)
    header = check_batch(after)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header.max_timestamp_ms == now_ms
    assert [(r.key, r.timestamp_ms) for r in decode_records(after)] == [(b"k", now_ms), (b"l", now_ms)]
    assert after[61:] == batch[61:]


def test_what_cannot_be_written_is_an_invalid_record() -> None:
    for records in (
        [],
        [NewRecord(b"k", b"v", (("\ud800", b""),))],
        [NewRecord(b"k", b"v", timestamp_ms=2**63)],
        [NewRecord(b"k", b"v", timestamp_ms=-(2**62)), NewRecord(b"k", b"v", timestamp_ms=2**63 - 1)],
    ):
        with pytest.raises(InvalidRecord):
            encode_batch(records, now_ms=NOW_MS)


def test_a_header_is_a_plain_tuple_of_its_thirteen_fields() -> None:
    header = parse_batch_header(b"lead" + some_batch(), 4)
    assert isinstance(header, BatchHeader)
    assert len(header) == 13
    assert header.timestamp_type is TimestampType.CREATE_TIME


def three_batches() -> tuple[bytes, list[int]]:
    """Offsets 10 to 11, 20 to 21 and 30 to 31, and where each batch begins."""
    batches = [offset.to_bytes(8, "big") + some_batch(2)[8:] for offset in (10, 20, 30)]
    return b"".join(batches), [0, len(batches[0]), len(batches[0]) * 2]


def test_sound_batches_are_found_up_to_an_offset() -> None:
    data, starts = three_batches()
    assert sound_batches(data, 99) == (starts, len(data), 32)
    assert sound_batches(data, 32) == (starts, len(data), 32)
    # The bound lies in a gap, then inside the second batch.
    assert sound_batches(data, 25) == (starts[:2], starts[2], 25)
    assert sound_batches(data, 21) == (starts[:2], starts[2], 22)
    assert sound_batches(b"", 99) == ([], 0, None)
    for cut in range(starts[2], len(data)):
        assert sound_batches(data[:cut], 99) == (starts[:2], starts[2], 22)


def test_sound_batches_refuse_what_verifying_refuses() -> None:
    data, starts = three_batches()
    for position in range(starts[1] + 16, starts[2]):
        damaged = bytearray(data)
        damaged[position] ^= 1
        with pytest.raises((CorruptBatch, UnsupportedFormat)) as one:
            verify_batch(damaged[starts[1] : starts[2]])
        with pytest.raises(type(one.value)):
            sound_batches(damaged, 99)
    short = bytearray(data)
    short[8:12] = (40).to_bytes(4, "big")
    with pytest.raises(CorruptBatch, match="claims 52 bytes"):
        sound_batches(short, 99)
