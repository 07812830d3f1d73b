"""What can be asked of the transaction machine, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass

from goqueue.records import TopicPartition
from goqueue.transactions.records import TransactionState


@dataclass(frozen=True, slots=True)
class Producer:
    """A producer as the coordinator knows it. Answers `InitProducer`."""

    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class InitProducer:
    """Take a transactional id over: whoever had it before is fenced, what it left open is aborted.

    `current` is what the producer itself was given last, if it says so: then it raises its own
    epoch, and is refused when it is a zombie. `new_producer_id` is used if one is needed;
    without it the machine answers `ProducerIdNeeded`.
    """

    transactional_id: str
    timeout_ms: int
    current: Producer | None = None
    new_producer_id: int | None = None


@dataclass(frozen=True, slots=True)
class ProducerIdNeeded:
    """The answer to `InitProducer` when the id is new, or its epochs are used up."""


@dataclass(frozen=True, slots=True)
class Begin:
    """Begin a transaction without a partition, for clients that say when. Answered by its number."""

    transactional_id: str
    producer: Producer


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Make partitions part of the transaction, which begins with the first. Answered by None."""

    transactional_id: str
    producer: Producer
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """Decide. Answered by None once the decision is durable; the partitions are told after that."""

    transactional_id: str
    producer: Producer
    commit: bool


@dataclass(frozen=True, slots=True)
class AbortAny:
    """Abort the transaction of this id on an operator's word, and fence its producer. Answered by None."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """A decided transaction whose partitions must be told."""

    transactional_id: str
    number: int
    producer: Producer
    commit: bool
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class WatchPrepared:
    """Answered by a tuple of `Prepared`, as soon as there is one and its decision is durable.

    One watcher per shard; a new one takes the place of the old.
    """


@dataclass(frozen=True, slots=True)
class Completed:
    """All partitions of that transaction have durable markers. Answered by None."""

    transactional_id: str
    number: int


@dataclass(frozen=True, slots=True)
class Described:
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


@dataclass(frozen=True, slots=True)
class Describe:
    """Answered by `Described`."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class ListIds:
    """Answered by a tuple of `Described`: every id of the shard."""
