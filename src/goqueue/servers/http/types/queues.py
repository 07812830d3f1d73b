"""The JSON of queues: messages with receipts, and what becomes of each receipt."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from goqueue.servers.http.types.common import DURATION_HINT, Body, ErrorDetail, MessageOut, PartitionIndex, Reply

ReceiptText = Annotated[str, Meta(min_length=1, max_length=512)]
Receipts = Annotated[list[ReceiptText], Meta(min_length=1, max_length=1000)]
DurationText = Annotated[str, Meta(max_length=20, extra=DURATION_HINT)]
# What went wrong, in the worker's words; a dead letter shows it as its `error`. Its `reason` is a code.
FailureText = Annotated[str, Meta(max_length=1024)]
ConsumerName = Annotated[str, Meta(min_length=1, max_length=255)]


class ReceiveBody(Body):
    """What to receive from a topic, without joining a group. `wait` and `visibility` are durations such as `20s`."""

    group: Annotated[str, Meta(min_length=1, max_length=255)] = "default"
    client_id: ConsumerName = "http"
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 10
    wait: DurationText = "0"
    visibility: DurationText | None = None
    partition: PartitionIndex | None = None
    max_bytes: Annotated[int, Meta(ge=1, le=52_428_800)] = 4 * 1024 * 1024
    encoding: Literal["text", "base64"] = "text"


class Received(Reply):
    """Messages in flight until each one's `visible_until` (Unix time in ms)."""

    messages: list[MessageOut]
    group: str
    count: int


class AckBody(Body):
    """Acknowledges messages. With `durable` the response waits until that is on disk."""

    receipt_handle: ReceiptText | UnsetType = UNSET
    receipts: Receipts | UnsetType = UNSET
    durable: bool = False


class NackBody(AckBody):
    """Redelivers messages: after `delay`, or after the group's back-off."""

    error: FailureText | None = None
    # Another name for `error`.
    reason: FailureText | None = None
    delay: DurationText | None = None


class RejectBody(AckBody, kw_only=True):
    """Sends messages to the dead letters, with the error."""

    error: FailureText | None = None
    # Another name for `error`.
    reason: FailureText | None = None


class VisibilityBody(AckBody):
    """Extends the visibility of messages, from now: `extension_seconds`, or `visibility` such as `2m`.

    0 releases them at once, which does not count as a failure.
    """

    extension_seconds: Annotated[int, Meta(ge=0, le=43_200)] | None = None
    visibility: DurationText | None = None


class SettledReceipt(Reply):
    """The outcome for one receipt: the place of its message and the action taken, or the error.

    The group's position in the partition is included for a single receipt only.
    """

    success: bool
    receipt_handle: str | UnsetType = UNSET
    action: str | UnsetType = UNSET
    topic: str | UnsetType = UNSET
    partition: int | UnsetType = UNSET
    offset: int | UnsetType = UNSET
    delivery_count: int | UnsetType = UNSET
    committed_offset: int | UnsetType = UNSET
    offset_advanced: bool | UnsetType = UNSET
    in_flight_count: int | UnsetType = UNSET
    next_visible_at: int | UnsetType = UNSET
    dlq_topic: str | UnsetType = UNSET
    # Why a message was dead-lettered: rejected or retries_exhausted.
    reason: str | UnsetType = UNSET
    new_deadline: int | UnsetType = UNSET
    extended_by: int | UnsetType = UNSET
    error: ErrorDetail | UnsetType = UNSET
    status: int | UnsetType = UNSET


class SettledReceipts(Reply):
    """One result per receipt, in the order sent."""

    results: list[SettledReceipt]
    succeeded: int
    failed: int


# --- policies ---------------------------------------------------------------------------


class Policy(Reply):
    """How a queue group's messages are delivered, with all defaults filled in."""

    visibility_ms: int
    retries_max: int
    backoff_ms: int
    backoff_multiplier: float
    backoff_ms_max: int
    backoff_jitter: float
    in_flight_max: int
    outstanding_max: int
    key_ordered: bool
    dead_letters: bool
    ttl_ms: int | None
    strict_priority: bool
    lane_weights: list[int]
    starvation_ms: int


