"""Assigning: on which nodes new partitions live. A node on its own has one answer; a cluster places them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from goqueue.errors import InvalidReplicaAssignment, InvalidReplicationFactor
from goqueue.metadata.events import Assignment


class Assigning(Protocol):
    """Where the partitions of a new topic, or added ones, are put."""

    def copies(self, asked: int | None) -> int:
        """The replication factor for one that is asked for, None: the default; raises `InvalidReplicationFactor`."""
        ...

    def settings(self, copies: int) -> Mapping[str, str]:
        """Settings that a topic of so many copies gets unless it names them itself."""
        ...

    def place(self, count: int, copies: int) -> tuple[Assignment, ...]:
        """Assignments of so many new partitions."""
        ...

    def given(self, replicas: Mapping[int, Sequence[int]]) -> tuple[Assignment, ...]:
        """Assignments with these replicas, by partition; raises `InvalidReplicaAssignment`."""
        ...


class OneNode:
    """A node on its own holds everything."""

    def __init__(self, node_id: int, copies_default: int) -> None:
        self._node_id = node_id
        self._copies_default = copies_default

    def copies(self, asked: int | None) -> int:
        """See `Assigning.copies`."""
        copies = self._copies_default if asked is None else asked
        if copies != 1:
            raise InvalidReplicationFactor(
                f"replication factor {copies} is not possible with 1 node",
                field="replication_factor",
                hint="use 1, or -1 for the default",
            )
        return copies

    def settings(self, copies: int) -> Mapping[str, str]:
        """See `Assigning.settings`."""
        del copies
        return {}

    def place(self, count: int, copies: int) -> tuple[Assignment, ...]:
        """See `Assigning.place`."""
        del copies
        node = self._node_id
        return (Assignment(leader=node, leader_epoch=0, replicas=(node,), isr=(node,)),) * count

    def given(self, replicas: Mapping[int, Sequence[int]]) -> tuple[Assignment, ...]:
        """See `Assigning.given`."""
        for partition, nodes in replicas.items():
            if list(nodes) != [self._node_id]:
                raise InvalidReplicaAssignment(
                    f"partition {partition} is assigned to {list(nodes)}, but the only node is {self._node_id}",
                    field="assignments",
                )
        return self.place(len(replicas), 1)
