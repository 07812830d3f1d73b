"""LaneWindow: the next untouched messages of a queue's lanes, as far as somebody has looked.

A window is filled from the log's lane indexes a bounded look at a time. It remembers how far each
lane was looked at, so that a lane without messages is not searched again and again. It is derived
and small: what lies far ahead is not in it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from goqueue.delivery.lanes.lane_scheduler import LANES
from goqueue.delivery.leases.receive_plan import LaneOffer
from goqueue.log.index.lane_lookup import LaneRuns

LOOK_RUNS_MAX = 1024


class Look(NamedTuple):
    """A question to the log: the runs of these lanes from here on."""

    lanes: tuple[int, ...]
    offset: int

    @property
    def lane(self) -> int | None:
        """The one lane, or None for all of them."""
        return self.lanes[0] if len(self.lanes) == 1 else None


class LaneWindow:
    """What one queue knows of its lanes."""

    __slots__ = ("_begin", "_runs", "_scanned_to")

    def __init__(self) -> None:
        self._runs: list[deque[tuple[int, int]]] = [deque() for _ in range(LANES)]
        self._begin = [-1] * LANES
        self._scanned_to = [0] * LANES

    def move_to(self, cursors: Sequence[int]) -> None:
        """Forget what lies below the cursors."""
        for lane, cursor in enumerate(cursors):
            if cursor == self._begin[lane]:
                continue
            runs = self._runs[lane]
            if cursor < self._begin[lane] or cursor >= self._scanned_to[lane]:
                runs.clear()
                self._scanned_to[lane] = cursor
            while runs and runs[0][1] < cursor:
                runs.popleft()
            if runs and runs[0][0] < cursor:
                runs[0] = (cursor, runs[0][1])
            self._begin[lane] = cursor

    def next_look(self, want: int, upper: int) -> Look | None:
        """What to ask the log, so that every lane shows `want` messages or all that it has."""
        scanned = self._scanned_to
        for lane in range(LANES):
            if scanned[lane] < upper and self._size(lane, want) < want:
                at = scanned[lane]
                return Look(
                    tuple(
                        one
                        for one in range(LANES)
                        if scanned[one] == at and (one == lane or self._size(one, want) < want)
                    ),
                    at,
                )
        return None

    def take(self, look: Look, found: LaneRuns) -> None:
        """Take in the answer, unless the window has moved meanwhile."""
        current = {lane for lane in look.lanes if self._scanned_to[lane] == look.offset}
        for lane in current:
            self._scanned_to[lane] = max(found.scanned_to, look.offset)
        for lane, first, count in found.runs:
            if lane not in current:
                continue
            runs = self._runs[lane]
            if runs and runs[-1][1] == first - 1:
                runs[-1] = (runs[-1][0], first + count - 1)
            else:
                runs.append((first, first + count - 1))

    def offers(self, want: int) -> list[LaneOffer]:
        """What each lane has to give."""
        return [LaneOffer(self._runs[lane], self._scanned_to[lane], self._size(lane, want)) for lane in range(LANES)]

    def lowest_untouched(self, upper: int) -> int:
        """The lowest message still to come, or where nobody has looked yet; `upper` if that is all."""
        return min(
            upper,
            *(runs[0][0] if runs else scanned for runs, scanned in zip(self._runs, self._scanned_to, strict=True)),
        )

    def _size(self, lane: int, want: int) -> int:
        size = 0
        for first, last in self._runs[lane]:
            size += last - first + 1
            if size >= want:
                break
        return size