class PolicyBody(Body):
    """Changes to a group's policy. A field given as null returns to the topic's or the broker's value."""

    visibility_ms: Annotated[int, Meta(ge=1, le=43_200_000)] | UnsetType | None = UNSET
    retries_max: Annotated[int, Meta(ge=0, le=10_000)] | UnsetType | None = UNSET
    backoff_ms: Annotated[int, Meta(ge=0, le=86_400_000)] | UnsetType | None = UNSET
    backoff_multiplier: Annotated[float, Meta(ge=1, le=100)] | UnsetType | None = UNSET
    backoff_ms_max: Annotated[int, Meta(ge=0, le=86_400_000)] | UnsetType | None = UNSET
    backoff_jitter: Annotated[float, Meta(ge=0, le=1)] | UnsetType | None = UNSET
    in_flight_max: Annotated[int, Meta(ge=1, le=1_000_000)] | UnsetType | None = UNSET
    outstanding_max: Annotated[int, Meta(ge=1, le=10_000_000)] | UnsetType | None = UNSET
    key_ordered: bool | UnsetType | None = UNSET
    dead_letters: bool | UnsetType | None = UNSET
    ttl_ms: Annotated[int, Meta(ge=1, le=2**53)] | UnsetType | None = UNSET
    strict_priority: bool | UnsetType | None = UNSET
    starvation_ms: Annotated[int, Meta(ge=1, le=86_400_000)] | UnsetType | None = UNSET


class GroupPolicy(Reply):
    """A queue group: how it shares, what it overrides, and the policy that follows for one topic (or none)."""

    group: str
    mode: str
    sharing: str
    key_ordered: bool
    overrides: dict[str, bool | int | float | str | list[int]]
    effective: Policy


# --- statistics -------------------------------------------------------------------------


class AckManagerStats(Reply):
    """How messages were settled, since the broker was started."""

    delivered_total: int
    redelivered_total: int
    acked_total: int
    nacked_total: int
    rejected_total: int
    released_total: int
    waiting_for_retry: int
    consumers: int


class VisibilityStats(Reply):
    """Messages in flight, and how their leases ended."""

    in_flight: int
    extended_total: int
    expired_total: int


class DeadLetterStats(Reply):
    """Dead letters, and messages that are being dead-lettered."""

    dead_lettered_total: int
    failures_total: int
    too_old_total: int
    # Ranges of offsets that were quarantined because they cannot be read.
    unreadable_total: int
    dying: int
    by_topic: dict[str, int]


class QueueFigures(Reply):
    """One group on one partition. At its bound it gets no new messages until some are settled."""

    group: str
    topic: str
    partition: int
    in_flight: int
    waiting: int
    dying: int
    outstanding: int
    at_bound: bool
    consumers: dict[str, int]


class ReliabilityStatsReply(Reply):
    """All queues together, and each."""

    ack_manager: AckManagerStats
    visibility_tracker: VisibilityStats
    dlq: DeadLetterStats
    queues: list[QueueFigures]


class LaneFigures(Reply):
    """One lane: what it has, what was taken from it, and since when it waits for its turn.

    Enqueued is what came into the partition, the same for all its groups. Totals are since the start of the node, rates
    over the last minute.
    """

    ready: int
    in_flight: int
    delivered_total: int
    delivered_per_second: float
    enqueued_total: int
    enqueued_per_second: float
    last_served_at: int | None
    waiting_since: int | None
    waiting_ms: int


class PartitionLanes(Reply):
    """The lanes of one group on one partition."""

    group: str
    lanes: dict[str, LaneFigures]


class TopicLanes(Reply):
    """The lanes of a topic: a list of groups by partition."""

    partitions: dict[str, list[PartitionLanes]]


class PriorityStatsReply(Reply):
    """The lanes, critical first, and each queue's."""

    ready_by_priority: list[int]
    in_flight_by_priority: list[int]
    delivered_by_priority: list[int]
    topics: dict[str, TopicLanes]
