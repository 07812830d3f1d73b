"""The values of metadata, the events that change them, and the delta that one commit makes.

A topic and the assignments of its partitions are separate values: an in-sync replica that comes
or goes changes one assignment, and the topic and its settings keep their revisions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from uuid import UUID

import msgspec

NO_CONFIG: Mapping[str, str] = MappingProxyType({})


class Assignment(msgspec.Struct, frozen=True):
    """Which nodes hold a partition, and which of them leads it.

    `eligible` left the in-sync replicas when these fell below the minimum, and may lead when no
    in-sync replica can. `adding` and `removing` are replicas on their way in and out.
    `partition_epoch` is the revision of the last change; the store sets it.
    """

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    eligible: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    partition_epoch: int = 0


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it is now. `config` holds only what was set, never defaults."""

    name: str
    topic_id: UUID
    partition_count: int
    replication_factor: int = 1
    config: Mapping[str, str] = field(default_factory=lambda: NO_CONFIG, hash=False)
    internal: bool = False
    created_ms: int = 0


class Node(msgspec.Struct, frozen=True):
    """A node as it registered. It stays when its session ends.

    `directory_id` names the data directory that its replicas are in. `broker_epoch` is that of its last session that
    the directory knows of. While it is `fenced` it is elected nowhere and joins no in-sync replicas. `is_emptied`: its
    directory is not the one that its replicas were in, so it has to leave every in-sync set, even as the last member.
    `addresses` has the advertised ones by listener name (`kafka`, `http`, `grpc`, `peer`), `features` the levels that
    it knows, and `clean_token` the mark of its last clean stop; empty: it did not stop cleanly, or has started since.
    """

    node_id: int
    directory_id: UUID
    broker_epoch: int = 0
    fenced: bool = True
    is_emptied: bool = False
    addresses: Mapping[str, str] = {}
    rack: str = ""
    version: str = ""
    features: Mapping[str, int] = {}
    clean_token: str = ""


class TopicCreated(msgspec.Struct, frozen=True):
    """A name got a topic, with one assignment per partition."""

    topic: Topic
    assignments: tuple[Assignment, ...]


class TopicDeleted(msgspec.Struct, frozen=True):
    """A topic is gone; its files are still to be removed."""

    name: str
    topic_id: UUID


class DeletionFinished(msgspec.Struct, frozen=True):
    """The last file of a deleted topic was removed."""

    topic_id: UUID


class TopicConfigChanged(msgspec.Struct, frozen=True):
    """A topic's settings are now exactly these."""

    name: str
    topic_id: UUID
    config: Mapping[str, str]


class PartitionsAdded(msgspec.Struct, frozen=True):
    """A topic has more partitions: these follow the `first` that it had."""

    name: str
    topic_id: UUID
    first: int
    assignments: tuple[Assignment, ...]


class AssignmentsChanged(msgspec.Struct, frozen=True):
    """Partitions of a topic, by number, have other leaders, epochs or replicas."""

    name: str
    topic_id: UUID
    assignments: Mapping[int, Assignment]


class ProducerIdsReserved(msgspec.Struct, frozen=True):
    """Every producer id below `next_producer_id` may have been given out."""

    next_producer_id: int


class ClusterNamed(msgspec.Struct, frozen=True):
    """The cluster got its id, once and for all."""

    cluster_id: str


class FeatureFinalised(msgspec.Struct, frozen=True):
    """Every node understands this level of a feature, for good."""

    name: str
    level: int


class SecurityChanged(msgspec.Struct, frozen=True):
    """A user, key, role, binding or access rule is now this; None: it is gone. The security room reads the values."""

    kind: str
    name: str
    value: bytes | None


class BrokerDefaultsChanged(msgspec.Struct, frozen=True):
    """The defaults of topic settings that were changed at run time are now exactly these, by the broker's names."""

    defaults: Mapping[str, str]


class ScheduleHome(msgspec.Struct, frozen=True):
    """The partition in which a recurring message lives."""

    topic_id: UUID
    partition: int


class ScheduleHomed(msgspec.Struct, frozen=True):
    """The recurring message of that name lives there; None: the name is free."""

    name: str
    home: ScheduleHome | None


# A setting of delivery that a group overrides; what it means is delivery's affair.
SettingValue = bool | int | float | str | list[int]


class GroupSettings(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was set for a group, by its name: the group may come later. 0 or empty: not set.

    `start` is where a queue group begins in a partition that is new to it, and `policy` overrides what its topics
    say about delivery.
    """

    session_timeout_ms: int = 0
    heartbeat_interval_ms: int = 0
    isolation: str = ""
    start: str = ""
    policy: Mapping[str, SettingValue] = {}


class GroupSettingsChanged(msgspec.Struct, frozen=True):
    """The settings of the group of that name are now exactly these; None: nothing was ever set."""

    group: str
    settings: GroupSettings | None


class NodeChanged(msgspec.Struct, frozen=True):
    """A node registered or is now this; None: it is no part of the cluster any more."""

    node_id: int
    node: Node | None


class SessionChanged(msgspec.Struct, frozen=True):
    """A node's session began with this broker epoch; 0: it ended. The store sees it; nobody commits it."""

    node_id: int
    epoch: int


class ControllerChanged(msgspec.Struct, frozen=True):
    """A node is the controller, in this epoch; epoch 0: no node is. The store sees it; nobody commits it."""

    node_id: int
    epoch: int


Event = (
    TopicCreated
    | TopicDeleted
    | DeletionFinished
    | TopicConfigChanged
    | PartitionsAdded
    | AssignmentsChanged
    | ProducerIdsReserved
    | ClusterNamed
    | FeatureFinalised
    | SecurityChanged
    | BrokerDefaultsChanged
    | ScheduleHomed
    | GroupSettingsChanged
    | NodeChanged
    | SessionChanged
    | ControllerChanged
)


class Delta(msgspec.Struct, frozen=True):
    """All that one transaction changed, in order; `revision` is that of the image with it."""

    revision: int
    events: tuple[Event, ...]
