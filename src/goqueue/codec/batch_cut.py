"""Cutting: neighbouring records of a batch as a batch of their own, without opening them.

The base offset stays and the records count from it, so their bytes stay as they are: only the
header says less. A reader finds the first record at some offset behind the base, as in a batch
from which compaction took the first ones.
"""

from __future__ import annotations

from typing import NamedTuple

from crc32c import crc32c

from goqueue.codec.batch import ATTRIBUTES_AT, HEADER, HEADER_BYTES, BatchHeader
from goqueue.errors import CorruptBatch
from goqueue.ports import Buffer

# Records are passed over one by one, and everybody waits meanwhile.
_RECORDS_MAX = 100_000
_VARINT_SHIFT_MAX = 63
# After so many neighbours of one size, so many at once are looked at, and more as long as that helps.
_ALIKE_MIN = 8
_AHEAD = 64


class Mark(NamedTuple):
    """Where the record with an offset delta begins."""

    delta: int
    position: int


START = Mark(0, HEADER_BYTES)


def is_cuttable(header: BatchHeader) -> bool:
    """Whether the records lie open and one at each offset, and are few enough to be counted."""
    return not header.codec and header.count == header.last_offset_delta + 1 and header.count <= _RECORDS_MAX


def cut_batch(batch: Buffer, header: BatchHeader, first: int, last: int, mark: Mark = START) -> tuple[bytes, Mark]:
    """The records from one offset delta to another, and where the next one begins: the mark for the next cut.

    Only for a batch that `is_cuttable`. CorruptBatch if the records are not where they should be.
    """
    if mark.delta > first:
        mark = START
    begin = _skip(batch, mark.position, first - mark.delta)
    begin_of_last = _skip(batch, begin, last - first)
    end = _skip(batch, begin_of_last, 1)
    if _offset_delta(batch, begin) != first or _offset_delta(batch, begin_of_last) != last:
        raise CorruptBatch("a batch's records do not follow one another")
    records = memoryview(batch)[begin:end]
    length = HEADER_BYTES - 12 + len(records)
    changed = header._replace(length=length, last_offset_delta=last, count=last - first + 1)
    covered = HEADER.pack(*changed)[ATTRIBUTES_AT:]
    head = HEADER.pack(*changed._replace(crc=crc32c(records, crc32c(covered))))
    return b"".join((head, records)), Mark(last + 1, end)


def _skip(batch: Buffer, position: int, count: int) -> int:
    """Where the record begins that comes `count` records behind the one at `position`."""
    before, alike, ahead = -1, 0, _AHEAD
    try:
        while count > 0:
            size = batch[position]
            # Sizes are zig-zag varints: the lowest bit is the sign. Nearly all take one byte or two.
            if size & 1:
                raise CorruptBatch("a record has a negative size")
            if size < 128:
                body = position + 1
                size >>= 1
            elif (more := batch[position + 1]) < 128:
                body = position + 2
                size = more << 6 | (size & 127) >> 1
            else:
                size, body = _varint(batch, position)
            if size == before:
                alike += 1
                if alike >= _ALIKE_MIN:
                    found = _alike(batch, position, body, size, min(count, ahead))
                    ahead = 8 * ahead if found == ahead else _AHEAD
                    position += found * (body - position + size)
                    count -= found
                    continue
            else:
                before, alike = size, 0
            position = body + size
            count -= 1
    except IndexError:
        raise CorruptBatch("a batch ends within its records") from None
    if position > len(batch):
        raise CorruptBatch("a record is longer than its batch")
    return position


def _alike(batch: Buffer, position: int, body: int, size: int, limit: int) -> int:
    """How many records from `position` on have the size of the first: their sizes lie at equal distances."""
    stride = body - position + size
    found = limit
    for at in range(position, body):
        column = bytes(batch[at : at + limit * stride : stride])
        found = min(found, len(column) - len(column.lstrip(column[:1])))
    return found


def _offset_delta(batch: Buffer, position: int) -> int:
    try:
        _, position = _varint(batch, position)
        # One byte of attributes, then the timestamp.
        _, position = _varint(batch, position + 1)
        return _varint(batch, position)[0]
    except IndexError:
        raise CorruptBatch("a batch ends within its records") from None


def _varint(batch: Buffer, position: int) -> tuple[int, int]:
    """The number at `position`, and where it ends."""
    value = shift = 0
    while (byte := batch[position]) > 127:
        value |= (byte & 127) << shift
        shift += 7
        position += 1
        if shift > _VARINT_SHIFT_MAX:
            raise CorruptBatch("a number of a record is too long")
    value |= byte << shift
    return (value >> 1) ^ -(value & 1), position + 1
