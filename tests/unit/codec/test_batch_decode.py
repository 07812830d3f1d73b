"""One record out of a batch."""

from __future__ import annotations

import pytest

from goqueue.codec.batch import parse_batch_header
from goqueue.codec.batch_decode import decode_record_at, decode_records
from goqueue.codec.batch_encode import encode_batch, encode_sparse_batch
from goqueue.codec.compression import Codec
from goqueue.errors import CorruptBatch
from goqueue.records import NewRecord

RECORDS = [NewRecord(b"k%d" % at, b"v", (("h", b"x"),)) for at in range(10)]


@pytest.mark.parametrize("codec", list(Codec))
def test_one_record_is_the_same_as_out_of_all_of_them(codec: Codec) -> None:
    batch = encode_batch(RECORDS, codec=codec, now_ms=1000)
    opened = decode_records(batch)
    assert [decode_record_at(batch, at) for at in range(10)] == opened
    assert decode_record_at(batch, 10) is None


def test_an_offset_whose_record_was_removed_has_none() -> None:
    batch = encode_batch(RECORDS, now_ms=1000)
    left = [one for one in decode_records(batch) if one.offset in {2, 7}]
    sparse = encode_sparse_batch(parse_batch_header(batch), left)
    assert [decode_record_at(sparse, at) for at in (1, 2, 3, 7, 9)] == [None, left[0], None, left[1], None]


def test_a_batch_that_cannot_be_read_is_named_so() -> None:
    batch = bytearray(encode_batch(RECORDS, now_ms=1000))
    batch[61:] = b"\xff" * (len(batch) - 61)
    with pytest.raises(CorruptBatch):
        decode_record_at(bytes(batch), 5)
