"""Ids in the log: from where a window begins, and what was taken since. Blocks: called in the offload."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.broker.arrivals.deduplication.ids import digest_of
from goqueue.broker.arrivals.deduplication.window import Remembered
from goqueue.codec.batch import BatchHeader, parse_batch_header
from goqueue.codec.batch_decode import decode_records
from goqueue.codec.frame import HEADER_BYTES, parse_frame_header
from goqueue.errors import CorruptFrame, InvalidRequest

if TYPE_CHECKING:
    from goqueue.log.partition_log import PartitionLog

_READ_BYTES = 4 * 1024 * 1024
_NS_PER_MS = 1_000_000


def read_ids(log: PartitionLog, partition: int, first: int) -> list[tuple[bytes, Remembered]]:
    """The ids that a partition took from an offset on, oldest first."""
    found: list[tuple[bytes, Remembered]] = []
    offset: int | None = first
    while offset is not None and offset < log.end_offset:
        ids, offset = read_some(log, partition, offset, log.end_offset)
        found += ids
    return found


def read_some(
    log: PartitionLog, partition: int, offset: int, upper: int
) -> tuple[list[tuple[bytes, Remembered]], int | None]:
    """The ids of the next few megabytes below `upper`, and where to go on; None: nothing more can be read."""
    try:
        read = log.read_frames(offset, max_bytes=_READ_BYTES, upper=upper)
    except CorruptFrame as damage:
        # Readers are told of it; only the ids in the damaged frame are what a repeat may slip past.
        return [], damage.next_offset if damage.next_offset is not None and damage.next_offset > offset else None
    if not read.batches:
        return [], None
    return [one for frame in read.batches for one in _ids_in(frame, partition)], read.next_offset


def first_since(log: PartitionLog, since_ms: int) -> int:
    """The first offset whose frame was taken at or after a time: by bisection, for frames lie in the order taken."""
    low, high = log.start_offset, log.end_offset
    while low < high:
        middle = (low + high) // 2
        try:
            read = log.read_frames(middle, max_bytes=1, upper=log.end_offset)
        except CorruptFrame:
            # Nobody knows when that one was taken: begin before it rather than behind it.
            high = middle
            continue
        if not read.batches:
            high = middle
            continue
        header = parse_frame_header(read.batches[0])
        if header.timestamp_ns >= since_ms * _NS_PER_MS:
            high = min(middle, max(low, header.offset))
        else:
            low = max(middle + 1, read.next_offset)
    return low


def _ids_in(frame: memoryview, partition: int) -> list[tuple[bytes, Remembered]]:
    header = parse_frame_header(frame)
    batch = frame[HEADER_BYTES : HEADER_BYTES + header.value_bytes]
    described = parse_batch_header(batch)
    if described.is_control or is_left_alone(described) or not described.count:
        return []
    taken_ms = header.timestamp_ns // _NS_PER_MS
    try:
        records = decode_records(batch)
    except InvalidRequest:
        # Its checksums hold, so this is what its producer sent: nobody can read an id in it.
        return []
    return [
        (digest, Remembered(partition, record.offset, record.timestamp_ms, taken_ms))
        for record in records
        if record.headers and (digest := digest_of(record.headers)) is not None
    ]


def is_left_alone(header: BatchHeader) -> bool:
    """Whether the ids of a batch count for nothing: it is part of a producer's transaction."""
    return header.is_transactional and header.base_sequence >= 0
