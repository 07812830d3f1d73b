"""Unreadable stretches: batches of a partition whose records cannot be opened, and frames that fail their checksum.

Such a stretch of offsets is set aside by itself: readers of records go on behind it, and everything around it
is delivered. What was found is remembered, within a bound, for operators and so that nobody opens it again.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from goqueue.codec.batch import BatchHeader, has_room
from goqueue.codec.batch_decode import decode_records
from goqueue.codec.compression import Codec
from goqueue.errors import CorruptFrame, InvalidRequest, UnpacksTooLarge
from goqueue.ports import Buffer, ColdRead
from goqueue.records import Record

_REMEMBERED_MAX = 100
_REASON_CHARS_MAX = 200
# What is unpacked where everybody waits for it: some ten milliseconds.
_NOWAIT_BYTES_MAX = 16 * 1024 * 1024
# A frame whose checksum does not hold says nothing that could be believed, its codec included.
UNKNOWN_CODEC = ""


class Unreadable(NamedTuple):
    """Offsets from `first` to `last` whose records nobody can read, and why."""

    first: int
    last: int
    reason: str
    codec: str = UNKNOWN_CODEC


class UnreadableStretches:
    """What of one partition was found to be unreadable."""

    __slots__ = ("_by_first", "_unpacked_bytes_max", "waits_for_repair")

    def __init__(self, unpacked_bytes_max: int) -> None:
        # By the first offset: the batch's checksum, which tells it from a batch that took its place; None for a frame.
        self._by_first: OrderedDict[int, tuple[int | None, Unreadable]] = OrderedDict()
        self._unpacked_bytes_max = unpacked_bytes_max
        # Whether other replicas may have what is damaged here: then nobody goes on behind it, but tries again later.
        self.waits_for_repair = False

    def open(self, header: BatchHeader, batch: Buffer, *, nowait: bool = False) -> list[Record] | Unreadable:
        """The records of a batch, or what is wrong with it. Never more is unpacked than the bound allows.

        With `nowait`, ColdRead for a batch that unpacks to so much that everybody would wait for it.
        """
        found = self.known(header)
        if found is not None:
            return found
        if not header.count:
            return []
        try:
            size_max = min(_NOWAIT_BYTES_MAX, self._unpacked_bytes_max) if nowait else self._unpacked_bytes_max
            return decode_records(batch, size_max=size_max)
        except UnpacksTooLarge as error:
            if nowait:
                raise ColdRead from None
            return self._note(header, str(error))
        except InvalidRequest as error:
            return self._note(header, str(error))

    def check_header(self, header: BatchHeader) -> Unreadable | None:
        """What is known to be wrong with a batch without opening it."""
        found = self.known(header)
        if found is None and not has_room(header):
            found = self._note(header, f"a batch of {header.size} bytes claims {header.count} records")
        return found

    def known(self, header: BatchHeader) -> Unreadable | None:
        """What was found out about this batch earlier."""
        if not self._by_first:
            return None
        crc, found = self._by_first.get(header.base_offset, (None, None))
        return found if found is not None and crc == header.crc else None

    def note_damage(self, first: int, upper: int, damage: CorruptFrame) -> Unreadable:
        """A frame that begins at `first`, as far as anybody knows, and fails its checksum. Raises what has no end."""
        if self.waits_for_repair or damage.next_offset is None or damage.next_offset <= first:
            raise damage
        found = Unreadable(first, min(damage.next_offset, upper) - 1, _short(damage.reason))
        if not any(one.first <= first <= one.last for _, one in list(self._by_first.values())):
            self._remember(None, found)
        return found

    def still_there(self, start_offset: int) -> list[Unreadable]:
        """What was found and has not left the log since, by offset."""
        return sorted(found for _, found in list(self._by_first.values()) if found.last >= start_offset)

    def _note(self, header: BatchHeader, reason: str) -> Unreadable:
        codec = Codec(header.codec).name.lower() if header.codec <= Codec.ZSTD else str(header.codec)
        found = Unreadable(header.base_offset, header.last_offset, _short(reason), codec)
        self._remember(header.crc, found)
        return found

    def _remember(self, crc: int | None, found: Unreadable) -> None:
        self._by_first[found.first] = (crc, found)
        if len(self._by_first) > _REMEMBERED_MAX:
            self._by_first.popitem(last=False)


def _short(reason: str) -> str:
    return reason[:_REASON_CHARS_MAX]
