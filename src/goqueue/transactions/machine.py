"""The transaction machine: one shard's transactional ids, and participants of external coordinators.

`TransactionalIds` and `PreparedWriters` answer most of what is asked. A decision (Prepare*) goes to
the watcher only through a held reply, so no partition hears of one that could still be lost;
after a replay the watcher gets every transaction that was decided and not completed.
Ongoing transactions that take too long are aborted by `tick`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec

from goqueue.config import TransactionsConfig
from goqueue.coordinator.shard import Decision
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
    WatchPrepared,
)
from goqueue.transactions.names import Name, Participant
from goqueue.transactions.open_transactions import ShardProducers
from goqueue.transactions.outbox import Outbox, prepared_of
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
from goqueue.transactions.transactional_ids import TransactionalIds

# How often ids are looked over for those that nobody uses any more. Kafka's number.
EXPIRY_CHECK_MS = 3_600_000
_NO_PLACES: frozenset[TopicPartition] = frozenset()
# What promises nothing. Anything else may be told again to a coordinator that only loaded what another one wrote.
_PROMISES_NOTHING = frozenset({Describe, DescribeWriter, ListIds, ListWriters, Completed})
_snapshot_decoder = msgspec.msgpack.Decoder(list[tuple[bytes, bytes]])


class TransactionMachine:
    """A `coordinator.shard.Machine` for transactional ids."""

    def __init__(
        self,
        config: TransactionsConfig,
        producers: ShardProducers,
        statistics: TransactionStatistics | None = None,
    ) -> None:
        self._config = config
        self._statistics = statistics or TransactionStatistics()
        # This shard's own; what it shows of them is up to whoever loads it.
        self.producers = producers
        self._ids: dict[Name, TransactionRecord] = {}
        self._writers = PreparedWriters(config, self._ids)
        # Ongoing transactions, id -> when they have taken too long.
        self._deadlines: dict[Name, int] = {}
        self._expiry_check_ms: int | None = None
        self._watcher: int | None = None
        # Decided transactions, and those of them that a watcher has been told of: after a replay, none.
        self._prepared: dict[Name, Prepared] = {}
        self._told: set[Name] = set()
        ids, writers = TransactionalIds(self._ids, self._statistics), self._writers
        self._handlers: Mapping[type, Callable[..., None]] = {
            InitProducer: ids.init,
            Begin: ids.begin,
            AddPartitions: ids.add,
            EndTransaction: ids.end,
            AbortAny: ids.abort_any,
            Describe: ids.describe,
            ListIds: ids.list_all,
            WatchPrepared: self._watch,
            Completed: self._complete,
            OpenParticipant: self._open_participant,
            DecideEpoch: writers.decide,
            DescribeWriter: writers.describe,
            ListWriters: writers.list_all,
        }

    # --- the machine ------------------------------------------------------------------

    def decide(self, ticket: int, command: Any, now_ms: int) -> Decision:
        """Answer a command; only a watcher's ticket is kept."""
        self._arm_expiry(now_ms)
        out = Outbox()
        self._handlers[type(command)](ticket, command, now_ms, out)
        return self._decision(out, rests_on_loaded=type(command) not in _PROMISES_NOTHING)

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
                self.producers.forget(producer_id)
        if record is None:
            return
        self._ids[name] = record
        is_ongoing = record.state is TransactionState.ONGOING
        places = record.places if is_ongoing else _NO_PLACES
        self.producers.put(record.producer_id, name, record.producer_epoch, places, record.number)
        if record.next_producer_id >= 0:
            self.producers.put(record.next_producer_id, name, 0, _NO_PLACES, record.number)
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

    def _open_participant(self, ticket: int, command: OpenParticipant, now_ms: int, out: Outbox) -> None:
        self._writers.open(ticket, command, now_ms, out)
        self._statistics.begun += bool(out.records)

    # --- what they share --------------------------------------------------------------

    def _decision(self, out: Outbox, *, rests_on_loaded: bool = False) -> Decision:
        if self._watcher is not None and out.prepared:
            self._told.update(one.name for one in out.prepared)
            out.reply(self._watcher, tuple(out.prepared))
            self._watcher = None
        return Decision(records=out.records, replies=out.replies, rests_on_loaded=rests_on_loaded)

    def _arm_expiry(self, now_ms: int) -> None:
        if self._expiry_check_ms is None:
            self._expiry_check_ms = now_ms + EXPIRY_CHECK_MS

    def _expire(self, now_ms: int, out: Outbox) -> None:
        before_ms = now_ms - self._config.id_expiration_ms
        for name, record in self._ids.items():
            if record.state.is_idle and record.changed_ms <= before_ms:
                out.delete(name)
        self._writers.expire(now_ms, out)


def _producer_ids(record: TransactionRecord | None) -> set[int]:
    """Under which ids the producer may write, now and after what is being ended."""
    return set() if record is None else {record.producer_id, record.next_producer_id} - {-1}
