"""What can be asked of the transaction machine, and what it answers. Structs, as those of groups are."""

from __future__ import annotations

import msgspec

from goqueue.records import TopicPartition
from goqueue.transactions.records import TransactionState


class Producer(msgspec.Struct, frozen=True):
    """A producer as the coordinator knows it. Answers `InitProducer`."""

    producer_id: int
    epoch: int


class InitProducer(msgspec.Struct, frozen=True):
    """Take a transactional id over: whoever had it before is fenced, what it left open is aborted.

    `current` is what the producer itself was given last, if it says so: then it raises its own
    epoch, and is refused when it is a zombie. `new_producer_id` is used if one is needed;
    without it the machine answers `ProducerIdNeeded`.
    """

    transactional_id: str
    timeout_ms: int
    current: Producer | None = None
    new_producer_id: int | None = None


class ProducerIdNeeded(msgspec.Struct, frozen=True):
    """The answer to `InitProducer` when the id is new, or its epochs are used up."""


class Begin(msgspec.Struct, frozen=True):
    """Begin a transaction without a partition, for clients that say when. Answered by its number."""

    transactional_id: str
    producer: Producer


class AddPartitions(msgspec.Struct, frozen=True):
    """Make partitions part of the transaction, which begins with the first. Answered by None."""

    transactional_id: str
    producer: Producer
    partitions: frozenset[TopicPartition]


class EndTransaction(msgspec.Struct, frozen=True):
    """Decide. Answered by None once the decision is durable; the partitions are told after that."""

    transactional_id: str
    producer: Producer
    commit: bool


class AbortAny(msgspec.Struct, frozen=True):
    """Abort the transaction of this id on an operator's word, and fence its producer. Answered by None."""

    transactional_id: str


class Prepared(msgspec.Struct, frozen=True):
    """A decided transaction whose partitions must be told."""

    transactional_id: str
    number: int
    producer: Producer
    commit: bool
    partitions: frozenset[TopicPartition]


class WatchPrepared(msgspec.Struct, frozen=True):
    """Answered by a tuple of `Prepared`, as soon as there is one and its decision is durable.

    One watcher per shard; a new one takes the place of the old.
    """


class Completed(msgspec.Struct, frozen=True):
    """All partitions of that transaction have durable markers. Answered by None."""

    transactional_id: str
    number: int


class Described(msgspec.Struct, frozen=True):
    """A transactional id as an operator sees it; `started_ms` is -1 without a transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    # Which transaction of the id it is.
    number: int
    state: TransactionState
    timeout_ms: int
    started_ms: int
    partitions: tuple[TopicPartition, ...]


class Describe(msgspec.Struct, frozen=True):
    """Answered by `Described`."""

    transactional_id: str


class ListIds(msgspec.Struct, frozen=True):
    """Answered by a tuple of `Described`: every id of the shard."""
