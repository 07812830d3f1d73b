"""The window of one partition: which ids it took in the last while, and where the messages lie."""

from __future__ import annotations

from typing import NamedTuple

from goqueue.errors import TooBusy


class Remembered(NamedTuple):
    """Where the first message with an id lies, and when it was taken."""

    partition: int
    offset: int
    timestamp_ms: int
    taken_ms: int


class Window:
    """The ids of one partition's last while, oldest first."""

    __slots__ = ("_ids", "_ids_max")

    def __init__(self, ids_max: int) -> None:
        self._ids_max = ids_max
        # Ids may be long; their digests are all alike, and too many to meet by chance.
        self._ids: dict[bytes, Remembered] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def find(self, digest: bytes, since_ms: int) -> Remembered | None:
        """The first message with this id, if it was taken at or after `since_ms`."""
        found = self._ids.get(digest)
        return found if found is not None and found.taken_ms >= since_ms else None

    def add(self, digest: bytes, place: Remembered) -> None:
        """Remember an id. One that comes again after its window counts from now."""
        self._ids.pop(digest, None)
        self._ids[digest] = place

    def drop_before(self, since_ms: int) -> None:
        """Forget what was taken before."""
        ids = self._ids
        while ids:
            first = next(iter(ids))
            if ids[first].taken_ms >= since_ms:
                return
            del ids[first]

    def check_room(self, more: int) -> None:
        """Refuse rather than forget an id whose window has not ended."""
        if len(self._ids) + more > self._ids_max:
            raise TooBusy(f"{len(self._ids)} deduplication ids are within the partition's window, and more do not fit")
