"""GroupLanes: priority over all the partitions that one receive looks at.

A queue schedules the lanes of its own partition. A receive over several partitions would so give out a background
message of one partition while a critical one waits in another. Where more than one lane waits, the lanes of all
partitions are scheduled together, by the same rules and with one state per group and topics. Every partition is told
how many messages of each lane it gives.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from goqueue.delivery.lanes.lane_scheduler import LANES, LaneScheduler, Pick
from goqueue.delivery.policy import DeliveryPolicy
from goqueue.delivery.values import Delivery

# Groups are made by clients: the longest quiet one begins its rounds anew.
_GROUPS_MAX = 10_000

Quotas = tuple[int, ...]
# A group and the topics that are read together: a round of one topic says nothing about another.
Readers = tuple[str, frozenset[UUID]]


class LanePlan(NamedTuple):
    """The turns of the lanes, and for each partition how many messages of each lane it gives."""

    picks: list[Pick]
    quotas: list[Quotas]


class GroupLanes:
    """The schedulers of groups that receive from several partitions."""

    def __init__(self) -> None:
        self._schedulers: OrderedDict[Readers, LaneScheduler] = OrderedDict()

    def plan(
        self,
        readers: Readers,
        available: Sequence[Sequence[int]],
        limit: int,
        now_ms: int,
        policies: Sequence[DeliveryPolicy],
    ) -> LanePlan | None:
        """What each partition is to give, of what it has; None when there is no choice between lanes."""
        totals = [sum(lanes) for lanes in zip(*available, strict=True)]
        policy = policies[0]
        rules = {(one.lane_weights, one.strict_priority, one.starvation_ms) for one in policies}
        if sum(map(bool, totals)) < 2 or len(rules) > 1:
            # Topics with different rules have no common order.
            self._schedulers.pop(readers, None)
            return None
        scheduler = self._schedulers.setdefault(readers, LaneScheduler())
        self._schedulers.move_to_end(readers)
        if len(self._schedulers) > _GROUPS_MAX:
            self._schedulers.popitem(last=False)
        picks = scheduler.pick(
            totals,
            limit,
            now_ms,
            weights=policy.lane_weights,
            starvation_ms=policy.starvation_ms,
            strict=policy.strict_priority,
        )
        counts = [sum(count for lane, count in picks if lane == one) for one in range(LANES)]
        shares = [_shared(counts[lane], [one[lane] for one in available]) for lane in range(LANES)]
        return LanePlan(picks, list(zip(*shares, strict=True)))


def in_turn(picks: Sequence[Pick], found: Sequence[Delivery]) -> list[Delivery]:
    """Messages of several partitions in the order of the lanes' turns."""
    lanes: list[deque[Delivery]] = [deque() for _ in range(LANES)]
    for one in found:
        lanes[one.priority].append(one)
    ordered: list[Delivery] = []
    for lane, count in picks:
        ordered += [lanes[lane].popleft() for _ in range(min(count, len(lanes[lane])))]
    return ordered + [one for lane in lanes for one in lane]


def _shared(count: int, haves: Sequence[int]) -> list[int]:
    """So many messages from partitions that have so many: equal shares, and what one lacks the others give."""
    shares = [0] * len(haves)
    left = count
    while left > 0 and (open_ := [at for at, have in enumerate(haves) if shares[at] < have]):
        share = max(left // len(open_), 1)
        for at in open_:
            more = min(share, haves[at] - shares[at], left)
            shares[at] += more
            left -= more
    return shares
