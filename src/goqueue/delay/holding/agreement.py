"""Agreement: what the delay log and the data log of a partition know of the same messages, after a crash.

The two logs are written and synced separately, so a power cut may leave one ahead of the other. A batch with delayed
records is written in this order: slots to the delay log, then the rest of the batch to the data log.

- The delay log has the slots, the data log lacks the batch: its producer sends it again. The producer's mark in the
  delay log says which of its records are held already; the rest of the batch is written.
- The data log has the batch, the delay log lacks slots: what the stored batch lacks was for later. It is held again,
  even if its time has come.
- The delay log has a part of the slots: the mark lies within the batch, and what is behind the mark is held again.

The due index follows the delay log. What it knows of an epoch behind where the log of that epoch ended is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from goqueue.broker.arrivals.deduplication.ids import digest_of
from goqueue.broker.replicas.partitions import Partition
from goqueue.codec.batch import BatchHeader
from goqueue.codec.batch_decode import decode_records
from goqueue.delay.due.index import OriginMark
from goqueue.records import Record

# Sequences count from 0 to 2^31-1 and then from 0 again; half the circle lies behind.
SEQUENCE_MASK = 0x7FFF_FFFF
_BEHIND_MAX = 1 << 30


class Judged(NamedTuple):
    """Of a batch, perhaps a repeat: by position, which records are for later, and which of those are held already."""

    later: list[bool]
    held: list[bool]


def sequence_of(header: BatchHeader, record: Record) -> int:
    """The sequence of one record of a batch."""
    return (header.base_sequence + record.offset - header.base_offset) & SEQUENCE_MASK


def judge(
    place: Partition,
    mark: OriginMark | None,
    header: BatchHeader,
    records: Sequence[Record],
    dues: Sequence[int | None],
    stored_at: int | None,
    now_ms: int,
) -> Judged:
    """Which records of a batch are to be held, by what both logs know of it.

    `stored_at` is where the data log has the batch; `mark` is what the delay log knows of it (`mark_of`); `now_ms`
    is the time by which the delay log decided if it knows some of the batch.
    """
    if mark is not None:
        # What was for later when the batch came first stays so, even if its time has come meanwhile.
        later = [due_ms is not None and due_ms > now_ms for due_ms in dues]
        known = [is_behind(sequence_of(header, one), mark) for one in records]
        return Judged(later, [one and two for one, two in zip(later, known, strict=True)])
    later = [due_ms is not None and due_ms > now_ms for due_ms in dues]
    if stored_at is not None and stored_at >= place.log.start_offset:
        # The power cut left the batch and not its slots: what it lacks was for later.
        lacking = _lacking(place, header, records, stored_at)
        later = [due_ms is not None and lacks for due_ms, lacks in zip(dues, lacking, strict=True)]
    return Judged(later, [False] * len(later))


def mark_of(marks: Sequence[OriginMark], header: BatchHeader) -> OriginMark | None:
    """The mark by which a batch is judged: of all its slots, or of the beginning; None if the delay log has none of it.

    Several batches of a producer may be on their way: each is judged by the time at which it came itself.
    """
    if header.producer_id < 0 or header.base_sequence < 0:
        return None
    of_epoch = [one for one in marks if one.epoch == header.producer_epoch]
    whole = next((one for one in of_epoch if is_behind(header.last_sequence, one)), None)
    if whole is not None:
        return whole
    return of_epoch[-1] if of_epoch and is_behind(header.base_sequence, of_epoch[-1]) else None


def is_half_stored(place: Partition, marks: Sequence[OriginMark], header: BatchHeader) -> bool:
    """Whether the producer's last batch with delayed records has its slots, and is not in its partition."""
    if not marks or marks[-1].epoch != header.producer_epoch:
        return False
    mark = marks[-1]
    expected = place.log.producers.next_sequence(header.producer_id, header.producer_epoch)
    return expected is not None and is_behind(expected, mark)


def is_behind(sequence: int, mark: OriginMark) -> bool:
    """Whether the delay log has come as far as this sequence."""
    return ((mark.sequence - sequence) & SEQUENCE_MASK) < _BEHIND_MAX


def _lacking(place: Partition, header: BatchHeader, records: Sequence[Record], stored_at: int) -> list[bool]:
    """Which records are not in the batch as it is stored. It is read at once: only a power cut makes that necessary."""
    log = place.log
    read = log.read_batches(stored_at, max_bytes=1, upper=log.end_offset)
    kept = {record.offset for batch in read.batches for record in decode_records(batch)}
    shift = stored_at - header.base_offset
    # A repeat is left out as well, and is never held back.
    has_window = place.config.dedup_window_ms > 0
    return [
        record.offset + shift not in kept and not (has_window and digest_of(record.headers) is not None)
        for record in records
    ]
