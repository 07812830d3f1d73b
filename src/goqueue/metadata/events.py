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
)


class Delta(msgspec.Struct, frozen=True):
    """All that one transaction changed, in order; `revision` is that of the image with it."""

    revision: int
    events: tuple[Event, ...]
