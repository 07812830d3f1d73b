"""The JSON of transactions."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from goqueue.servers.http.types.common import DURATION_HINT, Body, OffsetNumber, Reply, Text

ProducerId = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Epoch = Annotated[int, Meta(ge=0, le=32_767)]
Name = Annotated[str, Meta(min_length=1, max_length=255)]
TransactionName = Annotated[str, Meta(min_length=1, max_length=64)]
TopicName = Annotated[str, Meta(min_length=1, max_length=249)]


class ProducerHeartbeat(Body):
    """Who says that it is alive."""

    transactional_id: Name
    epoch: Epoch


class OfTransaction(Body):
    """The producer whose transaction it is."""

    transactional_id: Name
    producer_id: ProducerId
    epoch: Epoch
    # As /transactions/begin answered: what comes too late for it is refused, and not taken for the next.
    transaction_id: TransactionName | None = None


class AddPartition(OfTransaction, kw_only=True):
    """A partition that the transaction is going to write to."""

    topic: TopicName
    partition: Annotated[int, Meta(ge=0, le=2**31 - 1)]


class OffsetsInTransaction(OfTransaction, kw_only=True):
    """Offsets of a group, by topic and partition, that count once the transaction is committed."""

    group: Name
    offsets: dict[str, dict[str, OffsetNumber]]
    member_id: str = ""
    generation: int = -1


class SettleInTransaction(OfTransaction, kw_only=True):
    """Receipts of a queue that are settled when the transaction is committed; until then the messages are nobody's."""

    receipts: Annotated[list[Text], Meta(min_length=1, max_length=1000)]
    action: Literal["ack", "reject"] = "ack"
    # What was wrong with rejected messages; `reason` is another name for it.
    error: Text | None = None
    reason: Text | None = None


class PublishInTransaction(Body):
    """One message of the producer's open transaction; `sequence` counts per partition, from 0 in every epoch."""

    producer_id: ProducerId
    epoch: Epoch
    topic: TopicName
    value: msgspec.Raw
    sequence: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    # Whose transaction it is, as in the other requests of a transaction; found by the producer id when left out.
    transactional_id: Name | None = None
    transaction_id: TransactionName | None = None
    # -1: by the key.
    partition: Annotated[int, Meta(ge=-1, le=2**31 - 1)] = 0
    key: Text | None = None
    headers: dict[str, Text | None] | None = None
    encoding: Literal["base64", "text"] = "text"
    # Either says that it is for later: if the transaction is committed, the message comes then, and not before.
    delay: Annotated[str, Meta(max_length=32, extra=DURATION_HINT)] | None = None
    deliverAt: Annotated[str, Meta(max_length=64)] | None = None  # noqa: N815 - the name on the wire


class PublishedInTransaction(Reply):
    """Where the message lies; it is seen once the transaction is committed.

    A delayed one has a slot, by which it can be cancelled from then on, instead of a partition and an offset.
    """

    duplicate: bool
    partition: int | UnsetType = UNSET
    offset: int | UnsetType = UNSET
    delayed: bool = False
    slot: str | UnsetType = UNSET
    deliverAt: str | UnsetType = UNSET  # noqa: N815 - the name on the wire


class Begun(Reply):
    """A transaction that is open."""

    transaction_id: str


class Status(Reply):
    """What became of it."""

    status: str


class TransactionRow(Reply):
    """One transactional id."""

    transactional_id: str
    transaction_id: str
    producer_id: int
    epoch: int
    state: str
    timeout_ms: int
    # Milliseconds since 1970; -1 without a transaction.
    started_ms: int
    partitions: list[str]


class Transactions(Reply):
    """Transactions that are open or being ended."""

    transactions: list[TransactionRow]
    count: int


class TransactionStats(Reply, omit_defaults=False):
    """Transactional ids and participants as they are, and what transactions came to since the node started."""

    transactional_ids: int
    states: dict[str, int]
    # Decided, and not all partitions have been told.
    ending: int
    # Milliseconds since the oldest open transaction or participant began; 0 if none is open.
    oldest_open_ms: int
    # Producers that speak HTTP and were heard of lately.
    sessions: int
    prepared_writers: int
    prepared_participants: int
    begun: int
    committed: int
    aborted: int
    timed_out: int
    markers_written: int
    marker_retries: int
    # Mean time from a decision to its last marker.
    end_ms_mean: float
