"""What can be asked of a group, and what is answered.

Commands and replies are plain values: front-ends make the ones and translate the others,
the machines know no wire format. An error is answered by raising it.

They are structs because they are many: a dataclass takes half a millisecond to make, a
struct a tenth of that, and every start of a broker makes them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, StrEnum
from uuid import UUID

import msgspec

from goqueue.coordinator.shard import Transaction
from goqueue.errors import GoQueueError
from goqueue.groups.queue.settings import AsQueue
from goqueue.groups.records import PolicyValue
from goqueue.groups.subscription.topic_partitions import PartitionSet
from goqueue.records import TopicPartition

LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2
JOIN_EPOCH = 0


# --- the classic protocol -------------------------------------------------------------


class JoinGroup(msgspec.Struct, frozen=True):
    """Become, or stay, a member of the next generation. Answered by `Joined`, perhaps much later."""

    group: str
    member_id: str
    # The id that a newcomer gets. Chance is the caller's: the machine has none.
    new_member_id: str
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    # KIP-394: a newcomer must come back with the id it is given before it counts.
    id_required: bool = True
    # KIP-814: a returning static leader can be told to keep the assignment it had.
    can_skip_assignment: bool = True
    # How a group that is read as a queue is meant; None: the member reads a stream.
    as_queue: AsQueue | None = None


class JoinedMember(msgspec.Struct, frozen=True):
    """A member of the generation, as the leader sees it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class Joined(msgspec.Struct, frozen=True):
    """A generation has been formed. Only its leader is told who is in it."""

    member_id: str
    generation: int
    protocol_type: str
    protocol: str | None
    leader: str
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


class SyncGroup(msgspec.Struct, frozen=True):
    """Hand in the assignment (the leader) and wait for one's own. Answered by `Synced`."""

    group: str
    member_id: str
    generation: int
    assignments: Mapping[str, bytes] = msgspec.field(default_factory=dict)
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None


class Synced(msgspec.Struct, frozen=True):
    """What the member is to read, in the leader's own encoding."""

    protocol_type: str
    protocol: str | None
    assignment: bytes


class Heartbeat(msgspec.Struct, frozen=True):
    """Still here. Answered by None, or by the error that tells the member what to do."""

    group: str
    member_id: str
    generation: int
    instance_id: str | None = None


class Leaver(msgspec.Struct, frozen=True):
    """A member on its way out; an administrator may name a static member by instance alone."""

    member_id: str
    instance_id: str | None = None


class LeaveGroup(msgspec.Struct, frozen=True):
    """Take members out of either kind of group. Answered by one error or None for each."""

    group: str
    members: tuple[Leaver, ...]


# --- the new protocol (KIP-848) -------------------------------------------------------


class ConsumerHeartbeat(msgspec.Struct, frozen=True):
    """Join (epoch 0), stay, or leave (-1, or -2 for a static member). None: as it was."""

    group: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int | None = None
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: PartitionSet | None = None
    # Empty: as it was. HTTP members say it when they join, not with every heartbeat.
    client_id: str = ""
    client_host: str = ""
    tags: dict[str, str] | None = None
    # As in `JoinGroup`; it counts when the member joins.
    as_queue: AsQueue | None = None
    # The member speaks the share protocol (KIP-932), which knows no other groups.
    is_share: bool = False


class RebalanceState(StrEnum):
    """How far a member has come towards its target."""

    NONE = "none"
    PENDING_REVOKE = "pending_revoke"
    PENDING_ASSIGN = "pending_assign"
    COMPLETE = "complete"


