"""Replay: from a delay log into the index, a stretch at a time. Blocks on the disk, so it is run in a thread."""

from __future__ import annotations

from goqueue.codec.batch_decode import decode_records
from goqueue.delay.due.index import DueIndex, Known
from goqueue.delay.holding.records import decode
from goqueue.log.partition_log import PartitionLog

_READ_BYTES = 1024 * 1024


def replay(index: DueIndex, log: PartitionLog, known: Known, end: int, stretches: int | None = None) -> int:
    """Take in what lies between what is known and `end`, or only so many stretches of it; returns how far it came."""
    offset = max(known.end_offset, log.start_offset)
    while offset < end and stretches != 0:
        read = log.read_batches(offset, max_bytes=_READ_BYTES, upper=end)
        records = [one for batch in read.batches for one in decode_records(batch) if offset <= one.offset < end]
        changes = [(known.number, decode(one.offset, one.key, one.value)) for one in records]
        if not read.batches and stretches is not None:
            # Compaction left nothing before the end, or the end lies within a batch: what comes next will tell.
            return offset
        # Compaction may leave nothing before the end; then all has been read.
        offset = min(read.next_offset, end) if read.batches else end
        index.apply(changes, [Known(known.number, offset, log.epoch_below(offset))])
        stretches = None if stretches is None else stretches - 1
    return offset
