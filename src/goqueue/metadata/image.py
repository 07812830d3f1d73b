"""The image: what all metadata events add up to, with the revision at which each part last changed.

`apply` is the only thing that changes it, and it refuses an event that contradicts what
is there, so a store may try events on a copy before it writes them down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import count
from types import MappingProxyType
from typing import TypeVar
from uuid import UUID

from msgspec import structs

from goqueue.errors import Conflict, PartitionNotFound, TopicExists, TopicNotFound
from goqueue.metadata import keys
from goqueue.metadata.events import (
    Assignment,
    AssignmentsChanged,
    BrokerDefaultsChanged,
    ClusterNamed,
    ControllerChanged,
    DeletionFinished,
    Event,
    FeatureFinalised,
    GroupSettings,
    GroupSettingsChanged,
    Node,
    NodeChanged,
    PartitionsAdded,
    ProducerIdsReserved,
    ScheduleHome,
    ScheduleHomed,
    SecurityChanged,
    SessionChanged,
    Topic,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
)
from goqueue.metadata.features import check_allowed, distinct
from goqueue.metadata.membership import Membership

_Name = TypeVar("_Name")
_Value = TypeVar("_Value")

# The revision of a key that is not there.
ABSENT = 0

# Where a key's revision is known better than by the transaction that is applied.
RevisionOf = Callable[[str], int]


class Image:
    """Topics by name and by id, their assignments, deletions under way, and the counters of the cluster."""

    __slots__ = (
        "_assignments",
        "_by_id",
        "_by_name",
        "_deletions",
        "_features",
        "_membership",
        "_revisions",
        "_security",
        "broker_defaults",
        "cluster_id",
        "group_settings",
        "next_producer_id",
        "revision",
        "schedule_homes",
    )

    def __init__(self) -> None:
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[UUID, Topic] = {}
        self._assignments: dict[UUID, tuple[Assignment, ...]] = {}
        self._deletions: dict[UUID, str] = {}
        self._features: dict[str, int] = {}
        self._membership = Membership()
        # By kind and name, as they are stored.
        self._security: dict[tuple[str, str], bytes] = {}
        # Of all keys but those of partitions, whose assignments carry their own.
        self._revisions: dict[str, int] = {}
        # Defaults of topic settings that were changed at run time, by the broker's names.
        self.broker_defaults: Mapping[str, str] = MappingProxyType({})
        # Where recurring messages live, by name.
        self.schedule_homes: dict[str, ScheduleHome] = {}
        # What was set for groups, by name.
        self.group_settings: dict[str, GroupSettings] = {}
        self.next_producer_id = 0
        self.cluster_id = ""
        self.revision = 0

    def topic(self, name: str) -> Topic | None:
        """The topic of that name."""
        return self._by_name.get(name)

    def topic_by_id(self, topic_id: UUID) -> Topic | None:
        """The topic of that id."""
        return self._by_id.get(topic_id)

    def topics(self) -> list[Topic]:
        """All topics, by name."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    def assignments(self, topic_id: UUID) -> tuple[Assignment, ...]:
        """Where the partitions of a topic live, by number; empty if there is no such topic."""
        return self._assignments.get(topic_id, ())

    def leaders(self) -> set[int]:
        """The nodes that lead a partition."""
        return {one.leader for assignments in self._assignments.values() for one in distinct(assignments)}

    def deletions(self) -> dict[UUID, str]:
        """Deleted topics, by id, whose files may still be there."""
        return dict(self._deletions)

    def nodes(self) -> Mapping[int, Node]:
        """Every node that registered, living or not, by id. A node on its own is the only one."""
        return self._membership.nodes

    @property
    def sessions(self) -> Mapping[int, int]:
        """The broker epoch of every node that has a session, by id."""
        return self._membership.sessions

    @property
    def controller(self) -> tuple[int, int] | None:
        """Node id and epoch of the controller, if there is one."""
        return self._membership.controller

    def session_epoch(self, key: str) -> int:
        """The epoch of the session, or of the controller, that holds this key; 0 if none does."""
        if key == keys.CONTROLLER:
            return 0 if self.controller is None else self.controller[1]
        return self.sessions.get(int(key.removeprefix(keys.SESSIONS)), 0)

    def feature_levels(self) -> dict[str, int]:
        """The finalised level of every feature that has one; of all others it is 0."""
        return dict(self._features)

    def security_values(self) -> dict[tuple[str, str], bytes]:
        """Users, keys, roles, bindings and access rules, by kind and name."""
        return dict(self._security)

    def revision_of(self, key: str) -> int:
        """When that key last changed; ABSENT if it is not there."""
        if not key.startswith(keys.PARTITIONS):
            return self._revisions.get(key, ABSENT)
        topic_id, partition = keys.parse_partition_key(key)
        assignments = self.assignments(topic_id)
        return assignments[partition].partition_epoch if partition < len(assignments) else ABSENT

    def copy(self) -> Image:
        """An image on which events can be tried."""
        copied = Image()
        copied._by_name = self._by_name.copy()
        copied._by_id = self._by_id.copy()
        copied._assignments = self._assignments.copy()
        copied._deletions = self._deletions.copy()
        copied._features = self._features.copy()
        copied._membership = self._membership.copy()
        copied._security = self._security.copy()
        copied._revisions = self._revisions.copy()
        copied.broker_defaults = self.broker_defaults
        copied.schedule_homes = self.schedule_homes.copy()
        copied.group_settings = self.group_settings.copy()
        copied.next_producer_id = self.next_producer_id
        copied.cluster_id = self.cluster_id
        copied.revision = self.revision
        return copied

    def apply(self, event: Event, revision: int, revision_of: RevisionOf | None = None) -> None:
        """Take one event in, or raise the error that says why it cannot be.

        `revision` is that of the event's transaction. `revision_of` knows those of single keys, where
        a transaction makes values visible that were written before it.
        """
        check_allowed(event, self._features)
        touched = self._take(event, revision, revision_of)
        for key in touched:
            self._revisions[key] = revision if revision_of is None else revision_of(key)
        self.revision = max(self.revision, revision)

    def remember_deletion(self, topic_id: UUID, name: str, revision: int) -> None:
        """Restore a deletion whose topic was gone before the image was read."""
        self._deletions[topic_id] = name
        self._revisions[keys.deletion_key(topic_id)] = revision
        self.revision = max(self.revision, revision)

    def _take(self, event: Event, revision: int, revision_of: RevisionOf | None) -> Iterable[str]:
        """Change the image; returns the keys that were written, partitions apart."""
        match event:
            case TopicCreated(topic, assignments):
                self._create(topic, _stamped(topic.topic_id, count(), assignments, revision, revision_of))
                return keys.topic_key(topic.name), keys.settings_key(topic.topic_id)
            case TopicDeleted(name, topic_id):
                self._existing(name, topic_id)
                self._remove(name)
                self._deletions[topic_id] = name
                return (keys.deletion_key(topic_id),)
            case DeletionFinished(topic_id):
                self._deletions.pop(topic_id, None)
                self._revisions.pop(keys.deletion_key(topic_id), None)
                return ()
            case TopicConfigChanged(name, topic_id, config):
                topic = self._existing(name, topic_id)
                self._put(replace(topic, config=MappingProxyType(dict(config))))
                return (keys.settings_key(topic_id),)
            case PartitionsAdded(name, topic_id, first, added):
                topic = self._existing(name, topic_id)
                if first != topic.partition_count:
                    raise Conflict(f"topic {name!r} has {topic.partition_count} partitions, not {first}")
                self._assignments[topic_id] += _stamped(topic_id, count(first), added, revision, revision_of)
                self._put(replace(topic, partition_count=first + len(added)))
                return (keys.topic_key(name),)
            case AssignmentsChanged(name, topic_id, changed):
                self._existing(name, topic_id)
                self._reassign(name, topic_id, changed, revision, revision_of)
                return ()
            case SecurityChanged() | ScheduleHomed() | GroupSettingsChanged():
                return self._take_named(event)
            case NodeChanged() | SessionChanged() | ControllerChanged():
                if isinstance(event, NodeChanged) and event.node is None:
                    self._revisions.pop(keys.node_key(event.node_id), None)
                return self._membership.take(event)
            case ProducerIdsReserved() | ClusterNamed() | FeatureFinalised() | BrokerDefaultsChanged():
                return (self._take_single(event),)

    def _take_named(self, event: SecurityChanged | ScheduleHomed | GroupSettingsChanged) -> Iterable[str]:
        """Change one of the values that have names; returns its key if it is there."""
        match event:
            case SecurityChanged(kind, name, value):
                return self._put_named(self._security, (kind, name), value, keys.security_key(kind, name))
            case ScheduleHomed(name, home):
                return self._put_named(self.schedule_homes, name, home, keys.schedule_key(name))
            case GroupSettingsChanged(group, settings):
                return self._put_named(self.group_settings, group, settings, keys.group_settings_key(group))

    def _put_named(self, values: dict[_Name, _Value], name: _Name, value: _Value | None, key: str) -> Iterable[str]:
        if value is None:
            values.pop(name, None)
            self._revisions.pop(key, None)
            return ()
        values[name] = value
        return (key,)

    def _take_single(self, event: ProducerIdsReserved | ClusterNamed | FeatureFinalised | BrokerDefaultsChanged) -> str:
        """Change what the cluster has one of; returns its key."""
        match event:
            case ProducerIdsReserved(next_producer_id):
                if next_producer_id <= self.next_producer_id:
                    raise Conflict(f"producer ids below {self.next_producer_id} were given out already")
                self.next_producer_id = next_producer_id
                return keys.PRODUCER_IDS
            case ClusterNamed(cluster_id):
                if self.cluster_id:
                    raise Conflict(f"the cluster has its id already: {self.cluster_id}")
                self.cluster_id = cluster_id
                return keys.CLUSTER
            case FeatureFinalised(name, level):
                if level <= self._features.get(name, 0):
                    raise Conflict(f"feature {name!r} is at level {self._features.get(name, 0)} and cannot be lowered")
                self._features[name] = level
                return keys.feature_key(name)
            case BrokerDefaultsChanged(defaults):
                self.broker_defaults = MappingProxyType(dict(defaults))
                return keys.BROKER_DEFAULTS

    def _create(self, topic: Topic, assignments: tuple[Assignment, ...]) -> None:
        if topic.name in self._by_name:
            raise TopicExists(topic.name)
        if topic.topic_id in self._by_id or topic.topic_id in self._deletions:
            raise Conflict(f"topic id {topic.topic_id} was used before")
        if len(assignments) != topic.partition_count:
            raise Conflict(
                f"topic {topic.name!r} has {topic.partition_count} partitions, but {len(assignments)} are assigned"
            )
        self._put(replace(topic, config=MappingProxyType(dict(topic.config))))
        self._assignments[topic.topic_id] = assignments

    def _reassign(
        self,
        name: str,
        topic_id: UUID,
        changed: Mapping[int, Assignment],
        revision: int,
        revision_of: RevisionOf | None,
    ) -> None:
        assignments = list(self._assignments[topic_id])
        # Stamped together, those that are alike stay one value.
        stamped = _stamped(topic_id, changed, tuple(changed.values()), revision, revision_of)
        for partition, assignment in zip(changed, stamped, strict=True):
            if not 0 <= partition < len(assignments):
                raise PartitionNotFound(name, partition)
            known = assignments[partition].leader_epoch
            if assignment.leader_epoch < known:
                raise Conflict(f"{name}-{partition} is in leader epoch {known}, not {assignment.leader_epoch}")
            assignments[partition] = assignment
        self._assignments[topic_id] = tuple(assignments)

    def _existing(self, name: str, topic_id: UUID) -> Topic:
        topic = self._by_name.get(name)
        # An event made for a topic that has since been deleted and created again is stale.
        if topic is None or topic.topic_id != topic_id:
            raise TopicNotFound(name)
        return topic

    def _put(self, topic: Topic) -> None:
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic

    def _remove(self, name: str) -> None:
        topic_id = self._by_name.pop(name).topic_id
        del self._by_id[topic_id], self._assignments[topic_id]
        for key in (keys.topic_key(name), keys.settings_key(topic_id)):
            self._revisions.pop(key, None)


def _stamped(
    topic_id: UUID,
    numbers: Iterable[int],
    assignments: tuple[Assignment, ...],
    revision: int,
    revision_of: RevisionOf | None,
) -> tuple[Assignment, ...]:
    """The assignments of the partitions with these numbers, each with the revision of its change."""
    if revision_of is not None:
        return tuple(
            structs.replace(one, partition_epoch=revision_of(keys.partition_key(topic_id, number)))
            for number, one in zip(numbers, assignments, strict=False)
        )
    # Partitions of a topic are often assigned alike: they share one value instead of thousands of equal ones.
    objects = distinct(assignments)
    shared = {one: structs.replace(one, partition_epoch=revision) for one in set(objects)}
    if len(objects) == 1:
        return (shared[objects[0]],) * len(assignments)
    # An object is looked up faster than a value.
    stamped = {id(one): shared[one] for one in objects}
    return tuple([stamped[id(one)] for one in assignments])
