"""The segments of a log, oldest first: found by offset, and replaced as a whole when they change.

A reader takes `current` once and works on that: rolling, deleting and cutting put a new
list in its place and never change one that somebody may be reading.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

from goqueue.errors import CorruptFrame, StorageError
from goqueue.log.durability.write_failures import storage_error
from goqueue.log.segment.segment import Segment

T = TypeVar("T")

# How often a search begins again because segments left under it.
_ATTEMPTS = 10


class Gap(NamedTuple):
    """Offsets that are missing between two segments, which nothing in their bytes shows."""

    first_offset: int
    end_offset: int
    where: str
    position: int
    reason: str


class Segments:
    """An unchanging list of segments."""

    __slots__ = ("_bases", "all")

    def __init__(self, segments: Iterable[Segment] = ()) -> None:
        self.all = tuple(segments)
        self._bases = [segment.base_offset for segment in self.all]

    def __len__(self) -> int:
        return len(self.all)

    def at(self, offset: int) -> int:
        """The number of the segment that holds `offset`; 0 for an offset before all of them."""
        return max(bisect_right(self._bases, offset) - 1, 0)

    def from_offset(self, offset: int) -> Iterator[Segment]:
        """The segment that holds `offset`, then those behind it."""
        return iter(self.all[self.at(offset) :])


class SegmentList:
    """The segments of one log as they are now."""

    __slots__ = ("active", "current", "gaps", "generation", "sealed_bytes")

    def __init__(self, segments: Iterable[Segment] = ()) -> None:
        self.current = Segments(segments)
        # The segment that takes appends; None before the first append.
        self.active = self.current.all[-1] if self.current.all else None
        # Grows when bytes that a reader may be about to read go away, so that it can tell
        # a segment that left from one that is damaged.
        self.generation = 0
        # What recovery found missing.
        self.gaps: tuple[Gap, ...] = ()
        self.sealed_bytes = sum(segment.size_bytes for segment in self.current.all[:-1])

    @property
    def sealed(self) -> tuple[Segment, ...]:
        """All but the active one."""
        return self.current.all[:-1]

    @property
    def size_bytes(self) -> int:
        """Bytes in all `.log` files."""
        active = self.active
        return self.sealed_bytes + (active.size_bytes if active is not None else 0)

    def add(self, segment: Segment) -> None:
        """Put a new active segment behind the others."""
        self._publish((*self.current.all, segment))

    def replace(self, segments: Iterable[Segment]) -> None:
        """Put another list in place: segments were deleted, cut or compacted."""
        self.generation += 1
        self._publish(tuple(segments))

    def search(self, look: Callable[[Segments], T]) -> T:
        """Look something up in the segments, on any thread; again, if what failed was that they changed meanwhile."""
        for _ in range(_ATTEMPTS):
            generation = self.generation
            try:
                return look(self.current)
            except (CorruptFrame, FileNotFoundError) as error:
                if generation == self.generation:
                    if isinstance(error, FileNotFoundError):
                        raise StorageError(f"{error.filename} is gone") from error
                    raise
            except OSError as error:
                raise storage_error(error.filename or "a segment", error) from error
        return look(self.current)

    def _publish(self, segments: tuple[Segment, ...]) -> None:
        self.current = Segments(segments)
        self.active = segments[-1] if segments else None
        self.sealed_bytes = sum(segment.size_bytes for segment in segments[:-1])
