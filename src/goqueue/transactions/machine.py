"""The transaction machine: one shard's transactional ids.

It looks an id up and lets `transitions` say what becomes of it. A decision (Prepare*) goes to
the watcher only through a held reply, so no partition hears of one that could still be lost;
after a replay the watcher gets every transaction that was decided and not completed (W39).
Ongoing transactions that take too long are aborted by `tick` (W37).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import msgspec

from goqueue.config import TransactionsConfig
from goqueue.coordinator.shard import Decision, Record, Reply
from goqueue.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTransactionState,
    TransactionalIdNotFound,
)
from goqueue.records import TopicPartition
from goqueue.transactions import transitions
from goqueue.transactions.commands import (
    AbortAny,
    AddPartitions,
    Begin,
    Completed,
    Describe,
    Described,
    EndTransaction,
    InitProducer,
    ListIds,
    Prepared,
    Producer,
    ProducerIdNeeded,
    WatchPrepared,
)
from goqueue.transactions.open_transactions import OpenTransactions
from goqueue.transactions.records import KEYS, VALUES, TransactionKey, TransactionRecord, TransactionState

# How often ids are looked over for those that nobody uses any more. Kafka's number.
EXPIRY_CHECK_MS = 3_600_000
_NO_PLACES: frozenset[TopicPartition] = frozenset()
_IDLE = {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
_snapshot_decoder = msgspec.msgpack.Decoder(list[tuple[bytes, bytes]])


class TransactionMachine:
    """A `coordinator.shard.Machine` for transactional ids."""

    def __init__(self, config: TransactionsConfig, open_transactions: OpenTransactions) -> None:
        self._config = config
        self._open = open_transactions
        self._ids: dict[str, TransactionRecord] = {}
        # Ongoing transactions, id -> when they have taken too long.
        self._deadlines: dict[str, int] = {}
        self._expiry_check_ms: int | None = None
        self._watcher: int | None = None
        # Decided transactions, and those of them that a watcher has been told of: after a replay, none.
        self._prepared: dict[str, Prepared] = {}
        self._told: set[str] = set()

    # --- the machine ------------------------------------------------------------------

    def decide(self, ticket: int, command: Any, now_ms: int) -> Decision:
        """Answer a command; only a watcher's ticket is kept."""
        self._arm_expiry(now_ms)
        out = _Outbox()
        self._HANDLERS[type(command)](self, ticket, command, now_ms, out)
        return self._decision(out)

    def tick(self, now_ms: int) -> Decision:
        """Abort what has taken too long, forget what nobody uses."""
        out = _Outbox()
        for transactional_id, deadline_ms in self._deadlines.items():
            if deadline_ms <= now_ms:
                out.write(transactional_id, transitions.fenced_abort(self._ids[transactional_id], now_ms))
        if self._expiry_check_ms is not None and self._expiry_check_ms <= now_ms:
            self._expiry_check_ms = None
            self._expire(now_ms, out)
        self._arm_expiry(now_ms)
        return self._decision(out)

    def apply(self, key: bytes, value: bytes | None) -> None:
        """Take in one record."""
        transactional_id = KEYS.decode(key).transactional_id
        known = self._ids.pop(transactional_id, None)
        self._deadlines.pop(transactional_id, None)
        if self._prepared.pop(transactional_id, None) is not None:
            self._told.discard(transactional_id)
        record = None if value is None else VALUES.decode(value)
        if known is not None and (record is None or record.producer_id != known.producer_id):
            self._open.forget(known.producer_id)
        if record is None:
            return
        self._ids[transactional_id] = record
        is_ongoing = record.state is TransactionState.ONGOING
        places = record.places if is_ongoing else _NO_PLACES
        self._open.put(record.producer_id, transactional_id, record.producer_epoch, places)
        if is_ongoing:
            self._deadlines[transactional_id] = record.started_ms + record.timeout_ms
        if record.state.is_prepared:
            self._prepared[transactional_id] = _prepared(transactional_id, record)

    def wake_at_ms(self) -> int | None:
        """When the next transaction has taken too long, or ids must be looked over."""
        times = [*self._deadlines.values()]
        if self._expiry_check_ms is not None:
            times.append(self._expiry_check_ms)
        return min(times, default=None)

    def snapshot(self) -> bytes:
        """Every record that this state is made of."""
        stored = [(KEYS.encode(TransactionKey(name)), VALUES.encode(record)) for name, record in self._ids.items()]
        return msgspec.msgpack.encode(sorted(stored))

    def restore(self, data: bytes) -> None:
        """Apply the records of a snapshot."""
        for key, value in _snapshot_decoder.decode(data):
            self.apply(key, value)

    # --- producers --------------------------------------------------------------------

    def _init(self, ticket: int, command: InitProducer, now_ms: int, out: _Outbox) -> None:
        record = self._ids.get(command.transactional_id)
        if record is None:
            if command.current is not None:
                raise InvalidProducerIdMapping("the transactional id is not known")
            self._init_new(ticket, command, now_ms, out)
            return
        if command.current is not None:
            transitions.check_claim(record, command.current)
        if record.state is TransactionState.ONGOING:
            out.write(command.transactional_id, transitions.fenced_abort(record, now_ms, claimed=command.current))
        if record.state not in _IDLE:
            # It is being ended; the client asks again and gets the epoch after that.
            out.reply(ticket, ConcurrentTransactions("what the id had open is being ended"))
            return
        if transitions.is_exhausted(record):
            self._init_new(ticket, command, now_ms, out)
            return
        raised = transitions.raised(record, command.current, command.timeout_ms, now_ms)
        if raised is not record:
            out.write(command.transactional_id, raised)
        out.reply(ticket, Producer(raised.producer_id, raised.producer_epoch))

    def _init_new(self, ticket: int, command: InitProducer, now_ms: int, out: _Outbox) -> None:
        producer_id = command.new_producer_id
        if producer_id is None:
            out.reply(ticket, ProducerIdNeeded())
            return
        known = self._ids.get(command.transactional_id)
        number = 0 if known is None else known.number
        new = transitions.new_id(producer_id, command.timeout_ms, now_ms, number=number)
        out.write(command.transactional_id, new)
        out.reply(ticket, Producer(producer_id, 0))

    # --- transactions -----------------------------------------------------------------

    def _begin(self, ticket: int, command: Begin, now_ms: int, out: _Outbox) -> None:
        record = self._of_producer(command.transactional_id, command.producer)
        begun = transitions.with_partitions(record, _NO_PLACES, now_ms)
        if begun is None:
            raise InvalidTransactionState("a transaction of this id is open")
        out.write(command.transactional_id, begun)
        out.reply(ticket, begun.number)

    def _add(self, ticket: int, command: AddPartitions, now_ms: int, out: _Outbox) -> None:
        record = self._of_producer(command.transactional_id, command.producer)
        changed = transitions.with_partitions(record, command.partitions, now_ms)
        if changed is not None:
            out.write(command.transactional_id, changed)
        out.reply(ticket, None)

    def _end(self, ticket: int, command: EndTransaction, now_ms: int, out: _Outbox) -> None:
        record = self._of_producer(command.transactional_id, command.producer)
        changed = transitions.decided(record, commit=command.commit, now_ms=now_ms)
        if changed is not None:
            out.write(command.transactional_id, changed)
        out.reply(ticket, None)

    def _abort_any(self, ticket: int, command: AbortAny, now_ms: int, out: _Outbox) -> None:
        record = self._existing(command.transactional_id)
        if record.state is not TransactionState.ONGOING:
            raise InvalidTransactionState(f"there is nothing to abort in state {record.state.kafka_name}")
        out.write(command.transactional_id, transitions.fenced_abort(record, now_ms))
        out.reply(ticket, None)

    # --- telling the partitions -------------------------------------------------------

    def _watch(self, ticket: int, _command: WatchPrepared, _now_ms: int, out: _Outbox) -> None:
        if self._watcher is not None:
            out.reply(self._watcher, ())
        self._watcher = ticket
        out.prepared += [one for name, one in self._prepared.items() if name not in self._told]

    def _complete(self, ticket: int, command: Completed, now_ms: int, out: _Outbox) -> None:
        record = self._ids.get(command.transactional_id)
        # Told twice, it is true already; and a later transaction is none of its business.
        if record is not None and record.number == command.number and record.state.is_prepared:
            out.write(command.transactional_id, transitions.completed(record, now_ms))
        out.reply(ticket, None)

    # --- administration ---------------------------------------------------------------

    def _describe(self, ticket: int, command: Describe, _now_ms: int, out: _Outbox) -> None:
        record = self._existing(command.transactional_id)
        out.reply(ticket, _described(command.transactional_id, record))

    def _list(self, ticket: int, _command: ListIds, _now_ms: int, out: _Outbox) -> None:
        out.reply(ticket, tuple(_described(name, record) for name, record in self._ids.items()))

    # --- what they share --------------------------------------------------------------

    def _decision(self, out: _Outbox) -> Decision:
        if self._watcher is not None and out.prepared:
            self._told.update(one.transactional_id for one in out.prepared)
            out.reply(self._watcher, tuple(out.prepared))
            self._watcher = None
        return Decision(records=out.records, replies=out.replies)

    def _of_producer(self, transactional_id: str, producer: Producer) -> TransactionRecord:
        record = self._ids.get(transactional_id)
        if record is None:
            raise InvalidProducerIdMapping("the transactional id is not known: initialise its producer first")
        transitions.check_producer(record, producer)
        return record

    def _existing(self, transactional_id: str) -> TransactionRecord:
        record = self._ids.get(transactional_id)
        if record is None:
            raise TransactionalIdNotFound(transactional_id)
        return record

    def _arm_expiry(self, now_ms: int) -> None:
        if self._expiry_check_ms is None:
            self._expiry_check_ms = now_ms + EXPIRY_CHECK_MS

    def _expire(self, now_ms: int, out: _Outbox) -> None:
        before_ms = now_ms - self._config.id_expiration_ms
        for name, record in self._ids.items():
            if record.state in _IDLE and record.changed_ms <= before_ms:
                out.delete(name)

    _HANDLERS: ClassVar[Mapping[type, Callable[..., None]]] = MappingProxyType(
        {
            InitProducer: _init,
            Begin: _begin,
            AddPartitions: _add,
            EndTransaction: _end,
            AbortAny: _abort_any,
            WatchPrepared: _watch,
            Completed: _complete,
            Describe: _describe,
            ListIds: _list,
        }
    )


