"""Records to record batches, and batches to others that say something else.

Records are written by aiokafka's native code, which never packs them: that is done here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from struct import error as struct_error

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from crc32c import crc32c

from goqueue.codec.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CRC_AT,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    parse_batch_header,
)
from goqueue.codec.batch_decode import check_offsets
from goqueue.codec.compression import Codec, compress
from goqueue.errors import InvalidRecord, MessageTooLarge
from goqueue.ports import Buffer
from goqueue.records import Header, NewRecord, Record, TimestampType

BATCH_BYTES_MAX = 2**31 - 1


def encode_batch(
    records: Sequence[NewRecord],
    *,
    codec: int = Codec.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    now_ms: int,
) -> bytes:
    """Build a batch as a client would: base offset 0, no leader epoch."""
    if not records:
        raise InvalidRecord("a batch needs at least one record")
    stamps = [now_ms if r.timestamp_ms is None else r.timestamp_ms for r in records]
    rows = ((i, stamps[i], r.key, r.value, r.headers) for i, r in enumerate(records))
    parts = encode_section_parts(
        _encode_section(rows, stamps[0]),
        len(records),
        base_timestamp_ms=stamps[0],
        max_timestamp_ms=max(stamps),
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
    )
    return b"".join(parts)


def encode_with_gaps(
    records: Sequence[NewRecord | None],
    *,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    now_ms: int,
) -> bytes:
    """A batch that takes one sequence and offset for each position; where there is None, the place is empty."""
    found = [
        Record(at, now_ms if one.timestamp_ms is None else one.timestamp_ms, one.key, one.value, tuple(one.headers))
        for at, one in enumerate(records)
        if one is not None
    ]
    header = _empty_header(len(records), now_ms)._replace(
        producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=base_sequence, count=len(found)
    )
    return encode_sparse_batch(header, found)


def empty_batch(offsets: int, *, now_ms: int) -> bytes:
    """A batch of no producer and without a record, that takes so many offsets."""
    return emptied_batch(_empty_header(offsets, now_ms))


def _empty_header(offsets: int, now_ms: int) -> BatchHeader:
    return BatchHeader(
        base_offset=0,
        length=0,
        leader_epoch=-1,
        magic=MAGIC,
        crc=0,
        attributes=Codec.NONE,
        last_offset_delta=offsets - 1,
        base_timestamp_ms=now_ms,
        max_timestamp_ms=now_ms,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        count=0,
    )


def encode_section_parts(
    section: Buffer,
    count: int,
    *,
    base_timestamp_ms: int,
    max_timestamp_ms: int,
    codec: int = Codec.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
) -> tuple[bytes, Buffer]:
    """As `encode_batch`, around `count` records that somebody else has written back to back.

    Header and records apart: large records are sent from where they lie.
    """
    template = BatchHeader(
        base_offset=0,
        length=0,
        leader_epoch=-1,
        magic=MAGIC,
        crc=0,
        attributes=codec | (TRANSACTIONAL if transactional else 0),
        last_offset_delta=count - 1,
        base_timestamp_ms=base_timestamp_ms,
        max_timestamp_ms=max_timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        count=count,
    )
    return _sealed(template, section)


def encode_sparse_batch(header: BatchHeader, records: Sequence[Record]) -> bytes:
    """The batch of `header` with only `records` left in it, perhaps none.

    Place, offset range, producer, sequence and attributes stay, so that neither readers nor
    sequence checks can tell that something is gone. Only an empty batch says no codec: clients
    may not survive the decompression of nothing (librdkafka aborts its process).
    """
    if not records:
        return emptied_batch(header)
    base_ms, max_ms = header.base_timestamp_ms, header.max_timestamp_ms
    first_ms = records[0].timestamp_ms
    if header.timestamp_type is TimestampType.CREATE_TIME:
        base_ms, max_ms = first_ms, max(r.timestamp_ms for r in records)
    rows = ((r.offset - header.base_offset, r.timestamp_ms, r.key, r.value, r.headers) for r in records)
    section = _encode_section(rows, first_ms)
    kept = header._replace(base_timestamp_ms=base_ms, max_timestamp_ms=max_ms, count=len(records))
    check_offsets(kept, records)
    return build_batch(kept, section)


def emptied_batch(header: BatchHeader) -> bytes:
    """The batch of `header` with no record and no codec; all else that the header says stays."""
    return build_batch(header._replace(attributes=header.attributes & ~CODEC_MASK, count=0), b"")


def stamped(batch: Buffer, now_ms: int) -> bytes:
    """The batch with the broker's time in place of its producer's (LogAppendTime)."""
    header = parse_batch_header(batch)
    stamp = header._replace(attributes=header.attributes | LOG_APPEND_TIME, max_timestamp_ms=now_ms)
    return build_batch(stamp, memoryview(batch)[HEADER_BYTES:], packed=True)


def build_batch(template: BatchHeader, section: Buffer, *, packed: bool = False) -> bytes:
    """A batch with this header, but for length and checksum, around the records; they are `packed` here if not yet."""
    return b"".join(_sealed(template, section, packed=packed))


def _sealed(template: BatchHeader, section: Buffer, *, packed: bool = False) -> tuple[bytes, Buffer]:
    if template.codec and not packed:
        section = compress(template.codec, section)
    try:
        header = bytearray(HEADER.pack(*template._replace(length=HEADER_BYTES - 12 + len(section), magic=MAGIC, crc=0)))
    except struct_error as error:
        raise InvalidRecord(f"a batch header cannot hold its values: {error}") from error
    _CRC.pack_into(header, CRC_AT, crc32c(section, crc32c(memoryview(header)[ATTRIBUTES_AT:])))
    return bytes(header), section


_CRC = Struct(">I")
_Row = tuple[int, int, bytes | None, bytes | None, tuple[Header, ...]]


def _encode_section(rows: Iterable[_Row], first_ms: int) -> memoryview:
    # Times are handed over relative to the first: the native writer takes -1, which
    # is Kafka's "no timestamp", for "not set yet" and would lose it.
    builder = DefaultRecordBatchBuilder(MAGIC, 0, 0, -1, -1, -1, BATCH_BYTES_MAX)
    append = builder.append
    try:
        for delta, stamp_ms, key, value, headers in rows:
            if append(delta, stamp_ms - first_ms, key, value, list(headers)) is None:
                raise MessageTooLarge(builder.size(), BATCH_BYTES_MAX)
    except (UnicodeEncodeError, OverflowError) as error:
        raise InvalidRecord(f"a record cannot be written: {error}") from error
    return memoryview(builder.build())[HEADER_BYTES:]
