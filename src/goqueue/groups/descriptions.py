"""Groups as they are told to whoever asks: kinds, states, and who is in them."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from goqueue.groups.queue.settings import Mode, QueueSettings
from goqueue.groups.subscription.topic_partitions import PartitionSet


class GroupType(StrEnum):
    """Which protocol a group speaks. Values are Kafka's."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"


class GroupState(StrEnum):
    """Where a group stands. Values are Kafka's."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ListedGroup(msgspec.Struct, frozen=True):
    """A group in a list."""

    group: str
    type: GroupType
    state: GroupState
    protocol_type: str
    mode: Mode = Mode.STREAM


class ClassicMemberDescription(msgspec.Struct, frozen=True):
    """A member of a classic group; metadata and assignment are the clients' own bytes."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class ClassicDescription(msgspec.Struct, frozen=True):
    """A classic group as it stands."""

    group: str
    state: GroupState
    generation: int
    protocol_type: str
    protocol: str
    leader: str | None
    members: tuple[ClassicMemberDescription, ...]
    # None: a stream group.
    queue: QueueSettings | None = None


class ConsumerMemberDescription(msgspec.Struct, frozen=True):
    """A member of the new protocol: what it owns and what it is to own."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    regex: str
    assigned: PartitionSet
    revoking: PartitionSet
    target: PartitionSet
    tags: dict[str, str] = {}


class ConsumerDescription(msgspec.Struct, frozen=True):
    """A group of the new protocol as it stands."""

    group: str
    state: GroupState
    epoch: int
    assignor: str
    members: tuple[ConsumerMemberDescription, ...]
    # None: a stream group.
    queue: QueueSettings | None = None
    # Groups that share partitions are described in the same way.
    type: GroupType = GroupType.CONSUMER