class _Outbox:
    """What one step leads to, while it is being worked out."""

    __slots__ = ("prepared", "records", "replies")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.replies: list[Reply] = []
        self.prepared: list[Prepared] = []

    def write(self, transactional_id: str, record: TransactionRecord) -> None:
        """Store this; a watcher hears of it if it is a decision."""
        self.records.append((KEYS.encode(TransactionKey(transactional_id)), VALUES.encode(record)))
        if record.state.is_prepared:
            self.prepared.append(_prepared(transactional_id, record))

    def delete(self, transactional_id: str) -> None:
        """Forget the id."""
        self.records.append((KEYS.encode(TransactionKey(transactional_id)), None))

    def reply(self, ticket: int, answer: object) -> None:
        """Answer a ticket with a value or an error."""
        self.replies.append((ticket, answer))


def _prepared(transactional_id: str, record: TransactionRecord) -> Prepared:
    return Prepared(
        transactional_id,
        record.number,
        Producer(record.producer_id, record.producer_epoch),
        commit=record.state is TransactionState.PREPARE_COMMIT,
        partitions=record.places,
    )


def _described(transactional_id: str, record: TransactionRecord) -> Described:
    return Described(
        transactional_id,
        record.producer_id,
        record.producer_epoch,
        record.number,
        record.state,
        record.timeout_ms,
        record.started_ms,
        tuple(sorted(record.places)),
    )
