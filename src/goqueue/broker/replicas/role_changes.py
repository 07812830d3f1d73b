"""RoleChanges: what a change of the metadata does to the replicas of this node.

A replica gets another role or term, other settings, or goes, with its topic or alone. Whoever wants to know of roles is
told when the replica has taken its new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from goqueue.broker.replicas.members import Members
from goqueue.broker.replicas.open_partitions import OpenPartitions
from goqueue.broker.replicas.openings import Openings
from goqueue.broker.replicas.partition_files import PartitionFiles
from goqueue.broker.replicas.removals import Removals
from goqueue.broker.replicas.roles import RoleListener, not_leader, role_of
from goqueue.broker.replicas.topic_settings import TopicSettings
from goqueue.broker.traffic import Traffic
from goqueue.errors import NotLeader
from goqueue.metadata.events import (
    Assignment,
    AssignmentsChanged,
    BrokerDefaultsChanged,
    Delta,
    TopicConfigChanged,
    TopicDeleted,
)
from goqueue.records import TopicPartition

if TYPE_CHECKING:
    from uuid import UUID

    from goqueue.metadata.store import MetadataStore


class RoleChanges:
    """Follows the metadata for the partitions that are open, and for the files of those that are not."""

    def __init__(
        self,
        *,
        node_id: int,
        metadata: MetadataStore,
        settings: TopicSettings,
        files: PartitionFiles,
        partitions: OpenPartitions,
        openings: Openings,
        members: Members,
        removals: Removals,
        traffic: Traffic,
    ) -> None:
        self.listeners: list[RoleListener] = []
        # Whether the files of a replica that is moved to other nodes are removed.
        self.removes_left = False
        self.is_closed = False
        self._node_id = node_id
        self._metadata = metadata
        self._settings = settings
        self._files = files
        self._partitions = partitions
        self._openings = openings
        self._members = members
        self._removals = removals
        self._traffic = traffic

    def on_delta(self, delta: Delta) -> None:
        """Take in one change of the metadata."""
        for event in delta.events:
            if isinstance(event, TopicDeleted):
                self._drop(event.name, event.topic_id)
            elif isinstance(event, TopicConfigChanged):
                topic = self._metadata.image.topic_by_id(event.topic_id)
                for partition in self._partitions.of_topic(event.name):
                    if topic is not None:
                        partition.reconfigure(self._settings.of(topic), self._settings.broker)
            elif isinstance(event, AssignmentsChanged):
                for number, assignment in event.assignments.items():
                    self._assign(TopicPartition(event.name, number), assignment)
            elif isinstance(event, BrokerDefaultsChanged):
                self._alter_defaults(event.defaults)

    def _alter_defaults(self, defaults: Mapping[str, str]) -> None:
        self._settings.alter(defaults)
        for partition in self._partitions.all.values():
            topic = self._metadata.image.topic_by_id(partition.topic_id)
            if topic is not None:
                partition.reconfigure(self._settings.of(topic), self._settings.broker)

    def _assign(self, place: TopicPartition, assignment: Assignment) -> None:
        """Take the role that an assignment gives this node, then tell everyone."""
        role = role_of(assignment, self._node_id)
        found = self._partitions.all.get(place)
        if role is None and self.removes_left:
            self._leave(place)
        if found is not None:
            if role is None:
                self._partitions.remove(place)
                found.abandon(not_leader(place, assignment))
            else:
                former = found.role
                found.become(role)
                self._partitions.put(found)
                if former is not None and type(former) is type(role) and former.epoch == role.epoch:
                    # Only other replicas have come or gone.
                    return
        for listener in self.listeners:
            listener(place, role)

    def _leave(self, place: TopicPartition) -> None:
        """This node has no replica any more: if there are files of one, remove them."""
        topic = self._metadata.image.topic(place.topic)
        if topic is not None and self._files.exists(*place):
            self._removals.remove_replica(place, topic.topic_id, lambda: self._still_opening(place, topic.topic_id))

    def _still_opening(self, place: TopicPartition, topic_id: UUID) -> list[asyncio.Task[None]] | None:
        """What must end before the files of a replica can go; None if they must stay: see `IsLeft`."""
        assignments = self._metadata.image.assignments(topic_id)
        if self.is_closed or not 0 <= place.partition < len(assignments):
            return None
        if role_of(assignments[place.partition], self._node_id) is not None:
            return None
        opening = self._openings.get(place)
        tasks = self._members.opening_tasks(*place)
        if opening is not None and opening.task is not None:
            tasks.append(opening.task)
        if not tasks:
            self._members.drop_partition(*place)
        return tasks

    def _drop(self, name: str, topic_id: UUID) -> None:
        self._openings.drop_topic(name)
        self._members.drop_topic(name)
        for partition in self._partitions.of_topic(name):
            self._partitions.remove(partition.key)
            partition.abandon(NotLeader(f"topic {name!r} is deleted"))
        self._traffic.forget(name)
        self._settings.forget(topic_id)
        self._removals.remove(name, topic_id)
