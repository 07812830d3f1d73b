"""Records of `__transaction_state`: one per transactional id or participant, and one per writer.

The newest record of a key is the truth.

A layout never changes: fields may be added at the end, with a default, and anything else is
a new kind with a new number.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

from goqueue.coordinator.records import RecordCodec
from goqueue.records import TopicPartition
from goqueue.transactions.names import Name, Participant


class TransactionState(IntEnum):
    """Where a transaction stands. The numbers are on disk; they are Kafka's.

    EMPTY -> ONGOING -> PREPARE_* -> COMPLETE_* -> ONGOING ... A prepared transaction is
    decided: what is left is to tell its partitions. DEAD is an id that is being forgotten.
    """

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6

    @property
    def is_idle(self) -> bool:
        """Whether nothing is open, and nothing left to be done for what was."""
        return self in {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}

    @property
    def is_prepared(self) -> bool:
        """Whether it is decided and not every partition is known to know."""
        return self in {TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT}

    @property
    def kafka_name(self) -> str:
        """As Kafka's tools spell it."""
        return "".join(word.capitalize() for word in self.name.split("_"))


class TransactionKey(msgspec.Struct, frozen=True, array_like=True):
    """What a transactional id stands for: `TransactionRecord`."""

    transactional_id: str


class ParticipantKey(msgspec.Struct, frozen=True, array_like=True):
    """A participant of an external coordinator: `TransactionRecord`, until its end is known everywhere."""

    writer: str
    epoch: int
    task: str


class WriterKey(msgspec.Struct, frozen=True, array_like=True):
    """What an external coordinator has committed: `WriterRecord`."""

    writer: str


class TransactionRecord(msgspec.Struct, frozen=True, array_like=True):
    """All that is known of a transactional id, or of a participant."""

    producer_id: int
    producer_epoch: int
    # The epoch that the producer gave up for this one, by asking itself; -1 if it was taken from it.
    last_epoch: int
    timeout_ms: int
    state: TransactionState
    # Counts the transactions of this id: a late note about one must not be taken for the next.
    number: int
    partitions: tuple[tuple[str, int], ...]
    started_ms: int
    changed_ms: int
    # While it is being ended: who the producer is afterwards, if its epochs are used up; else -1.
    next_producer_id: int = -1
    # After that: who it was, until the next transaction begins; else -1.
    previous_producer_id: int = -1

    @property
    def places(self) -> frozenset[TopicPartition]:
        """The partitions of the transaction."""
        return frozenset(TopicPartition(topic, partition) for topic, partition in self.partitions)


class WriterRecord(msgspec.Struct, frozen=True, array_like=True):
    """Which epochs of a writer are committed, as ranges with both ends included, oldest first."""

    committed: tuple[tuple[int, int], ...]
    changed_ms: int


Key = TransactionKey | ParticipantKey | WriterKey
Value = TransactionRecord | WriterRecord

# Numbers are on disk.
KEYS: RecordCodec[Key] = RecordCodec({1: TransactionKey, 2: ParticipantKey, 3: WriterKey})
VALUES: RecordCodec[Value] = RecordCodec({1: TransactionRecord, 2: WriterRecord})


def key_of(name: Name) -> bytes:
    """The key under which a transaction is stored."""
    return KEYS.encode(ParticipantKey(*name) if isinstance(name, Participant) else TransactionKey(name))


def name_of(key: TransactionKey | ParticipantKey) -> Name:
    """Whose transaction a key stands for."""
    if isinstance(key, TransactionKey):
        return key.transactional_id
    return Participant(key.writer, key.epoch, key.task)
