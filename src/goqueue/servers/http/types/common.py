"""The JSON of the HTTP API: what requests and replies look like.

The OpenAPI document is made from these types, so the description and the server cannot
differ. Field docs are `Meta` descriptions; limits are `Meta` bounds.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

PartitionIndex = Annotated[int, Meta(ge=0, le=2**31 - 1)]
OffsetNumber = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Millis = Annotated[int, Meta(ge=0, le=2**53)]
TimeText = Annotated[str, Meta(max_length=64)]
Text = Annotated[str, Meta(max_length=65_535)]
AcksName = Literal["none", "leader", "all"]
# As an answer says it when a number was sent, or another letter.
DURATION_HINT = {"hint": "write it as 250ms, 5s or 2m"}
NAME_HINT = {"hint": "use A-Z a-z 0-9 . _ -"}
TOPIC_NAME_HINT = {"hint": "use 1 to 245 of A-Z a-z 0-9 . _ -"}

PriorityName = Literal["critical", "high", "normal", "low", "background"]
# A lane by its name or its number, most urgent first.
PriorityIn = Annotated[int, Meta(ge=0, le=4)] | PriorityName
DeduplicationId = Annotated[str, Meta(min_length=1, max_length=128)]
Config = dict[str, str | None]


class Body(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A request. An unknown field is a typing mistake, and is answered as one."""


