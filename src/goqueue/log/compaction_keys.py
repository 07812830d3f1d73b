"""The first half of a compaction pass: where the newest record of every key lies.

The map holds hashes, not keys, and not more than a given number of them, so its memory does
not grow with the log. What did not fit is left for a later pass.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

from goqueue.codec.batch import CONTROL, TRANSACTIONAL, decode_records, parse_batch_header
from goqueue.codec.frame import HEADER_BYTES
from goqueue.errors import CorruptFrame

if TYPE_CHECKING:
    from goqueue.log.segment import Segment
    from goqueue.records import AbortedTransaction

# Asks the log for the aborted transactions with records in [first, upper).
AbortedBetween = Callable[[int, int], "list[AbortedTransaction]"]

_HASH_BYTES = 16


@dataclass(frozen=True, slots=True)
class NewestOffsets:
    """Of every key seen, the offset of its newest record, for all records below `end_offset`."""

    offsets: dict[bytes, int]
    end_offset: int
    # What stopped the map short of the end, if it was not its own size.
    damage: CorruptFrame | None = None


class AbortedRanges:
    """Which batches belong to an aborted transaction: per producer, from first record to marker."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._firsts: dict[int, list[int]] = {}
        self._lasts: dict[int, list[int]] = {}
        for entry in sorted(aborted, key=lambda entry: entry.first_offset):
            self._firsts.setdefault(entry.producer_id, []).append(entry.first_offset)
            self._lasts.setdefault(entry.producer_id, []).append(entry.last_offset)

    def covers(self, producer_id: int, offset: int) -> bool:
        """Whether a transactional batch of that producer at that offset was aborted."""
        firsts = self._firsts.get(producer_id)
        if firsts is None:
            return False
        # A producer has one transaction at a time, so its ranges do not overlap.
        at = bisect_right(firsts, offset) - 1
        return at >= 0 and offset <= self._lasts[producer_id][at]


def key_hash(key: bytes) -> bytes:
    """What stands for a key in the map: long enough that no two keys ever share one."""
    return blake2b(key, digest_size=_HASH_BYTES).digest()


def newest_offsets(
    segments: Sequence[Segment], *, from_offset: int, keys_max: int, aborted_between: AbortedBetween
) -> NewestOffsets:
    """Map the records from `from_offset` on, until the segments end or the map is full.

    A batch is taken whole, so every pass gets further however small the map. A damaged frame
    ends the map before its segment, which is left for repair.
    """
    offsets: dict[bytes, int] = {}
    end_offset = from_offset
    for segment in segments:
        aborted = AbortedRanges(aborted_between(segment.base_offset, segment.end_offset))
        # Of this segment alone: if it turns out to be damaged, none of it may count.
        found: dict[bytes, int] = {}
        try:
            for _, header, frame in segment.frames():
                if header.offset < from_offset:
                    continue
                if len(offsets) + len(found) >= keys_max:
                    offsets.update(found)
                    return NewestOffsets(offsets, header.offset)
                _map_frame(frame, header.value_bytes, aborted, found)
        except CorruptFrame as damage:
            return NewestOffsets(offsets, end_offset, damage)
        offsets.update(found)
        end_offset = segment.end_offset
    return NewestOffsets(offsets, end_offset)


def _map_frame(frame: memoryview, value_bytes: int, aborted: AbortedRanges, offsets: dict[bytes, int]) -> None:
    batch = parse_batch_header(frame, HEADER_BYTES)
    if batch.attributes & CONTROL or not batch.count:
        return
    if batch.attributes & TRANSACTIONAL and aborted.covers(batch.producer_id, batch.base_offset):
        return
    for record in decode_records(frame[HEADER_BYTES : HEADER_BYTES + value_bytes]):
        if record.key is not None:
            offsets[key_hash(record.key)] = record.offset
