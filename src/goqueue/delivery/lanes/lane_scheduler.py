"""Which lane is served next: deficit round robin over the five lanes of one queue.

A round begins with critical and visits every lane; a visit adds the lane's weight to its
deficit, and a message costs a tenth of the weights at play, so a round serves about ten. A lane
that is empty loses its deficit: nobody saves up. A lane that has waited too long is served out
of turn, one message, the most urgent such lane first; when all that wait are that old there
is nothing to put right, and the round goes on as ever.
"""

from __future__ import annotations

from collections.abc import Sequence

LANES = 5
_MESSAGES_PER_ROUND = 10
_NOT_WAITING = -1

Pick = tuple[int, int]


class LaneScheduler:
    """The turns of one queue's lanes. It sees only how many messages each lane has to give."""

    __slots__ = ("_deficits", "_next", "_waiting_since_ms", "last_served_ms")

    def __init__(self) -> None:
        self._deficits = [0] * LANES
        # The lane that the current round visits next; 0 begins a round.
        self._next = 0
        self._waiting_since_ms = [_NOT_WAITING] * LANES
        self.last_served_ms = [_NOT_WAITING] * LANES

    def pick(
        self,
        available: Sequence[int],
        limit: int,
        now_ms: int,
        *,
        weights: Sequence[int],
        starvation_ms: int,
        strict: bool = False,
    ) -> list[Pick]:
        """(lane, count) in the order of delivery, together at most `limit` and never more than is available."""
        waiting = [lane for lane in range(LANES) if available[lane] > 0]
        if not waiting or limit <= 0:
            return []
        if len(waiting) == 1:
            lane = waiting[0]
            picks = [(lane, min(available[lane], limit))]
            self._deficits = [0] * LANES
            self._next = 0
        elif strict:
            picks = _strictly(available, waiting, limit)
        else:
            left = list(available)
            picks = self._starving(left, waiting, limit, now_ms, starvation_ms)
            self._rounds(left, limit - len(picks), weights, picks)
        self.note(picks, available, now_ms)
        return picks

    def waits_since_ms(self, lane: int) -> int | None:
        """Since when the lane has had something and was passed over."""
        since_ms = self._waiting_since_ms[lane]
        return None if since_ms == _NOT_WAITING else since_ms

    def _starving(
        self, left: list[int], waiting: Sequence[int], limit: int, now_ms: int, starvation_ms: int
    ) -> list[Pick]:
        old = [
            lane
            for lane in waiting
            if self._waiting_since_ms[lane] != _NOT_WAITING and now_ms - self._waiting_since_ms[lane] >= starvation_ms
        ]
        if len(old) == len(waiting):
            return []
        served = old[:limit]
        for lane in served:
            left[lane] -= 1
        return [(lane, 1) for lane in served]

    def _rounds(self, left: list[int], limit: int, weights: Sequence[int], picks: list[Pick]) -> None:
        deficits = self._deficits
        # Only lanes that have something count, so that two light lanes alone need no endless rounds.
        cost = max(sum(weights[lane] for lane in range(LANES) if left[lane]) // _MESSAGES_PER_ROUND, 1)
        total = sum(left)
        lane = self._next
        while limit > 0 and total > 0:
            have = left[lane]
            if have <= 0:
                deficits[lane] = 0
            else:
                deficit = deficits[lane]
                if deficit < cost:
                    deficit += weights[lane]
                count = min(deficit // cost, have, limit)
                if count:
                    picks.append((lane, count))
                    left[lane] = have - count
                    total -= count
                    limit -= count
                    deficit -= count * cost
                deficits[lane] = deficit if left[lane] else 0
                if deficit >= cost and left[lane]:
                    # The limit cut the visit short: the next call goes on with it.
                    break
            lane = (lane + 1) % LANES
        self._next = lane

    def note(self, picks: Sequence[Pick], available: Sequence[int], now_ms: int) -> None:
        """Remember which lanes were served, and which had something and were not."""
        waiting = self._waiting_since_ms
        for lane in range(LANES):
            if available[lane] <= 0:
                waiting[lane] = _NOT_WAITING
            elif waiting[lane] == _NOT_WAITING:
                waiting[lane] = now_ms
        served = [0] * LANES
        for lane, count in picks:
            served[lane] += count
            self.last_served_ms[lane] = now_ms
            waiting[lane] = _NOT_WAITING if served[lane] >= available[lane] else now_ms


def _strictly(available: Sequence[int], waiting: Sequence[int], limit: int) -> list[Pick]:
    picks: list[Pick] = []
    for lane in waiting:
        count = min(available[lane], limit)
        if count:
            picks.append((lane, count))
            limit -= count
    return picks
