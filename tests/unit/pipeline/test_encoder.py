"""Records that the sink writes are those that the record codec reads."""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy", reason="needs goqueue[spark]")
pa = pytest.importorskip("pyarrow", reason="needs goqueue[spark]")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from goqueue.codec.batch_decode import decode_records  # noqa: E402
from goqueue.codec.batch_encode import encode_batch, encode_section_parts  # noqa: E402
from goqueue.pipeline.sink.encoder import encode_sections, header_block  # noqa: E402
from goqueue.records import NewRecord  # noqa: E402

data = st.none() | st.binary(max_size=5) | st.sampled_from([bytes(63), bytes(64), bytes(8191), bytes(9000)])
headers = st.lists(st.tuples(st.sampled_from(["a", "żółw", "x" * 70]), st.none() | st.binary(max_size=80)), max_size=3)
row = st.tuples(data, data, st.integers(-1, 2**45), headers)


@given(st.lists(row, min_size=1, max_size=40), st.booleans(), st.sampled_from([1, 300, 20_000, 10**6]))
@settings(max_examples=150, deadline=None)
def test_rows_become_the_records_that_they_are(rows, with_headers, batch_bytes):
    keys, values, stamps, lists = zip(*rows, strict=True)
    blocks = pa.array([header_block(one) for one in lists], pa.binary()) if with_headers else None

    sections = list(
        encode_sections(
            pa.array(keys, pa.binary()), pa.array(values, pa.binary()), np.array(stamps), blocks, batch_bytes
        )
    )

    found = []
    for section in sections:
        parts = encode_section_parts(
            section.records,
            section.count,
            base_timestamp_ms=section.base_timestamp_ms,
            max_timestamp_ms=section.max_timestamp_ms,
        )
        records = decode_records(b"".join(parts))
        assert [record.offset for record in records] == list(range(section.count))
        assert section.max_timestamp_ms == max(record.timestamp_ms for record in records)
        found += [(one.key, one.value, one.timestamp_ms, list(one.headers)) for one in records]
    assert found == [(k, v, t, h if with_headers else []) for k, v, t, h in rows]


def test_the_bytes_are_those_of_the_record_codec():
    rows = [NewRecord(b"k%d" % one, bytes(one), (), 1000 + one) for one in range(300)]
    (section,) = encode_sections(
        pa.array([one.key for one in rows], pa.binary()),
        pa.array([one.value for one in rows], pa.binary()),
        np.array([one.timestamp_ms for one in rows]),
        None,
        10**6,
    )
    ours = b"".join(encode_section_parts(section.records, 300, base_timestamp_ms=1000, max_timestamp_ms=1299))
    assert ours == encode_batch(rows, now_ms=0)


def test_a_batch_of_small_records_ends_at_two_thousand():
    rows = 4_500
    keys, values = pa.nulls(rows, pa.binary()), pa.array([b"v"] * rows)

    sections = encode_sections(keys, values, np.zeros(rows, np.int64), None, 10**6)

    assert [section.count for section in sections] == [2000, 2000, 500]


def test_a_batch_never_becomes_larger_than_it_may_unless_one_row_is():
    values = pa.array([bytes(400), bytes(400), bytes(2000), bytes(10)])

    sections = list(encode_sections(pa.nulls(4, pa.binary()), values, np.zeros(4, np.int64), None, 1000))

    assert [section.count for section in sections] == [2, 1, 1]
