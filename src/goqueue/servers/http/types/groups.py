"""The JSON of groups: members, offsets, rebalances."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, field

from goqueue.servers.http.types.common import (
    Body,
    MessageOut,
    Millis,
    OffsetNumber,
    PartitionIndex,
    Reply,
    TimeText,
    UnreadableRange,
)

MemberName = Annotated[str, Meta(min_length=1, max_length=512)]
ClientName = Annotated[str, Meta(max_length=255)]
Topics = Annotated[list[str], Meta(min_length=1, max_length=1000)]
# A queue's messages are settled by receipts, a stream's by committing offsets; a group is one of them for good.
GroupMode = Literal["queue", "stream"]
# Of a queue: each partition to one member, or any message to any member.
SharingName = Literal["exclusive", "shared"]
TimeoutMs = Annotated[int, Meta(ge=1, le=3_600_000)]
# {topic: {"partition": offset}}: JSON has no numbers as keys.
OffsetMap = dict[str, dict[str, OffsetNumber]]


class PartitionRef(Body):
    """One partition of one topic."""

    topic: str
    partition: PartitionIndex


class Done(Reply):
    """It was done."""

    status: str


# --- looking --------------------------------------------------------------------------


class GroupsQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which groups to list."""

    internal: bool = False


class GroupRow(Reply):
    """A group in a list."""

    id: str
    mode: str
    state: str
    protocol: str
    members: int
    generation: int
    topics: list[str]


class GroupList(Reply):
    """All groups, by name."""

    groups: list[GroupRow]


class MemberRow(Reply):
    """A member of a group."""

    id: str
    client_id: str
    host: str
    assigned_partitions: list[PartitionRef]
    instance_id: str | None = None
    tags: dict[str, str] = msgspec.field(default_factory=dict)


class OffsetRow(Reply):
    """How far a group is in one partition."""

    topic: str
    partition: int
    # None: nothing is committed yet, and all that the partition has counts as lag.
    committed: int | None
    end: int
    lag: int
    lag_seconds: float
    metadata: str


class GroupDetails(Reply):
    """One group. `sharing` is a queue's, once a member has settled it."""

    id: str
    mode: str
    state: str
    protocol: str
    generation: int
    topics: list[str]
    assignor: str
    members: list[MemberRow]
    offsets: list[OffsetRow]
    sharing: str | None = None
    key_ordered: bool = False


class DeletedGroup(Reply):
    """A group that is gone."""

    deleted: bool
    group: str


# --- offsets --------------------------------------------------------------------------


class PartitionOffset(Reply):
    """A committed offset and what lies behind it; without one, all that the partition has."""

    offset: int | None
    end: int
    lag: int
    lag_seconds: float
    metadata: str


class GroupOffsets(Reply):
    """Committed offsets by topic and partition."""

    group_id: str
    topics: dict[str, dict[str, PartitionOffset]]
    total_lag: int


class CommitBody(Body):
    """Offsets of the next messages to read. Without a member the group must be empty."""

    offsets: OffsetMap
    member_id: str = ""
    generation: int = -1
    metadata: Annotated[str, Meta(max_length=4096)] = ""


class Committed(Reply):
    """The offsets are stored."""

    status: str
    group: str
    offsets: OffsetMap


class ForgetBody(Body):
    """Partitions whose offsets are to be forgotten."""

    offsets: dict[str, list[PartitionIndex]]


class ResetTo(Body):
    """A point to move to; exactly one is given. `timestamp` is in ms, or RFC 3339."""

    timestamp: Millis | TimeText | None = None
    offset: OffsetNumber | None = None
    shift: Annotated[int, Meta(ge=-(2**53), le=2**53)] | None = None


class ResetBody(Body):
    """Where a group's offsets are to go."""

    to: Literal["earliest", "latest"] | ResetTo
    topic: str | None = None
    partitions: list[PartitionIndex] | None = None
    dry_run: bool = False


class OffsetChange(Reply, rename={"before": "from", "after": "to"}):
    """One partition's offset before and after."""

    topic: str
    partition: int
    before: int | None
    after: int


class Reset(Reply):
    """What was moved, or would be."""

    dry_run: bool
    changes: list[OffsetChange]


# --- membership -----------------------------------------------------------------------


# What a member says of itself, such as its host, its process and its client's version.
Tags = Annotated[
    dict[Annotated[str, Meta(min_length=1, max_length=64)], Annotated[str, Meta(max_length=255)]], Meta(max_length=16)
]


