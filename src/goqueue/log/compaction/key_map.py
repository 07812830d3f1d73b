"""The first half of a compaction pass: where the newest record of every key lies.

The map holds hashes, not keys, and not more than a given number of them, so its memory does
not grow with the log. What did not fit is left for a later pass. Beside it go two bits for
every offset seen, from which the second half knows the fate of most batches unopened.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from goqueue.codec.batch import CONTROL, TRANSACTIONAL, parse_batch_header
from goqueue.codec.batch_decode import decode_records
from goqueue.codec.frame import HEADER_BYTES
from goqueue.errors import CorruptFrame, InvalidRequest

if TYPE_CHECKING:
    from goqueue.log.segment.segment import Segment
    from goqueue.records import AbortedTransaction

# Asks the log for the aborted transactions with records in [first, upper).
AbortedBetween = Callable[[int, int], "list[AbortedTransaction]"]

_HASH_BYTES = 16
# Offsets that one pass may look at: 32 MB for each kind of mark.
_MARKS_MAX = 1 << 28
_MARKS_GROW_BYTES = 4096


class OffsetMarks:
    """A set of offsets from a first one on, a bit for each."""

    __slots__ = ("_bits", "_first")

    def __init__(self, first: int) -> None:
        self._first = first
        self._bits = bytearray()

    def add(self, offset: int) -> None:
        """Mark an offset, which is not before the first."""
        at = offset - self._first
        try:
            self._bits[at >> 3] |= 1 << (at & 7)
        except IndexError:
            self._bits.extend(bytes((at >> 3) - len(self._bits) + _MARKS_GROW_BYTES))
            self._bits[at >> 3] |= 1 << (at & 7)

    def count(self, first: int, last: int) -> int:
        """How many offsets from `first` to `last` are marked."""
        low, high = first - self._first, last - self._first + 1
        bits = int.from_bytes(self._bits[low >> 3 : (high + 7) >> 3], "little") >> (low & 7)
        return (bits & ((1 << (high - low)) - 1)).bit_count()


class Marks(NamedTuple):
    """Which records a newer one of their key has followed, and which delete their key."""

    superseded: OffsetMarks
    deletions: OffsetMarks


@dataclass(frozen=True, slots=True)
class NewestOffsets:
    """Of every key seen, the offset of its newest record, for all records below `end_offset`."""

    offsets: dict[bytes, int]
    from_offset: int
    end_offset: int
    # Of the records from `from_offset` on; None if not known.
    marks: Marks | None
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
    mapping = _Mapping(from_offset)
    end_offset = from_offset
    for segment in segments:
        mapping.begin_segment(aborted_between(segment.base_offset, segment.end_offset))
        try:
            for _, header, frame in segment.frames():
                if header.offset < from_offset:
                    continue
                if mapping.size >= keys_max or header.offset - from_offset >= _MARKS_MAX:
                    mapping.end_segment()
                    return mapping.outcome(header.offset)
                mapping.add(frame, header.value_bytes)
        except CorruptFrame as damage:
            return mapping.outcome(end_offset, damage)
        mapping.end_segment()
        end_offset = segment.end_offset
    return mapping.outcome(end_offset)


class _Mapping:
    """The map in the making."""

    def __init__(self, from_offset: int) -> None:
        self._from_offset = from_offset
        self._offsets: dict[bytes, int] = {}
        # Of the current segment alone: if it turns out to be damaged, none of it may count.
        self._found: dict[bytes, int] = {}
        self._aborted = AbortedRanges(())
        self._marks = Marks(OffsetMarks(from_offset), OffsetMarks(from_offset))

    @property
    def size(self) -> int:
        """Keys so far, or a few more."""
        return len(self._offsets) + len(self._found)

    def begin_segment(self, aborted: Iterable[AbortedTransaction]) -> None:
        """The frames that follow are of a segment that these aborted transactions touch."""
        self._aborted = AbortedRanges(aborted)

    def end_segment(self) -> None:
        """The segment was sound."""
        self._offsets.update(self._found)
        self._found = {}

    def outcome(self, end_offset: int, damage: CorruptFrame | None = None) -> NewestOffsets:
        """The map; after damage without the marks, since those of the damaged segment are among them."""
        marks = None if damage is not None else self._marks
        return NewestOffsets(self._offsets, self._from_offset, end_offset, marks, damage)

    def add(self, frame: memoryview, value_bytes: int) -> None:
        """Map the records of one frame."""
        batch = parse_batch_header(frame, HEADER_BYTES)
        if batch.attributes & CONTROL or not batch.count:
            return
        if batch.attributes & TRANSACTIONAL and self._aborted.covers(batch.producer_id, batch.base_offset):
            return
        try:
            records = decode_records(frame[HEADER_BYTES : HEADER_BYTES + value_bytes])
        except InvalidRequest:
            # Its checksums hold, so this is what its producer sent. It stays as it is.
            return
        found, offsets = self._found, self._offsets
        superseded, deletions = self._marks
        for record in records:
            if record.key is None:
                continue
            hashed = key_hash(record.key)
            older = found.get(hashed)
            if older is None:
                older = offsets.get(hashed)
            if older is not None:
                superseded.add(older)
            found[hashed] = record.offset
            if record.value is None:
                deletions.add(record.offset)