class ConsumerBeat(msgspec.Struct, frozen=True):
    """Where the member stands. `assignment` is None when it is as the member knows it."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int
    assignment: PartitionSet | None = None
    # What follows is not on Kafka's wire; our own APIs tell it.
    state: RebalanceState = RebalanceState.NONE
    revoking: PartitionSet = frozenset()
    revoke_before_ms: int | None = None


# --- offsets --------------------------------------------------------------------------


class OffsetToCommit(msgspec.Struct, frozen=True):
    """How far a partition has been read; the topic's id makes it this topic's offset."""

    topic: str
    topic_id: UUID
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class CommitOffsets(msgspec.Struct, frozen=True):
    """Write offsets down. Answered by one error or None for each.

    `generation` is the generation or the member epoch; below 0 the caller claims no
    membership, which only an empty group accepts.
    """

    group: str
    offsets: tuple[OffsetToCommit, ...]
    member_id: str = ""
    generation: int = -1
    instance_id: str | None = None


class CommitInTransaction(msgspec.Struct, frozen=True):
    """Write offsets down that count from the transaction's commit on, if it comes. Answered as `CommitOffsets`.

    `shard` is the partition in which the group lives: it must be part of the transaction.
    """

    commit: CommitOffsets
    transaction: Transaction
    shard: int

    @property
    def group(self) -> str:
        """Whose offsets."""
        return self.commit.group


# Raises unless this shard is part of the producer's open transaction. Asked right before the offsets are
# written: behind the transaction's marker they would wait for ever.
CheckTransaction = Callable[[Transaction, int], object]


class CommittedOffset(msgspec.Struct, frozen=True):
    """A committed offset, as it is read back."""

    topic_id: UUID
    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int


class FetchOffsets(msgspec.Struct, frozen=True):
    """Read offsets: of these partitions, or of all. Answered by a mapping of those there are."""

    group: str
    partitions: tuple[TopicPartition, ...] | None = None
    member_id: str | None = None
    member_epoch: int = -1
    # Rather no answer than one that an open transaction may change: UnstableOffset.
    require_stable: bool = False


CommittedOffsets = Mapping[TopicPartition, CommittedOffset]


class DeleteOffsets(msgspec.Struct, frozen=True):
    """Forget offsets of topics that the group does not read. One error or None for each."""

    group: str
    partitions: tuple[TopicPartition, ...]


# One answer per thing asked for, in the same order; None is success.
Outcomes = tuple[GoQueueError | None, ...]


# --- administration -------------------------------------------------------------------


class ListGroups(msgspec.Struct, frozen=True):
    """Answered by a tuple of `ListedGroup`."""


class DescribeGroup(msgspec.Struct, frozen=True):
    """Answered by `ClassicDescription` or `ConsumerDescription`."""

    group: str


class DeleteGroup(msgspec.Struct, frozen=True):
    """Forget an empty group with all its offsets. Answered by None.

    A queue group is answered by `IsQueue`: what was delivered to it must be forgotten first, then `FinishDeletion`.
    """

    group: str


# --- queue groups ---------------------------------------------------------------------


class IsQueue(Enum):
    """The answer to what delivery must answer, since the group is a queue."""

    IT_IS = "queue"


class UseQueue(msgspec.Struct, frozen=True):
    """Use a group as a queue, making it one if it is new. Answered by `QueueSettings`."""

    group: str
    wish: AsQueue


class AlterQueue(msgspec.Struct, frozen=True):
    """Change a queue group's settings. Answered by `QueueSettings`."""

    group: str
    changes: Mapping[str, PolicyValue | None]


class AlterSettings(msgspec.Struct, frozen=True):
    """Change settings that hold in either mode, by Kafka's names. Answered by the `SettingsRecord` that results.

    With `validate_only` nothing is changed.
    """

    group: str
    changes: Mapping[str, str | None]
    validate_only: bool = False


class AskSettings(msgspec.Struct, frozen=True):
    """Answered by the `GroupSettings` that the group's log has; empty when it has none, or no longer."""

    group: str


class ListSettings(msgspec.Struct, frozen=True):
    """Answered by name and `GroupSettings` of every group whose log has any."""


class DropSettings(msgspec.Struct, frozen=True):
    """The metadata has what was set for the group. Answered by whether the log still had it."""

    group: str


class AskMode(msgspec.Struct, frozen=True):
    """Answered by `Mode`, or None when there is no such group."""

    group: str


class FinishDeletion(msgspec.Struct, frozen=True):
    """Nothing that was delivered to the queue group is left. Answered by None."""

    group: str
