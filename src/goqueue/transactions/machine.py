"""The transaction machine: one shard's transactional ids, and participants of external coordinators.

It looks an id up and lets `transitions` say what becomes of it. A decision (Prepare*) goes to
the watcher only through a held reply, so no partition hears of one that could still be lost;
after a replay the watcher gets every transaction that was decided and not completed (W39).
Ongoing transactions that take too long are aborted by `tick` (W37).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, cast

import msgspec

from goqueue.config import TransactionsConfig
from goqueue.coordinator.shard import Decision
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
    DecideEpoch,
    Describe,
    DescribeWriter,
    EndTransaction,
    InitProducer,
    ListIds,
    ListWriters,
    OpenParticipant,
    Prepared,
    Producer,
    ProducerIdNeeded,
    WatchPrepared,
)
from goqueue.transactions.names import Name, Participant
from goqueue.transactions.open_transactions import OpenTransactions
from goqueue.transactions.outbox import Outbox, described, prepared_of
from goqueue.transactions.prepared import PreparedWriters
from goqueue.transactions.records import (
    KEYS,
    VALUES,
    TransactionRecord,
    TransactionState,
    WriterKey,
    WriterRecord,
    key_of,
    name_of,
)
from goqueue.transactions.statistics import TransactionStatistics

# How often ids are looked over for those that nobody uses any more. Kafka's number.
EXPIRY_CHECK_MS = 3_600_000
_NO_PLACES: frozenset[TopicPartition] = frozenset()
_IDLE = {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
_snapshot_decoder = msgspec.msgpack.Decoder(list[tuple[bytes, bytes]])


class TransactionMachine:
    """A `coordinator.shard.Machine` for transactional ids."""

    def __init__(
        self,
        config: TransactionsConfig,
        open_transactions: OpenTransactions,
        statistics: TransactionStatistics | None = None,
    ) -> None:
        self._config = config
        self._statistics = statistics or TransactionStatistics()
        self._open = open_transactions
        self._ids: dict[Name, TransactionRecord] = {}
        self._writers = PreparedWriters(config, self._ids)
        # Ongoing transactions, id -> when they have taken too long.
        self._deadlines: dict[Name, int] = {}
        self._expiry_check_ms: int | None = None
        self._watcher: int | None = None
        # Decided transactions, and those of them that a watcher has been told of: after a replay, none.
        self._prepared: dict[Name, Prepared] = {}
        self._told: set[Name] = set()

    # --- the machine ------------------------------------------------------------------

    def decide(self, ticket: int, command: Any, now_ms: int) -> Decision:
        """Answer a command; only a watcher's ticket is kept."""
        self._arm_expiry(now_ms)
        out = Outbox()
        self._HANDLERS[type(command)](self, ticket, command, now_ms, out)
        return self._decision(out)

    def tick(self, now_ms: int) -> Decision:
        """Abort what has taken too long, forget what nobody uses."""
        out = Outbox()
        for name, deadline_ms in self._deadlines.items():
            if deadline_ms <= now_ms:
                self._statistics.timed_out += 1
                out.abort(name, self._ids[name], now_ms)
        if self._expiry_check_ms is not None and self._expiry_check_ms <= now_ms:
            self._expiry_check_ms = None
            self._expire(now_ms, out)
        self._arm_expiry(now_ms)
        return self._decision(out)

    def apply(self, key: bytes, value: bytes | None) -> None:
        """Take in one record."""
        decoded = KEYS.decode(key)
        record = None if value is None else VALUES.decode(value)
        if isinstance(decoded, WriterKey):
            self._writers.apply(decoded.writer, cast("WriterRecord | None", record))
        else:
            self._apply(name_of(decoded), cast("TransactionRecord | None", record))

    def _apply(self, name: Name, record: TransactionRecord | None) -> None:
        known = self._ids.pop(name, None)
        self._deadlines.pop(name, None)
        if self._prepared.pop(name, None) is not None:
            self._told.discard(name)
        if isinstance(name, Participant):
            self._writers.left(name) if record is None else self._writers.joined(name)
        if known is not None:
            for producer_id in _producer_ids(known) - _producer_ids(record):
                self._open.forget(producer_id)
        if record is None:
            return
        self._ids[name] = record
        is_ongoing = record.state is TransactionState.ONGOING
        places = record.places if is_ongoing else _NO_PLACES
        self._open.put(record.producer_id, name, record.producer_epoch, places, record.number)
        if record.next_producer_id >= 0:
            self._open.put(record.next_producer_id, name, 0, _NO_PLACES, record.number)
        if is_ongoing:
            self._deadlines[name] = record.started_ms + record.timeout_ms
        if record.state.is_prepared:
            self._prepared[name] = prepared_of(name, record)

    def wake_at_ms(self) -> int | None:
        """When the next transaction has taken too long, or ids must be looked over."""
        times = [*self._deadlines.values()]
        if self._expiry_check_ms is not None:
            times.append(self._expiry_check_ms)
        return min(times, default=None)

    def snapshot(self) -> bytes:
        """Every record that this state is made of."""
        stored = [(key_of(name), VALUES.encode(record)) for name, record in self._ids.items()]
        writers = self._writers.stored().items()
        stored += [(KEYS.encode(WriterKey(writer)), VALUES.encode(record)) for writer, record in writers]
        return msgspec.msgpack.encode(sorted(stored))

    def restore(self, data: bytes) -> None:
        """Apply the records of a snapshot."""
        for key, value in _snapshot_decoder.decode(data):
            self.apply(key, value)

    # --- producers --------------------------------------------------------------------

    def _init(self, ticket: int, command: InitProducer, now_ms: int, out: Outbox) -> None:
        record = self._ids.get(command.transactional_id)
        if record is None:
            if command.current is not None:
                raise InvalidProducerIdMapping("the transactional id is not known")
            self._init_new(ticket, command, now_ms, out)
            return
        if command.current is not None:
            transitions.check_claim(record, command.current)
        if record.state is TransactionState.ONGOING:
            out.abort(command.transactional_id, record, now_ms, claimed=command.current)
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

    def _init_new(self, ticket: int, command: InitProducer, now_ms: int, out: Outbox) -> None:
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

    def _begin(self, ticket: int, command: Begin, now_ms: int, out: Outbox) -> None:
        record = self._of_producer(command.transactional_id, command.producer)
        begun = transitions.with_partitions(record, _NO_PLACES, now_ms)
        if begun is None:
            raise InvalidTransactionState("a transaction of this id is open")
        self._statistics.begun += 1
        out.write(command.transactional_id, begun)
        out.reply(ticket, begun.number)

    def _add(self, ticket: int, command: AddPartitions, now_ms: int, out: Outbox) -> None:
        record = self._of_producer(command.name, command.producer)
        if isinstance(command.name, Participant) and record.state is not TransactionState.ONGOING:
            raise InvalidTransactionState(f"{command.name} is decided already")
        transitions.check_number(record, command.number)
        if command.number is not None and record.state is not TransactionState.ONGOING:
            raise InvalidTransactionState("that transaction has ended")
        changed = transitions.with_partitions(record, command.partitions, now_ms)
        if record.state is not TransactionState.ONGOING:
            self._statistics.begun += 1
        if changed is not None:
            out.write(command.name, changed)
        out.reply(ticket, None)

    def _end(self, ticket: int, command: EndTransaction, now_ms: int, out: Outbox) -> None:
        if command.raises_epoch:
            self._end_with_epoch(ticket, command, now_ms, out)
            return
        record = self._of_producer(command.transactional_id, command.producer)
        transitions.check_number(record, command.number)
        changed = transitions.decided(record, commit=command.commit, now_ms=now_ms)
        if changed is not None:
            out.write(command.transactional_id, changed)
        out.reply(ticket, command.producer)

    def _end_with_epoch(self, ticket: int, command: EndTransaction, now_ms: int, out: Outbox) -> None:
        record = self._ids.get(command.transactional_id)
        if record is not None and transitions.was(record, command.producer):
            # The answer was lost, and the producer asks again.
            transitions.check_same_end(record, commit=command.commit)
            out.reply(ticket, transitions.becomes(record))
            return
        record = self._of_producer(command.transactional_id, command.producer)
        if transitions.is_exhausted(record) and command.new_producer_id is None:
            out.reply(ticket, ProducerIdNeeded())
            return
        new_id = command.new_producer_id if transitions.is_exhausted(record) else None
        ended = transitions.ended_with_epoch(record, commit=command.commit, new_producer_id=new_id, now_ms=now_ms)
        out.write(command.transactional_id, ended)
        out.reply(ticket, transitions.becomes(ended))

    def _abort_any(self, ticket: int, command: AbortAny, now_ms: int, out: Outbox) -> None:
        record = self._existing(command.transactional_id)
        if command.producer is not None:
            transitions.check_producer(record, command.producer)
        if record.state is not TransactionState.ONGOING:
            raise InvalidTransactionState(f"there is nothing to abort in state {record.state.kafka_name}")
        if command.producer is not None:
            self._statistics.timed_out += 1
        out.abort(command.transactional_id, record, now_ms)
        out.reply(ticket, None)

    # --- telling the partitions -------------------------------------------------------

    def _watch(self, ticket: int, _command: WatchPrepared, _now_ms: int, out: Outbox) -> None:
        if self._watcher is not None:
            out.reply(self._watcher, ())
        self._watcher = ticket
        out.prepared += [one for name, one in self._prepared.items() if name not in self._told]

    def _complete(self, ticket: int, command: Completed, now_ms: int, out: Outbox) -> None:
        record = self._ids.get(command.name)
        # Told twice, it is true already; and a later transaction is none of its business.
        if record is not None and record.number == command.number and record.state.is_prepared:
            if isinstance(command.name, Participant):
                out.delete(command.name)
            else:
                out.write(command.name, transitions.completed(record, now_ms))
        out.reply(ticket, None)

    # --- administration ---------------------------------------------------------------

    def _describe(self, ticket: int, command: Describe, _now_ms: int, out: Outbox) -> None:
        record = self._existing(command.transactional_id)
        out.reply(ticket, described(command.transactional_id, record))

    def _list(self, ticket: int, _command: ListIds, _now_ms: int, out: Outbox) -> None:
        ids = [(name, record) for name, record in self._ids.items() if isinstance(name, str)]
        out.reply(ticket, tuple(described(name, record) for name, record in ids))

    # --- external coordinators --------------------------------------------------------

    def _open_participant(self, ticket: int, command: OpenParticipant, now_ms: int, out: Outbox) -> None:
        self._writers.open(ticket, command, now_ms, out)
        self._statistics.begun += bool(out.records)

    def _decide_epoch(self, ticket: int, command: DecideEpoch, now_ms: int, out: Outbox) -> None:
        self._writers.decide(ticket, command, now_ms, out)

    def _describe_writer(self, ticket: int, command: DescribeWriter, now_ms: int, out: Outbox) -> None:
        self._writers.describe(ticket, command, now_ms, out)

    def _list_writers(self, ticket: int, command: ListWriters, now_ms: int, out: Outbox) -> None:
        self._writers.list_all(ticket, command, now_ms, out)

    # --- what they share --------------------------------------------------------------

    def _decision(self, out: Outbox) -> Decision:
        if self._watcher is not None and out.prepared:
            self._told.update(one.name for one in out.prepared)
            out.reply(self._watcher, tuple(out.prepared))
            self._watcher = None
        return Decision(records=out.records, replies=out.replies)

    def _of_producer(self, name: Name, producer: Producer) -> TransactionRecord:
        record = self._ids.get(name)
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

    def _expire(self, now_ms: int, out: Outbox) -> None:
        before_ms = now_ms - self._config.id_expiration_ms
        for name, record in self._ids.items():
            if record.state in _IDLE and record.changed_ms <= before_ms:
                out.delete(name)
        self._writers.expire(now_ms, out)

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
            OpenParticipant: _open_participant,
            DecideEpoch: _decide_epoch,
            DescribeWriter: _describe_writer,
            ListWriters: _list_writers,
        }
    )


def _producer_ids(record: TransactionRecord | None) -> set[int]:
    """Under which ids the producer may write, now and after what is being ended."""
    return set() if record is None else {record.producer_id, record.next_producer_id} - {-1}
