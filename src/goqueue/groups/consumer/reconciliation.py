"""Reconciliation: the next step of one member from what it owns to what it is to own.

Revoke first, then assign: a member gives up what it must before it moves to the target's
epoch, and gets only partitions that nobody holds any more. So at every moment a partition
has at most one owner. As Kafka's CurrentAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import structs

from goqueue.groups.consumer.group import Current, MemberState
from goqueue.groups.subscription.topic_partitions import NO_PARTITIONS, PartitionSet, TopicIdPartition


def reconcile(
    current: Current,
    *,
    target: PartitionSet,
    target_epoch: int,
    owned: PartitionSet | None,
    is_free: Callable[[TopicIdPartition], bool],
    exists: Callable[[TopicIdPartition], bool],
) -> Current:
    """One step, or the same value when there is none to take.

    `owned` is what the member says it still owns; None means that it did not say. Partitions of a deleted topic
    need no revocation: nobody else can get them, and over HTTP the member could not even name them.
    """
    if current.state is MemberState.STABLE and current.epoch == target_epoch:
        return current
    if current.state is MemberState.UNREVOKED and _still_owns(owned, frozenset(filter(exists, current.revoking))):
        return current
    kept = current.assigned & target
    to_revoke = frozenset(filter(exists, current.assigned - kept))
    if to_revoke and _still_owns(owned, to_revoke):
        return structs.replace(
            current,
            previous_epoch=current.epoch,
            state=MemberState.UNREVOKED,
            assigned=kept,
            revoking=to_revoke,
        )
    wanted = target - kept
    free = frozenset(partition for partition in wanted if is_free(partition))
    step = Current(
        epoch=target_epoch,
        previous_epoch=current.epoch,
        state=MemberState.STABLE if free == wanted else MemberState.UNRELEASED,
        assigned=kept | free,
        revoking=NO_PARTITIONS,
    )
    # A member that still waits has taken no step: its epoch before the last is still the one to accept.
    return current if step == structs.replace(current, previous_epoch=step.previous_epoch) else step


def _still_owns(owned: PartitionSet | None, partitions: PartitionSet) -> bool:
    return bool(partitions) and (owned is None or not owned.isdisjoint(partitions))
