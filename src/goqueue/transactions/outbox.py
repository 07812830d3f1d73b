"""What one step of the transaction machine leads to, while it is being worked out."""

from __future__ import annotations

from goqueue.coordinator.shard import Record, Reply
from goqueue.transactions import transitions
from goqueue.transactions.commands import Described, Prepared, Producer
from goqueue.transactions.names import Name, Participant
from goqueue.transactions.records import (
    KEYS,
    VALUES,
    TransactionRecord,
    TransactionState,
    WriterKey,
    WriterRecord,
    key_of,
)


class Outbox:
    """Records, replies, and decisions that a watcher must hear of."""

    __slots__ = ("prepared", "records", "replies")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.replies: list[Reply] = []
        self.prepared: list[Prepared] = []

    def write(self, name: Name, record: TransactionRecord) -> None:
        """Store this; a watcher hears of it if it is a decision."""
        self.records.append((key_of(name), VALUES.encode(record)))
        if record.state.is_prepared:
            self.prepared.append(prepared_of(name, record))

    def write_writer(self, writer: str, record: WriterRecord) -> None:
        """Store what a writer has committed."""
        self.records.append((KEYS.encode(WriterKey(writer)), VALUES.encode(record)))

    def delete(self, name: Name) -> None:
        """Forget the id or participant."""
        self.records.append((key_of(name), None))

    def delete_writer(self, writer: str) -> None:
        """Forget what a writer has committed."""
        self.records.append((KEYS.encode(WriterKey(writer)), None))

    def abort(self, name: Name, record: TransactionRecord, now_ms: int, *, claimed: Producer | None = None) -> None:
        """End an ongoing transaction against its producer's will."""
        if isinstance(name, Participant) and not record.partitions:
            # It staged nothing, so there is nobody to tell.
            self.delete(name)
        else:
            self.write(name, transitions.fenced_abort(record, now_ms, claimed=claimed))

    def reply(self, ticket: int, answer: object) -> None:
        """Answer a ticket with a value or an error."""
        self.replies.append((ticket, answer))


def prepared_of(name: Name, record: TransactionRecord) -> Prepared:
    """The decision, as the marker writer needs it."""
    return Prepared(
        name,
        record.number,
        Producer(record.producer_id, record.producer_epoch),
        commit=record.state is TransactionState.PREPARE_COMMIT,
        partitions=record.places,
    )


def described(name: Name, record: TransactionRecord) -> Described:
    """The transaction, as an operator sees it."""
    return Described(
        str(name),
        record.producer_id,
        record.producer_epoch,
        record.number,
        record.state,
        record.timeout_ms,
        record.started_ms,
        tuple(sorted(record.places)),
        transitions.aborted_epoch(record),
    )
