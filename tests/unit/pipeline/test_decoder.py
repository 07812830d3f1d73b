"""The decoder that reads whole arrays at once says exactly what the record codec says."""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy", reason="needs goqueue[spark]")
pa = pytest.importorskip("pyarrow", reason="needs goqueue[spark]")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from goqueue.codec.batch import parse_batch_header, split_batches  # noqa: E402
from goqueue.codec.batch_decode import decode_records  # noqa: E402
from goqueue.codec.batch_encode import encode_batch, encode_sparse_batch, stamped  # noqa: E402
from goqueue.errors import CorruptBatch  # noqa: E402
from goqueue.pipeline.decoding import layout as layouts  # noqa: E402
from goqueue.pipeline.decoding import record_starts as starts_of  # noqa: E402
from goqueue.pipeline.decoding.batches import Batches  # noqa: E402
from goqueue.pipeline.decoding.columns import RECORD_COLUMNS, Bounds, _from_records, record_batches  # noqa: E402
from goqueue.pipeline.decoding.varints import ROOM_BYTES, TooLong, Varints  # noqa: E402
from goqueue.records import NewRecord, TopicPartition  # noqa: E402

PLACE = TopicPartition("orders", 3)
ALL = list(RECORD_COLUMNS)

text = (
    st.binary(max_size=20) | st.none() | st.sampled_from([bytes(63), bytes(64), bytes(8191), bytes(8192), bytes(9001)])
)
header = st.tuples(
    st.sampled_from(["a", "goqueue-priority", "goqueue_priority", "żółw", ""]),
    st.none() | st.binary(max_size=3) | st.sampled_from([b"0", b"4", b"HIGH", b"background", b"7"]),
)
record = st.builds(
    NewRecord,
    text,
    text,
    st.lists(header, max_size=3).map(tuple),
    st.integers(-1, 2**45) | st.integers(10**12, 10**12 + 100),
)
batches = st.lists(
    st.tuples(st.lists(record, min_size=1, max_size=6), st.integers(0, 4), st.booleans(), st.integers(0, 63)),
    min_size=1,
    max_size=40,
)


def at(batch: bytes, offset: int) -> bytes:
    return offset.to_bytes(8, "big") + batch[8:]


def build(parts: list[tuple[list[NewRecord], int, bool, int]]) -> memoryview:
    data, offset = b"", 1_000
    for records, codec, append_time, sparse in parts:
        batch = at(encode_batch(records, codec=codec, now_ms=5), offset)
        if append_time:
            batch = at(stamped(batch, 777), offset)
        if sparse:
            kept = [one for number, one in enumerate(decode_records(batch)) if sparse >> number & 1]
            batch = encode_sparse_batch(parse_batch_header(batch), kept)
        data += batch
        offset += len(records) + sparse % 3
    return memoryview(data)


def batches_in(view: memoryview) -> Batches:
    starts, start = [], 0
    for batch in split_batches(view):
        starts.append(start)
        start += len(batch)
    return Batches(view, starts)


def record_batch(place: TopicPartition, found: Batches, columns: list[str], bounds: Bounds, piece_bytes: int = 500):
    pieces = list(record_batches(place, found, columns, bounds, piece_bytes))
    return pa.Table.from_batches(pieces).combine_chunks().to_batches()[0] if pieces else None


@given(batches, st.booleans())
@settings(max_examples=150, deadline=None)
def test_every_column_of_every_record_is_the_same_both_ways(parts, in_step):
    view = build(parts)
    found = batches_in(view)
    before = starts_of.IN_STEP_MIN
    starts_of.IN_STEP_MIN = 1 if in_step else 10_000
    try:
        fast = record_batch(PLACE, found, ALL, Bounds())
    finally:
        starts_of.IN_STEP_MIN = before
    slow = _from_records(PLACE, found, ALL, Bounds())
    assert (fast is None and slow is None) or fast.equals(slow)


sizes = st.sampled_from([0, 1, 20, 56, 57, 100, 1000, 8180, 9000])


@given(
    st.lists(st.tuples(sizes, st.sampled_from([1, 2, 63, 64, 65, 130])), min_size=1, max_size=4),
    st.none() | st.binary(max_size=12),
    st.none() | st.tuples(st.integers(0, 3), st.integers(0, 129)),
)
@settings(max_examples=80, deadline=None)
def test_records_of_one_size_and_almost_of_one_size_are_the_same_both_ways(shapes, key, odd):
    """`odd` makes one record longer and the next one shorter, so that the batch is as long as if all were alike."""
    parts = [
        ([NewRecord(key, bytes(size), (), 10**12 + n) for n in range(count)], 0, False, 0) for size, count in shapes
    ]
    if odd is not None and odd[0] < len(parts) and shapes[odd[0]][0]:
        records, size = parts[odd[0]][0], shapes[odd[0]][0]
        number = odd[1] % len(records)
        records[number] = NewRecord(key, bytes(size + 1), (), 10**12)
        if number:
            records[number - 1] = NewRecord(key, bytes(size - 1), (), 10**12)
    view = build(parts)
    found = batches_in(view)
    assert record_batch(PLACE, found, ALL, Bounds()).equals(_from_records(PLACE, found, ALL, Bounds()))


