"""Targets: who is to own what, computed anew whenever something they depend on has changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from goqueue.groups.consumer.group import Draft, preferred_assignor
from goqueue.groups.statistics import Reason, Rebalances
from goqueue.groups.subscription.assignors import ASSIGNORS, Subscriber
from goqueue.groups.subscription.subscriptions import Subscriptions
from goqueue.groups.subscription.topic_partitions import NO_PARTITIONS, PartitionSet, TopicIdPartition


@dataclass(frozen=True, slots=True)
class Targets:
    """Gives the members of a draft their targets."""

    subscriptions: Subscriptions
    rebalances: Rebalances

    @property
    def version(self) -> int:
        """The version of the topics that targets are computed from."""
        return self.subscriptions.version

    def check_pattern(self, pattern: str) -> None:
        """Raise `InvalidRegex` unless targets can be computed with this pattern."""
        self.subscriptions.check_pattern(pattern)

    def exists(self, partition: TopicIdPartition) -> bool:
        """Whether the partition's topic has not been deleted."""
        return self.subscriptions.exists(partition.topic_id)

    def renew(self, draft: Draft, reasons: Iterable[Reason], now_ms: int) -> None:
        """Raise the epoch and compute who is to own what; the draft's targets are where to start from."""
        partition_counts: dict[UUID, int] = {}
        subscribers = []
        for member in draft.members.values():
            topics = self.subscriptions.topics_of(member.subscription)
            partition_counts |= topics
            owned = draft.targets.get(member.member_id, NO_PARTITIONS)
            subscribers.append(Subscriber(member.member_id, frozenset(topics), owned, member.subscription.instance_id))
        draft.epoch += 1
        draft.targets = ASSIGNORS[preferred_assignor(draft.members)](subscribers, partition_counts)
        self._count(draft, reasons, now_ms)

    def are_outdated(self, draft: Draft) -> bool:
        """Whether the targets cover other partitions than the members' topics have now."""
        wanted: dict[UUID, int] = {}
        for member in draft.members.values():
            wanted |= self.subscriptions.topics_of(member.subscription)
        covered = Counter(topic_id for target in draft.targets.values() for topic_id, _ in target)
        return wanted != dict(covered)

    def _count(self, draft: Draft, reasons: Iterable[Reason], now_ms: int) -> None:
        group = draft.group
        after = _owners(draft.targets)
        moved = sum(after.get(partition) != owner for partition, owner in _owners(group.targets).items())
        for reason in reasons:
            self.rebalances.start(group.group_id, reason, now_ms)
        self.rebalances.move(group.group_id, moved)


def _owners(targets: dict[str, PartitionSet]) -> dict[TopicIdPartition, str]:
    return {partition: member_id for member_id, target in targets.items() for partition in target}
