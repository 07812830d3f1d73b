"""Record batches to records.

They are read by aiokafka's native code, which never sees a compressed batch: unpacking is
done here, with a bound.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import pairwise

from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch

from goqueue.codec.batch import CODEC_MASK, HEADER, HEADER_BYTES, MAGIC, BatchHeader, parse_batch_header
from goqueue.codec.compression import decompress
from goqueue.errors import CorruptBatch, UnsupportedFormat
from goqueue.ports import Buffer
from goqueue.records import Record

# What a compressed batch may unpack to: far above any client's batch, far below a bomb.
RECORDS_BYTES_MAX = 128 * 1024 * 1024


def decode_records(
    batch: Buffer, *, size_max: int = RECORDS_BYTES_MAX, only: Container[int] | None = None
) -> list[Record]:
    """Open a batch, or take `only` the records at some offsets out of it, which costs a fraction where they are few.

    Offsets come from each record's own delta, so gaps are no trouble.

    The checksum is not looked at again: bytes from a log were checked with their
    frame, bytes from a stranger go through `verify_batch` first.
    """
    header, plain = _unpacked(batch, size_max)
    try:
        opened = list(DefaultRecordBatch(plain))
        records = [
            Record(r.offset, -1 if r.timestamp is None else r.timestamp, r.key, r.value, tuple(r.headers))
            for r in opened
            if only is None or r.offset in only
        ]
    except (CorruptRecordException, ValueError, OverflowError, MemoryError) as error:
        raise CorruptBatch(f"the records of a batch cannot be read: {error}") from error
    check_offsets(header, records)
    return records


def decode_record_at(batch: Buffer, offset: int, *, size_max: int = RECORDS_BYTES_MAX) -> Record | None:
    """The record at one offset, None if there is none: those behind it are not looked at."""
    _, plain = _unpacked(batch, size_max)
    try:
        for one in DefaultRecordBatch(plain):
            if one.offset >= offset:
                if one.offset > offset:
                    return None
                timestamp_ms = -1 if one.timestamp is None else one.timestamp
                return Record(one.offset, timestamp_ms, one.key, one.value, tuple(one.headers))
    except (CorruptRecordException, ValueError, OverflowError, MemoryError) as error:
        raise CorruptBatch(f"the records of a batch cannot be read: {error}") from error
    return None


def _unpacked(batch: Buffer, size_max: int) -> tuple[BatchHeader, memoryview]:
    header = parse_batch_header(batch)
    if header.magic != MAGIC:
        raise UnsupportedFormat(f"message format {header.magic} is not supported")
    if header.size != len(batch) or header.count < 0:
        raise CorruptBatch(f"a batch of {len(batch)} bytes claims {header.size} bytes, {header.count} records")
    section: Buffer = memoryview(batch)[HEADER_BYTES:]
    if header.codec:
        section = decompress(header.codec, section, size_max)
    return header, _plain_batch(header, section)


def check_offsets(header: BatchHeader, records: Sequence[Record]) -> None:
    """Check that the records' offsets rise and lie within their batch."""
    if not records:
        return
    if records[0].offset < header.base_offset or records[-1].offset > header.last_offset:
        raise CorruptBatch("a record's offset lies outside its batch")
    if any(left.offset >= right.offset for left, right in pairwise(records)):
        raise CorruptBatch("the offsets of a batch's records do not rise")


# A varint has at most ten bytes, and the native reader looks at them before it looks at the end.
_OVERREAD_ROOM = bytes(32)


def _plain_batch(header: BatchHeader, section: Buffer) -> memoryview:
    # The native reader must not see a codec. Behind its view lie spare bytes, so that a
    # record section that ends inside a varint cannot lead it out of the buffer.
    plain = HEADER.pack(*header._replace(attributes=header.attributes & ~CODEC_MASK))
    whole = b"".join((plain, section, _OVERREAD_ROOM))
    return memoryview(whole)[: HEADER_BYTES + len(section)]
