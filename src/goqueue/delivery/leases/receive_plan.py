"""Plan: which messages a receive would get, before anything is promised.

A plan is made from a queue and what its lanes have to offer, and changes nothing durable.
What it names is read; only then a `Lease` asks for it, and is refused if the queue moved on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from goqueue.delivery.lanes.lane_scheduler import LANES
from goqueue.delivery.policy import DeliveryPolicy
from goqueue.delivery.state.queue import Queue


class LaneOffer(NamedTuple):
    """The untouched messages of one lane from its cursor up to `scanned_to`, as (first, last) runs."""

    runs: Sequence[tuple[int, int]]
    scanned_to: int
    # Messages in the runs, as far as anybody wants to know.
    size: int


class Item(NamedTuple):
    """Messages to deliver next: neighbours that are new, or one that was delivered before."""

    lane: int
    first: int
    last: int
    fresh: bool


@dataclass(slots=True)
class Plan:
    """What to read and then to lease, in the order of delivery."""

    base: list[int]
    items: list[Item] = field(default_factory=list)


def lanes_available(
    queue: Queue, offers: Sequence[LaneOffer], limit: int, now_ms: int, policy: DeliveryPolicy
) -> list[int]:
    """How many messages each lane could give to a receive of up to `limit`."""
    queue.advance(now_ms)
    room = max(policy.outstanding_max - len(queue.outstanding), 0)
    return [
        min((len(queue.ready_offsets(lane, limit)) if queue.ready[lane] else 0) + min(offer.size, room), limit)
        for lane, offer in enumerate(offers)
    ]


def make_plan(
    queue: Queue,
    offers: Sequence[LaneOffer],
    limit: int,
    now_ms: int,
    policy: DeliveryPolicy,
    quotas: Sequence[int] | None = None,
) -> Plan:
    """Choose up to `limit` messages; fewer where the group has too many outstanding already.

    `quotas` say how many of each lane, where the lanes of several partitions were scheduled together.
    """
    queue.advance(now_ms)
    plan = Plan(list(queue.cursors))
    room = policy.outstanding_max - len(queue.outstanding)
    # One more than is wanted: a lane that has more keeps its turn, one that is emptied loses it.
    most = limit + 1
    retries = [queue.ready_offsets(lane, most) if queue.ready[lane] else [] for lane in range(LANES)]
    available = [
        min(len(again) + (min(offer.size, room) if room > 0 else 0), most)
        for again, offer in zip(retries, offers, strict=True)
    ]
    if quotas is not None:
        picks = [(lane, min(quota, available[lane])) for lane, quota in enumerate(quotas) if quota and available[lane]]
        queue.scheduler.note(picks, available, now_ms)
    else:
        picks = queue.scheduler.pick(
            available,
            limit,
            now_ms,
            weights=policy.lane_weights,
            starvation_ms=policy.starvation_ms,
            strict=policy.strict_priority,
        )
    lanes = [_Lane(lane, retries[lane], offers[lane].runs) for lane in range(LANES)]
    for lane, count in picks:
        room = lanes[lane].take(count, room, plan.items)
    return plan


class _Lane:
    """What is left of a lane while it is dealt out: first what was delivered before, then what is new."""

    __slots__ = ("_again", "_at", "_lane", "_next", "_run", "_runs")

    def __init__(self, lane: int, again: Sequence[int], runs: Sequence[tuple[int, int]]) -> None:
        self._lane = lane
        self._again = again
        self._at = 0
        self._runs = runs
        self._run = 0
        self._next = runs[0][0] if runs else 0

    def take(self, count: int, room: int, items: list[Item]) -> int:
        lane = self._lane
        while count > 0 and self._at < len(self._again):
            offset = self._again[self._at]
            items.append(Item(lane, offset, offset, fresh=False))
            self._at += 1
            count -= 1
        while count > 0 and room > 0 and self._run < len(self._runs):
            last = self._runs[self._run][1]
            end = min(last, self._next + min(count, room) - 1)
            items.append(Item(lane, self._next, end, fresh=True))
            taken = end - self._next + 1
            count -= taken
            room -= taken
            if end < last:
                self._next = end + 1
            else:
                self._run += 1
                self._next = self._runs[self._run][0] if self._run < len(self._runs) else 0
        return room