class JoinBody(Body):
    """Enter a group eagerly; with `member_id`, come back into the next generation."""

    topics: Topics
    client_id: ClientName = "http"
    member_id: str = ""
    mode: GroupMode = "queue"
    sharing: SharingName | None = None
    key_ordered: bool | None = None
    session_timeout_ms: TimeoutMs | None = None
    rebalance_timeout_ms: TimeoutMs = 10_000


class JoinedEager(Reply):
    """A place in a generation."""

    member_id: str
    generation: int
    leader_id: str
    protocol: str
    partitions: list[PartitionRef]
    members: list[str]
    # Topics that the member named and that do not exist; it gets their partitions once they do.
    missing_topics: list[str] = field(default_factory=list)


class MemberBody(Body):
    """A member and its generation."""

    member_id: MemberName
    generation: int = -1


class LeaveBody(Body):
    """A member on its way out."""

    member_id: MemberName


class CooperativeJoinBody(Body):
    """Enter a group cooperatively. `pattern` subscribes to every topic whose name matches."""

    topics: Annotated[tuple[str, ...], Meta(max_length=1000)] = ()
    pattern: Annotated[str, Meta(max_length=1000)] | None = None
    client_id: ClientName = "http"
    tags: Tags = msgspec.field(default_factory=dict)
    instance_id: Annotated[str, Meta(min_length=1, max_length=249)] | None = None
    assignor: str | None = None
    mode: GroupMode = "queue"
    sharing: SharingName | None = None
    key_ordered: bool | None = None


class CooperativeBeatBody(Body):
    """Still here; `owned_partitions` says what the member holds and so acknowledges changes."""

    member_id: MemberName
    generation: Annotated[int, Meta(ge=0)]
    owned_partitions: list[PartitionRef] | None = None


class RevokeBody(Body):
    """These partitions have been given up."""

    member_id: MemberName
    generation: Annotated[int, Meta(ge=0)]
    revoked_partitions: list[PartitionRef]


class CooperativeState(Reply):
    """Where a member stands, and what it is to do."""

    member_id: str
    generation: int
    protocol: str
    state: str
    rebalance_required: bool
    partitions: list[PartitionRef]
    partitions_assigned: list[PartitionRef]
    partitions_to_revoke: list[PartitionRef]
    heartbeat_interval_ms: int
    revocation_deadline: int | None = None
    # Ids of the topics in `partitions`: another id under the same name is a topic that was deleted and made again.
    topic_ids: dict[str, str] = field(default_factory=dict)
    # Topics that the member named and that do not exist; it gets their partitions once they do.
    missing_topics: list[str] = field(default_factory=list)


class Revoked(Reply):
    """How much is still to be given up."""

    status: str
    pending_count: int
    rebalance_state: str
    generation: int


class AssignmentReply(Reply):
    """What a member owns."""

    member_id: str
    generation: int
    partitions: list[PartitionRef]


class CooperativeGroup(Reply):
    """A cooperative group, member by member."""

    id: str
    state: str
    protocol: str
    generation: int
    assignment_strategy: str
    member_assignments: dict[str, list[PartitionRef]]
    member_targets: dict[str, list[PartitionRef]]


class RebalanceStats(Reply):
    """Rebalances since the broker was started."""

    total_rebalances: int
    successful_rebalances: int
    # The last member left before it was complete. What is in none of the two is under way.
    abandoned_rebalances: int
    total_partitions_moved: int
    total_revocation_timeouts: int
    average_rebalance_duration_ms: float
    last_rebalance_duration_ms: int | None
    last_rebalance_at: int | None
    rebalances_by_reason: dict[str, int]


# --- polling --------------------------------------------------------------------------


class PollBody(Body):
    """What a member wants to read. With `positions` a stream's member keeps its own place.

    `again` reads once more from where the member's last poll began, for one whose answer was lost.
    `visibility`, such as `2m`, is for members of a queue: how long the messages are theirs.
    """

    member_id: MemberName
    generation: int
    positions: OffsetMap | None = None
    again: bool = False
    paused: tuple[PartitionRef, ...] = ()
    visibility: Annotated[str, Meta(max_length=20)] | None = None
    timeout_ms: Annotated[int, Meta(ge=0, le=60_000)] = 30_000
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 100
    max_bytes: Annotated[int, Meta(ge=1, le=52_428_800)] = 4 * 1024 * 1024
    auto_offset_reset: Literal["earliest", "latest"] = "earliest"


class PollReply(Reply):
    """Messages of the member's partitions: of a stream, and where to read on; of a queue, with receipts."""

    messages: list[MessageOut]
    next_offsets: dict[str, dict[str, int]]
    generation: int
    # Of a stream: what was passed over because nobody can read it.
    unreadable: list[UnreadableRange] = field(default_factory=list)
