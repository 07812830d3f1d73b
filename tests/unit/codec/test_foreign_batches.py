"""Batches that other people's clients made are read, and ours are read by them.

The files in `batches/` hold what librdkafka 2.16 sent to a broker, one per compression.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from tests.unit.codec.builders import NOW_MS

from goqueue.codec.batch import check_batch, split_batches
from goqueue.codec.batch_decode import decode_records
from goqueue.codec.batch_encode import encode_batch
from goqueue.codec.compression import Codec
from goqueue.records import NewRecord, Record

with warnings.catch_warnings():
    # kafka-python loads its schemas with a call that Python 3.11 frowns upon.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

CAPTURED = Path(__file__).parent / "batches"
SENT = [
    Record(
        offset=i,
        timestamp_ms=1_700_000_000_000 + 7 * i,
        key=None if i == 0 else b"key-%d" % i,
        value=None if i == 1 else b"the same words again and again " * i,
        headers=(("trace", b"id-%d" % i), ("empty", b""), ("null", None)) if i % 2 else (),
    )
    for i in range(8)
]


@pytest.mark.parametrize("codec", Codec)
def test_what_librdkafka_sent_is_read_record_for_record(codec: Codec) -> None:
    (batch,) = split_batches((CAPTURED / f"librdkafka-{codec.name.lower()}.bin").read_bytes())
    assert check_batch(batch).codec == codec
    assert decode_records(batch) == SENT


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_what_kafka_python_builds_is_read_record_for_record(codec: Codec) -> None:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=int(codec),
        is_transactional=True,
        producer_id=12,
        producer_epoch=1,
        base_sequence=30,
        batch_size=100_000,
    )
    for r in SENT:
        builder.append(r.offset, r.timestamp_ms, r.key, r.value, list(r.headers))
    batch = bytes(builder.build())
    header = check_batch(batch)
    assert (header.codec, header.producer_id, header.base_sequence, header.is_transactional) == (codec, 12, 30, True)
    assert decode_records(batch) == SENT


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_what_we_build_kafka_python_reads_record_for_record(codec: Codec) -> None:
    ours = encode_batch(
        [NewRecord(r.key, r.value, r.headers, r.timestamp_ms) for r in SENT], codec=codec, now_ms=NOW_MS
    )
    theirs = DefaultRecordBatch(ours)
    assert theirs.validate_crc()
    assert [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in theirs] == SENT


def test_an_uncompressed_batch_has_the_very_bytes_that_librdkafka_writes() -> None:
    captured = (CAPTURED / "librdkafka-none.bin").read_bytes()
    header = check_batch(captured)
    ours = encode_batch(
        [NewRecord(r.key, r.value, r.headers, r.timestamp_ms) for r in SENT],
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        now_ms=NOW_MS,
    )
    assert ours[16:] == captured[16:]
