"""What can be asked of the transaction machine, and what it answers. Structs, as those of groups are."""

from __future__ import annotations

import msgspec

from goqueue.records import TopicPartition
from goqueue.transactions.names import Name, Participant
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

    name: Name
    producer: Producer
    partitions: frozenset[TopicPartition]
    # Only to the transaction of this number, which must be open; None: to any, and one begins if none is.
    number: int | None = None


class EndTransaction(msgspec.Struct, frozen=True):
    """Decide. Answered once the decision is durable; the partitions are told after that.

    The answer is the `Producer` that goes on: with `raises_epoch` it has a new epoch, or a new id if
    the epochs are used up (`ProducerIdNeeded` without one), so that nothing late can follow it.
    """

    transactional_id: str
    producer: Producer
    commit: bool
    # Only the transaction of this number; None: whichever it is.
    number: int | None = None
    raises_epoch: bool = False
    new_producer_id: int | None = None


class AbortAny(msgspec.Struct, frozen=True):
    """Abort the transaction of this id on an operator's word, and fence its producer. Answered by None.

    With `producer`, only if that one still has the id.
    """

    transactional_id: str
    producer: Producer | None = None


class Prepared(msgspec.Struct, frozen=True):
    """A decided transaction whose partitions must be told."""

    name: Name
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

    name: Name
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
    # The epoch whose transaction was aborted without its producer's wish; -1: none, or the id was taken since.
    aborted_epoch: int = -1


class Describe(msgspec.Struct, frozen=True):
    """Answered by `Described`."""

    transactional_id: str


class ListIds(msgspec.Struct, frozen=True):
    """Answered by a tuple of `Described`: every id of the shard, without participants."""


# --- external coordinators ------------------------------------------------------------


class OpenParticipant(msgspec.Struct, frozen=True):
    """Begin to stage records; what the same name has staged before is aborted.

    Answered by a `Producer`, `EpochCommitted`, or `ProducerIdNeeded` without a new producer id.
    """

    participant: Participant
    new_producer_id: int | None = None


class EpochCommitted(msgspec.Struct, frozen=True):
    """The answer to `OpenParticipant` when there is nothing left to write for its epoch."""


class Claim(msgspec.Struct, frozen=True):
    """A participant that the coordinator counts on; with `producer`, only while it is still that one."""

    task: str
    producer: Producer | None = None


class DecideEpoch(msgspec.Struct, frozen=True):
    """Commit these participants of an epoch and abort all others of it and before it; or abort all of it.

    Answered by `EpochDecided`.
    """

    writer: str
    epoch: int
    commit: bool
    claims: tuple[Claim, ...] = ()


class EpochDecided(msgspec.Struct, frozen=True):
    """How many participants were decided; `already` if there was nothing left to decide."""

    already: bool
    committed: int = 0
    aborted: int = 0


class DescribedWriter(msgspec.Struct, frozen=True):
    """A writer as an operator sees it: its committed epochs, and who stages records or is being ended."""

    writer: str
    committed: tuple[tuple[int, int], ...]
    participants: tuple[tuple[Participant, Described], ...]


class DescribeWriter(msgspec.Struct, frozen=True):
    """Answered by `DescribedWriter`."""

    writer: str


class ListWriters(msgspec.Struct, frozen=True):
    """Answered by a tuple of `DescribedWriter`: every writer of the shard."""
