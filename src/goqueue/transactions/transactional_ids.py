"""What producers and administrators ask about transactional ids; `transitions` says what becomes of one."""

from __future__ import annotations

from collections.abc import Mapping

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
    Describe,
    EndTransaction,
    InitProducer,
    ListIds,
    Producer,
    ProducerIdNeeded,
)
from goqueue.transactions.names import Name, Participant
from goqueue.transactions.outbox import Outbox, described
from goqueue.transactions.records import TransactionRecord, TransactionState
from goqueue.transactions.statistics import TransactionStatistics

_NO_PLACES: frozenset[TopicPartition] = frozenset()


class TransactionalIds:
    """The ids of one shard. `transactions` is the machine's own table, which this only reads."""

    def __init__(self, transactions: Mapping[Name, TransactionRecord], statistics: TransactionStatistics) -> None:
        self._transactions = transactions
        self._statistics = statistics

    # --- producers --------------------------------------------------------------------

    def init(self, ticket: int, command: InitProducer, now_ms: int, out: Outbox) -> None:
        """A producer takes the id over: what its predecessor had open is aborted, and its epoch ends."""
        record = self._transactions.get(command.transactional_id)
        if record is None:
            if command.current is not None:
                raise InvalidProducerIdMapping("the transactional id is not known")
            self._init_new(ticket, command, now_ms, out)
            return
        if command.current is not None:
            transitions.check_claim(record, command.current)
        if record.state is TransactionState.ONGOING:
            out.abort(command.transactional_id, record, now_ms, claimed=command.current)
        if not record.state.is_idle:
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
        known = self._transactions.get(command.transactional_id)
        number = 0 if known is None else known.number
        new = transitions.new_id(producer_id, command.timeout_ms, now_ms, number=number)
        out.write(command.transactional_id, new)
        out.reply(ticket, Producer(producer_id, 0))

    # --- transactions -----------------------------------------------------------------

    def begin(self, ticket: int, command: Begin, now_ms: int, out: Outbox) -> None:
        """Begin a transaction that has no partitions yet."""
        record = self._of_producer(command.transactional_id, command.producer)
        begun = transitions.with_partitions(record, _NO_PLACES, now_ms)
        if begun is None:
            raise InvalidTransactionState("a transaction of this id is open")
        self._statistics.begun += 1
        out.write(command.transactional_id, begun)
        out.reply(ticket, begun.number)

    def add(self, ticket: int, command: AddPartitions, now_ms: int, out: Outbox) -> None:
        """Partitions take part from now on; the first ones begin the transaction."""
        record = self._of_producer(command.name, command.producer)
        if isinstance(command.name, Participant) and record.state is not TransactionState.ONGOING:
            raise InvalidTransactionState(f"{command.name} is already decided")
        transitions.check_number(record, command.number)
        if command.number is not None and record.state is not TransactionState.ONGOING:
            raise InvalidTransactionState("that transaction has ended")
        changed = transitions.with_partitions(record, command.partitions, now_ms)
        if record.state is not TransactionState.ONGOING:
            self._statistics.begun += 1
        if changed is not None:
            out.write(command.name, changed)
        out.reply(ticket, None)

    def end(self, ticket: int, command: EndTransaction, now_ms: int, out: Outbox) -> None:
        """Decide the transaction."""
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
        record = self._transactions.get(command.transactional_id)
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

    def abort_any(self, ticket: int, command: AbortAny, now_ms: int, out: Outbox) -> None:
        """Abort what is open, whoever asks."""
        record = self._existing(command.transactional_id)
        if command.producer is not None:
            transitions.check_producer(record, command.producer)
        if record.state is not TransactionState.ONGOING:
            raise InvalidTransactionState(f"there is nothing to abort in state {record.state.kafka_name}")
        if command.producer is not None:
            self._statistics.timed_out += 1
        out.abort(command.transactional_id, record, now_ms)
        out.reply(ticket, None)

    # --- administration ---------------------------------------------------------------

    def describe(self, ticket: int, command: Describe, _now_ms: int, out: Outbox) -> None:
        """One id as it stands."""
        record = self._existing(command.transactional_id)
        out.reply(ticket, described(command.transactional_id, record))

    def list_all(self, ticket: int, _command: ListIds, _now_ms: int, out: Outbox) -> None:
        """All ids of this shard."""
        ids = [(name, record) for name, record in self._transactions.items() if isinstance(name, str)]
        out.reply(ticket, tuple(described(name, record) for name, record in ids))

    # --- looking up -------------------------------------------------------------------

    def _of_producer(self, name: Name, producer: Producer) -> TransactionRecord:
        record = self._transactions.get(name)
        if record is None:
            raise InvalidProducerIdMapping("the transactional id is not known: initialise its producer first")
        transitions.check_producer(record, producer)
        return record

    def _existing(self, transactional_id: str) -> TransactionRecord:
        record = self._transactions.get(transactional_id)
        if record is None:
            raise TransactionalIdNotFound(transactional_id)
        return record