class Reply(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A reply."""


# --- errors ---------------------------------------------------------------------------


class ErrorDetail(Reply):
    """What went wrong, which input it was, and how to mend it."""

    code: str
    message: str
    field: str | None = None
    hint: str | None = None


class ErrorReply(Reply):
    """The body of every answer that is not a success."""

    error: ErrorDetail
    status: int


# --- topics ---------------------------------------------------------------------------


class CreateTopic(Body):
    """A topic to be."""

    name: Annotated[str, Meta(min_length=1, max_length=249, pattern=r"^[A-Za-z0-9._-]+$", extra=TOPIC_NAME_HINT)]
    num_partitions: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    replication_factor: Annotated[int, Meta(ge=1, le=32_767)] | None = None
    retention_hours: Annotated[int, Meta(ge=1, le=10_000_000)] | None = None
    config: dict[str, str] = {}


class AlterTopic(Body):
    """Changes to a topic. A setting given as null returns to its default."""

    num_partitions: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    retention_hours: Annotated[int, Meta(ge=1, le=10_000_000)] | None = None
    config: Config = {}


class CreatedTopic(Reply):
    """A new topic."""

    name: str
    topic_id: str
    partitions: int
    replication_factor: int
    config: dict[str, str]
    created: bool
    # Settings that were taken and have no effect.
    warnings: list[str] = []


class TopicRow(Reply):
    """A topic in a list."""

    name: str
    partitions: int
    internal: bool


class TopicList(Reply):
    """All topics, by name."""

    topics: list[str]
    details: list[TopicRow]


class OffsetRange(Reply):
    """The first offset held, and the one the next record will get."""

    earliest: int
    latest: int


class TopicDetails(Reply):
    """One topic."""

    name: str
    topic_id: str
    partitions: int
    replication_factor: int
    internal: bool
    config: dict[str, str]
    overrides: dict[str, str]
    total_messages: int
    total_size_bytes: int
    partition_offsets: dict[str, OffsetRange]
    # Settings that were taken and have no effect.
    warnings: list[str] = []


class DeletedTopic(Reply):
    """A topic that is gone."""

    deleted: bool
    name: str


class PartitionRow(Reply):
    """One partition of a topic."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    earliest: int
    latest: int
    size_bytes: int


class PartitionList(Reply):
    """The partitions of a topic."""

    topic: str
    partitions: list[PartitionRow]


class Truncate(Body):
    """Everything before this offset is to be deleted."""

    before_offset: OffsetNumber


class Truncated(Reply):
    """Where the partition begins now."""

    topic: str
    partition: int
    earliest: int


# --- publishing -----------------------------------------------------------------------


class MessageIn(Body):
    """One message. `value` is text, any JSON, or base64 with `"encoding": "base64"`; null is a tombstone."""

    value: msgspec.Raw
    key: Text | None = None
    headers: dict[str, Text | None] | None = None
    encoding: Literal["base64", "text"] = "text"
    partition: PartitionIndex | None = None
    # Milliseconds since 1970, or an RFC 3339 time.
    timestamp: Millis | TimeText | None = None
    priority: PriorityIn | None = None
    deduplication_id: DeduplicationId | None = None
    # Hold it back: for a duration such as 30s or 8760h, or until an RFC 3339 time.
    delay: Annotated[str, Meta(max_length=32, extra=DURATION_HINT)] | None = None
    deliverAt: Annotated[str, Meta(max_length=64)] | None = None  # noqa: N815 - the name on the wire


class Publish(Body):
    """One message, or several in `messages`; never both."""

    messages: Annotated[list[MessageIn], Meta(min_length=1, max_length=100_000)] | UnsetType = UNSET
    value: msgspec.Raw | UnsetType = UNSET
    key: Text | None = None
    headers: dict[str, Text | None] | None = None
    encoding: Literal["base64", "text"] = "text"
    partition: PartitionIndex | None = None
    # Milliseconds since 1970, or an RFC 3339 time.
    timestamp: Millis | TimeText | None = None
    priority: PriorityIn | None = None
    deduplication_id: DeduplicationId | None = None
    delay: Annotated[str, Meta(max_length=32, extra=DURATION_HINT)] | None = None
    deliverAt: Annotated[str, Meta(max_length=64)] | None = None  # noqa: N815 - the name on the wire
    # Without it: `all` in a cluster, where another node may lead in a moment; `leader` on a node on its own.
    acks: AcksName | None = None
    producer_id: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None
    producer_epoch: Annotated[int, Meta(ge=0, le=32_767)] | None = None
    sequence: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    # The open transaction that the messages are part of, as /transactions/begin answered.
    transaction_id: Annotated[str, Meta(min_length=1, max_length=64)] | None = None


class PublishResult(Reply):
    """Where one message lies, or why it does not.

    A delayed one has a slot, by which it can be cancelled, instead of a partition and an offset: it gets those when
    it is due.
    """

    partition: int | UnsetType = UNSET
    offset: int | UnsetType = UNSET
    timestamp: int | UnsetType = UNSET
    duplicate: bool = False
    delayed: bool = False
    slot: str | UnsetType = UNSET
    deliverAt: str | UnsetType = UNSET  # noqa: N815 - the name on the wire
    error: ErrorDetail | UnsetType = UNSET
    status: int | UnsetType = UNSET


class Published(Reply):
    """One result per message, in the order sent. `acks` is the level that was reached.

    With `all`, `durability` says what every in-sync replica had done (`synced` to its disk, or `written`), and
    `replicas` how many there were; of several partitions, the fewest.
    """

    results: list[PublishResult]
    acks: str
    count: int
    duplicate: bool = False
    durability: Literal["synced", "written"] | UnsetType = UNSET
    replicas: int | UnsetType = UNSET


class InitProducer(Body):
    """A producer that wants its retries recognised; with a transactional id, one that writes in transactions."""

    transactional_id: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    transaction_timeout_ms: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None


class ProducerIdentity(Reply):
    """The id and epoch to send with every message."""

    producer_id: int
    epoch: int
    # For a transactional id: how often to say that the producer lives, and how long silence is let pass.
    heartbeat_interval_ms: int | UnsetType = UNSET
    session_timeout_ms: int | UnsetType = UNSET


# --- reading --------------------------------------------------------------------------


class MessageOut(Reply):
    """One stored message. With `encoding` set, key, value and header values are base64.

    Taken from a queue it has a receipt, and must be settled before `visible_until` or it comes again.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: str | None
    value: str | None
    priority: str
    headers: dict[str, str | None] = {}
    headers_list: list[tuple[str, str | None]] | None = None
    encoding: str | None = None
    receipt_handle: str | None = None
    delivery_count: int | None = None
    visible_until: int | None = None
    first_delivered_at: int | None = None
    # With `decode`: the schema that the value names, what the value says by it, or why that cannot be told.
    schema_id: int | None = None
    decoded: msgspec.Raw | None = None
    decode_error: str | None = None


class UnreadableRange(Reply):
    """Offsets whose messages nobody can read, because their batch cannot be opened or the disk has damaged it."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    reason: str


class ReadPartition(Reply):
    """Messages of one partition, and where to read on. What is unreadable is passed over and named."""

    messages: list[MessageOut]
    next_offset: int
    high_watermark: int
    unreadable: list[UnreadableRange] = []


class ReadTopic(Reply):
    """Messages of all partitions by time, and where to read on in each. What is unreadable is passed over and named."""

    messages: list[MessageOut]
    next_offsets: dict[str, int]
    unreadable: list[UnreadableRange] = []


class ReadLanes(Reply):
    """Messages of one partition in the order of their lanes, and where to read on in each lane.

    What is unreadable is passed over and named. The end is reached when `next_offsets` stay as they were sent.
    """

    messages: list[MessageOut]
    next_offsets: dict[str, int]
    high_watermark: int
    unreadable: list[UnreadableRange] = []
