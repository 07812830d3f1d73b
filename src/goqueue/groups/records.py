"""Records of `__consumer_offsets`: everything about groups that must survive a restart.

A key says what a record is about, a value what is true of it from now on; no value means
it is gone. A layout never changes: fields may be added at the end of a value, with a
default, and anything else is a new kind with a new number.
"""

from __future__ import annotations

from uuid import UUID

import msgspec

from goqueue.coordinator.records import RecordCodec
from goqueue.groups.subscription.topic_partitions import PartitionsByTopic
from goqueue.metadata.events import SettingValue


class OffsetKey(msgspec.Struct, frozen=True, array_like=True):
    """How far a group has read a partition: `OffsetRecord`."""

    group: str
    topic: str
    partition: int


class ClassicGroupKey(msgspec.Struct, frozen=True, array_like=True):
    """The last complete generation of a classic group: `ClassicGroupRecord`."""

    group: str


class ConsumerGroupKey(msgspec.Struct, frozen=True, array_like=True):
    """A group of the new protocol: `ConsumerGroupRecord`."""

    group: str


class MemberKey(msgspec.Struct, frozen=True, array_like=True):
    """Who a member is and what it subscribes to: `MemberRecord`."""

    group: str
    member_id: str


class TargetKey(msgspec.Struct, frozen=True, array_like=True):
    """What a member is to own: `TargetRecord`."""

    group: str
    member_id: str


class CurrentKey(msgspec.Struct, frozen=True, array_like=True):
    """What a member owns now: `CurrentRecord`."""

    group: str
    member_id: str


class QueueKey(msgspec.Struct, frozen=True, array_like=True):
    """That a group is read as a queue, and how: `QueueRecord`."""

    group: str


class ShareGroupKey(msgspec.Struct, frozen=True, array_like=True):
    """A group whose members share partitions: `ShareGroupRecord`."""

    group: str


class ShareMemberKey(msgspec.Struct, frozen=True, array_like=True):
    """Who a member of such a group is and what it subscribes to: `MemberRecord`."""

    group: str
    member_id: str


class SettingsKey(msgspec.Struct, frozen=True, array_like=True):
    """Settings of a group that hold in either mode: `SettingsRecord`."""

    group: str


class ClassicMemberRecord(msgspec.Struct, frozen=True, array_like=True):
    """One member of a generation, with the assignment its leader gave it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes


class ClassicGroupRecord(msgspec.Struct, frozen=True, array_like=True):
    """A generation of a classic group: complete, or the empty one after the last member left."""

    generation: int
    protocol_type: str
    protocol: str | None
    leader: str | None
    changed_ms: int
    members: tuple[ClassicMemberRecord, ...] = ()


class ConsumerGroupRecord(msgspec.Struct, frozen=True, array_like=True):
    """A group of the new protocol."""

    epoch: int
    changed_ms: int


class ShareGroupRecord(msgspec.Struct, frozen=True, array_like=True):
    """A group whose members share partitions."""

    epoch: int
    changed_ms: int


class MemberRecord(msgspec.Struct, frozen=True, array_like=True):
    """A member of the new protocol, or of a group that shares partitions, as it described itself."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    topics: tuple[str, ...]
    regex: str
    assignor: str
    # What else a member says of itself, such as its process. Last, because older records end before it.
    tags: dict[str, str] = {}


class TargetRecord(msgspec.Struct, frozen=True, array_like=True):
    """What a member is to own."""

    partitions: PartitionsByTopic


class CurrentRecord(msgspec.Struct, frozen=True, array_like=True):
    """What a member owns, what it was asked to give up, and the epoch it has reached."""

    epoch: int
    previous_epoch: int
    state: int
    assigned: PartitionsByTopic
    revoking: PartitionsByTopic


class OffsetRecord(msgspec.Struct, frozen=True, array_like=True):
    """A committed offset. It belongs to the topic's id: a topic created anew does not inherit it."""

    topic_id: UUID
    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int


# A setting of delivery that a group overrides; what it means is delivery's affair.
PolicyValue = SettingValue


class QueueRecord(msgspec.Struct, frozen=True, array_like=True):
    """A queue group. Without it, a group that has members or offsets is a stream group.

    `sharing` is empty until the first member settles it. `is_deleting`: nobody may use the group, and
    what was delivered to it is being forgotten; the record goes last.
    """

    sharing: str
    key_ordered: bool
    policy: dict[str, PolicyValue] = {}
    version: int = 0
    is_deleting: bool = False
    # Where the group begins in a partition that is new to it; empty: where the node's policy says.
    start: str = ""
    # Drawn when the group is made: a group that is deleted and made again has another. 0: made by an earlier version.
    incarnation: int = 0


class SettingsRecord(msgspec.Struct, frozen=True, array_like=True):
    """What was set for a group, whether it is in use yet or not. 0 or empty: not set."""

    session_timeout_ms: int = 0
    heartbeat_interval_ms: int = 0
    isolation: str = ""


Key = (
    OffsetKey
    | ClassicGroupKey
    | ConsumerGroupKey
    | MemberKey
    | TargetKey
    | CurrentKey
    | QueueKey
    | ShareGroupKey
    | ShareMemberKey
    | SettingsKey
)
Value = (
    OffsetRecord
    | ClassicGroupRecord
    | ConsumerGroupRecord
    | MemberRecord
    | TargetRecord
    | CurrentRecord
    | QueueRecord
    | ShareGroupRecord
    | SettingsRecord
)

# Numbers are on disk.
KEYS: RecordCodec[Key] = RecordCodec(
    {
        1: OffsetKey,
        2: ClassicGroupKey,
        3: ConsumerGroupKey,
        4: MemberKey,
        5: TargetKey,
        6: CurrentKey,
        7: QueueKey,
        8: ShareGroupKey,
        9: ShareMemberKey,
        10: SettingsKey,
    }
)
VALUES: RecordCodec[Value] = RecordCodec(
    {
        1: OffsetRecord,
        2: ClassicGroupRecord,
        3: ConsumerGroupRecord,
        4: MemberRecord,
        5: TargetRecord,
        6: CurrentRecord,
        7: QueueRecord,
        8: ShareGroupRecord,
        9: SettingsRecord,
    }
)
