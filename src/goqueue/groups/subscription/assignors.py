"""Assignors: who is to own which partition. Pure functions, the same answer every time.

`uniform` is the default: every member has as many partitions as any other with the same
subscription, give or take one, and no partition moves that need not. `range` gives each
member neighbouring partitions of each topic, `roundrobin` deals them out in turn; both
begin from nothing each time.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from types import MappingProxyType
from uuid import UUID

from goqueue.groups.subscription.topic_partitions import NO_PARTITIONS, PartitionSet, TopicIdPartition


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member as assignors see it: what it wants, and what it was to own until now."""

    member_id: str
    topics: frozenset[UUID]
    owned: PartitionSet = NO_PARTITIONS
    instance_id: str | None = None

    @property
    def order(self) -> str:
        """What members are sorted by: static members keep their place over restarts."""
        return self.instance_id or self.member_id


Assignment = dict[str, PartitionSet]
Assignor = Callable[[Sequence[Subscriber], Mapping[UUID, int]], Assignment]


def assign_uniform(subscribers: Sequence[Subscriber], partition_counts: Mapping[UUID, int]) -> Assignment:
    """Sticky and even. Partition counts are of topics that exist; others are ignored."""
    if not subscribers:
        return {}
    members = sorted(subscribers, key=lambda one: (one.order, one.member_id))
    if all(member.topics == members[0].topics for member in members):
        return _uniform_for_equals(members, partition_counts)
    return _uniform_for_mixed(members, partition_counts)


def assign_range(subscribers: Sequence[Subscriber], partition_counts: Mapping[UUID, int]) -> Assignment:
    """Neighbouring partitions; the first members take one more where it does not divide."""
    owned: dict[str, list[TopicIdPartition]] = {one.member_id: [] for one in subscribers}
    for topic_id, members in _subscribers_by_topic(subscribers, partition_counts).items():
        share, rest = divmod(partition_counts[topic_id], len(members))
        first = 0
        for place, member in enumerate(members):
            last = first + share + (place < rest)
            owned[member.member_id].extend(TopicIdPartition(topic_id, partition) for partition in range(first, last))
            first = last
    return {member_id: frozenset(partitions) for member_id, partitions in owned.items()}


def assign_round_robin(subscribers: Sequence[Subscriber], partition_counts: Mapping[UUID, int]) -> Assignment:
    """One partition after the other to one member after the other, skipping who does not want it."""
    owned: dict[str, list[TopicIdPartition]] = {one.member_id: [] for one in subscribers}
    turns = cycle(sorted(subscribers, key=lambda one: (one.order, one.member_id)))
    wanted = _subscribers_by_topic(subscribers, partition_counts)
    for partition in _all_partitions(wanted, partition_counts):
        member = next(one for one in turns if partition.topic_id in one.topics)
        owned[member.member_id].append(partition)
    return {member_id: frozenset(partitions) for member_id, partitions in owned.items()}


DEFAULT_ASSIGNOR = "uniform"

ASSIGNORS: Mapping[str, Assignor] = MappingProxyType(
    # `sticky` is what clients of the classic protocol call an assignor that moves no partition that need not.
    {"uniform": assign_uniform, "sticky": assign_uniform, "range": assign_range, "roundrobin": assign_round_robin}
)


def _uniform_for_equals(members: Sequence[Subscriber], partition_counts: Mapping[UUID, int]) -> Assignment:
    """All want the same: a quota each, kept partitions first, the rest dealt out in turn."""
    topics = sorted(members[0].topics & partition_counts.keys())
    kept = _valid_owned(members, partition_counts)
    share, rest = divmod(sum(partition_counts[topic_id] for topic_id in topics), len(members))
    # One partition more goes to whoever already has more than the share: then it need not move.
    most_first = sorted(members, key=lambda one: -len(kept[one.member_id]))
    quotas = {member.member_id: share + (place < rest) for place, member in enumerate(most_first)}
    for member_id, partitions in kept.items():
        del partitions[quotas[member_id] :]
    taken = {partition for partitions in kept.values() for partition in partitions}
    hungry = deque(member.member_id for member in members if len(kept[member.member_id]) < quotas[member.member_id])
    for partition in _all_partitions(topics, partition_counts):
        if partition not in taken:
            member_id = hungry.popleft()
            kept[member_id].append(partition)
            if len(kept[member_id]) < quotas[member_id]:
                hungry.append(member_id)
    return {member_id: frozenset(partitions) for member_id, partitions in kept.items()}


