"""What a node is to a partition: its leader, a follower, or nothing. Decided by the metadata alone."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from goqueue.errors import NotLeader
from goqueue.metadata.events import Assignment
from goqueue.records import TopicPartition


class Leading(msgspec.Struct, frozen=True):
    """This node leads in `epoch`; `isr` are the replicas that have all that is acknowledged, itself included."""

    epoch: int
    isr: tuple[int, ...]


class Following(msgspec.Struct, frozen=True):
    """This node has a copy of what `leader` writes in `epoch`."""

    epoch: int
    leader: int


Role = Leading | Following

# (place, role): the metadata gave this node another role there; None: it has no replica.
RoleListener = Callable[[TopicPartition, Role | None], None]


def role_of(assignment: Assignment, node_id: int) -> Role | None:
    """The role of a node; None if it has no replica."""
    if assignment.leader == node_id:
        return Leading(assignment.leader_epoch, assignment.isr)
    if node_id in assignment.replicas or node_id in assignment.adding:
        return Following(assignment.leader_epoch, assignment.leader)
    return None


def not_leader(place: TopicPartition, assignment: Assignment) -> NotLeader:
    """The refusal that says who leads instead."""
    leader = f"node {assignment.leader} does" if assignment.leader >= 0 else "no node does at present"
    return NotLeader(
        f"this node does not lead {place}: {leader}, in leader epoch {assignment.leader_epoch}",
        leader=assignment.leader,
        leader_epoch=assignment.leader_epoch,
    )