@pytest.mark.parametrize("size", [100, 9000])
def test_ten_thousand_records_of_one_size_in_a_batch_are_found(size):
    view = build([([NewRecord(b"k", bytes(size))] * 10_000, 0, False, 0)])
    laid = layouts.lay_out(batches_in(view))
    assert laid.offset.tolist() == list(range(1_000, 11_000))
    assert set(laid.value_bytes.tolist()) == {size}


def test_regular_records_are_found_without_following_them(monkeypatch):
    monkeypatch.setattr(starts_of, "_in_step", None)
    monkeypatch.setattr(starts_of, "_one_by_one", None)
    view = build([([NewRecord(b"key", bytes(200))] * count, 0, False, 0) for count in (1, 64, 65, 300)])
    assert layouts.lay_out(batches_in(view)).count == 430


def test_what_only_the_record_codec_reads_is_read_by_it_from_the_row_on_where_that_was_found():
    plain = [NewRecord(b"k", bytes(50), (("name", b"v"),))] * 20
    odd = bytearray(encode_batch(plain, now_ms=5))
    at_name = odd.rindex(b"name")
    odd[at_name : at_name + 4] = b"\xff\xfe\xfd\xfc"
    view = memoryview(at(encode_batch(plain, now_ms=5), 0) + at(bytes(odd), 20))
    pieces = record_batches(PLACE, batches_in(view), ALL, Bounds(), piece_bytes=1000)
    assert next(pieces)["offset"].to_pylist()[0] == 0
    with pytest.raises(CorruptBatch):
        list(pieces)


@given(batches, st.integers(990, 1100), st.integers(990, 1100), st.integers(0, 2 * 10**15))
@settings(max_examples=60, deadline=None)
def test_bounds_keep_exactly_what_lies_in_them(parts, start, end, start_us):
    view = build(parts)
    bounds = Bounds(start, end, start_us)
    fast = record_batch(PLACE, batches_in(view), ["offset", "timestamp", "value"], bounds)
    slow = _from_records(PLACE, batches_in(view), ["offset", "timestamp", "value"], bounds)
    assert (fast is None and slow is None) or fast.equals(slow)


def test_a_buffer_with_room_behind_it_is_not_copied():
    batch = encode_batch([NewRecord(b"k", b"v")], now_ms=5)
    buffer = bytearray(batch + bytes(ROOM_BYTES))
    view = memoryview(buffer)[: len(batch)]
    laid = layouts.lay_out(batches_in(view))
    assert laid.data.ctypes.data == np.frombuffer(buffer, np.uint8).ctypes.data
    assert layouts.lay_out(batches_in(memoryview(batch))).data.tobytes()[: len(batch)] == batch


@given(st.lists(st.integers(-(2**54), 2**54 - 1), min_size=1, max_size=50))
def test_numbers_of_up_to_eight_bytes_are_read(numbers):
    data, places = bytearray(), []
    for number in numbers:
        places.append(len(data))
        plain = (number << 1) ^ (number >> 63)
        while plain > 0x7F:
            data.append(plain & 0x7F | 0x80)
            plain >>= 7
        data.append(plain)
    ends = [*places[1:], len(data)]
    values, behind = Varints(np.frombuffer(bytes(data) + bytes(ROOM_BYTES), np.uint8)).read(np.array(places))
    assert values.tolist() == numbers
    assert behind.tolist() == ends


def test_a_number_without_an_end_is_left_to_the_careful_reader():
    with pytest.raises(TooLong):
        Varints(np.full(40, 0xFF, np.uint8)).read(np.array([0]))


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_damaged_records_are_refused_or_read_but_never_crash(data):
    batch = bytearray(encode_batch([NewRecord(b"key", b"value", (("a", b"b"),))] * 5, now_ms=5))
    position = data.draw(st.integers(61, len(batch) - 1))
    batch[position] = data.draw(st.integers(0, 255))
    view = memoryview(bytes(batch))
    try:
        fast = record_batch(PLACE, batches_in(view), ALL, Bounds())
    except CorruptBatch:
        return
    assert fast is None or fast.num_rows <= 5


def test_a_count_that_the_bytes_cannot_hold_is_refused():
    batch = encode_batch([NewRecord(None, b"v")], now_ms=5)
    lying = batch[:57] + (2**31 - 1).to_bytes(4, "big") + batch[61:]
    with pytest.raises(CorruptBatch, match="more records than its bytes can hold"):
        layouts.lay_out(batches_in(memoryview(lying)))