def _uniform_for_mixed(members: Sequence[Subscriber], partition_counts: Mapping[UUID, int]) -> Assignment:
    """Subscriptions differ: keep what is valid, fill up the poorest, then level out."""
    owned = {member_id: set(partitions) for member_id, partitions in _valid_owned(members, partition_counts).items()}
    taken = {partition for partitions in owned.values() for partition in partitions}
    wanted = _subscribers_by_topic(members, partition_counts)
    # Topics that few want are handed out first: those who want others too can still be served.
    for topic_id in sorted(wanted, key=lambda one: (len(wanted[one]), one)):
        poorest = [(len(owned[member.member_id]), member.member_id) for member in wanted[topic_id]]
        heapq.heapify(poorest)
        for partition in _all_partitions([topic_id], partition_counts):
            if partition not in taken:
                _, member_id = poorest[0]
                owned[member_id].add(partition)
                heapq.heapreplace(poorest, (len(owned[member_id]), member_id))
    wants = {topic_id: [member.member_id for member in subscribed] for topic_id, subscribed in wanted.items()}
    # Each move brings two loads closer together, so this ends.
    while any(_level(topic_id, wants[topic_id], owned) for topic_id in sorted(wants)):
        pass
    return {member_id: frozenset(partitions) for member_id, partitions in owned.items()}


def _level(topic_id: UUID, member_ids: Sequence[str], owned: dict[str, set[TopicIdPartition]]) -> bool:
    """Move partitions of one topic from the richest owner to the poorest subscriber."""
    here = {member_id: sorted(one for one in owned[member_id] if one.topic_id == topic_id) for member_id in member_ids}
    moved = False
    while True:
        poorest = min(member_ids, key=lambda one: (len(owned[one]), one))
        richest = max((one for one in member_ids if here[one]), key=lambda one: (len(owned[one]), one), default=poorest)
        if len(owned[richest]) - len(owned[poorest]) < 2:
            return moved
        partition = here[richest].pop()
        owned[richest].remove(partition)
        owned[poorest].add(partition)
        here[poorest].append(partition)
        moved = True


def _valid_owned(
    members: Sequence[Subscriber], partition_counts: Mapping[UUID, int]
) -> dict[str, list[TopicIdPartition]]:
    """What each member may keep: subscribed, existing, and nobody else's."""
    taken: set[TopicIdPartition] = set()
    kept = {}
    for member in members:
        mine = sorted(
            one
            for one in member.owned
            if one.topic_id in member.topics and one.partition < partition_counts.get(one.topic_id, 0)
        )
        kept[member.member_id] = [one for one in mine if one not in taken]
        taken.update(mine)
    return kept


def _subscribers_by_topic(
    subscribers: Sequence[Subscriber], partition_counts: Mapping[UUID, int]
) -> dict[UUID, list[Subscriber]]:
    """Who wants each topic, topics and members in their order; topics nobody wants are left out."""
    wanted: dict[UUID, list[Subscriber]] = {}
    for member in sorted(subscribers, key=lambda one: (one.order, one.member_id)):
        for topic_id in member.topics & partition_counts.keys():
            wanted.setdefault(topic_id, []).append(member)
    return {topic_id: wanted[topic_id] for topic_id in sorted(wanted)}


def _all_partitions(
    topics: Sequence[UUID] | Mapping[UUID, object], partition_counts: Mapping[UUID, int]
) -> Iterator[TopicIdPartition]:
    for topic_id in topics:
        for partition in range(partition_counts[topic_id]):
            yield TopicIdPartition(topic_id, partition)
