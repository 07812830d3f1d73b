"""In which order the lanes of one stateless read come: strictly by urgency, or in fair rounds by weight."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from goqueue.delivery.lanes.lane_scheduler import LANES, LaneScheduler, Pick

# No lane waits between two reads of which nothing is kept, so none is ever served out of turn.
_NEVER_MS = 2**63


class LaneOrder(StrEnum):
    """How lanes take turns."""

    PRIORITY = "priority"
    FAIR = "fair"


class ReadTurns:
    """The turns of one read. It begins a fresh round, and goes on with it if the read plans more than once."""

    def __init__(self, order: LaneOrder, weights: Sequence[int]) -> None:
        self._scheduler = LaneScheduler()
        self._strict = order is LaneOrder.PRIORITY
        self._weights = weights

    def pick(self, available: Sequence[int], limit: int, *, unsure_from: int = LANES) -> list[Pick]:
        """(lane, count) in the order to read, together at most `limit`.

        Lanes from `unsure_from` on come behind one of which more may be found: a strict read leaves them for later.
        """
        if self._strict:
            available = [count if lane < unsure_from else 0 for lane, count in enumerate(available)]
        return self._scheduler.pick(
            available, limit, 0, weights=self._weights, starvation_ms=_NEVER_MS, strict=self._strict
        )
