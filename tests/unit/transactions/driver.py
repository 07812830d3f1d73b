"""Runs a transaction machine as its shard would, with time in the test's hands."""

from __future__ import annotations

from dataclasses import replace

from goqueue.config import TransactionsConfig
from goqueue.coordinator.shard import Decision
from goqueue.errors import GoQueueError
from goqueue.records import TopicPartition
from goqueue.transactions.commands import (
    AddPartitions,
    Completed,
    Describe,
    Described,
    EndTransaction,
    InitProducer,
    Prepared,
    Producer,
    ProducerIdNeeded,
    WatchPrepared,
)
from goqueue.transactions.machine import TransactionMachine
from goqueue.transactions.open_transactions import OpenTransactions, ShardProducers
from goqueue.transactions.records import TransactionState

START_MS = 1_700_000_000_000
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


class Bench:
    """A machine, its log, and the answers it gave."""

    def __init__(self, **settings: int) -> None:
        self.config = replace(TransactionsConfig(), **settings)
        self.now_ms = START_MS
        self.log: list[tuple[bytes, bytes | None]] = []
        # The same records by the batches that they were written in.
        self.steps: list[list[tuple[bytes, bytes | None]]] = []
        self.replies: dict[int, object] = {}
        self._tickets = 0
        self.next_producer_id = 100
        self._new_machine()

    def send(self, command: object) -> int:
        """Submit a command; its answer may come later."""
        self._tickets += 1
        try:
            decision = self.machine.decide(self._tickets, command, self.now_ms)
        except GoQueueError as refusal:
            decision = Decision(replies=[(self._tickets, refusal)])
        self._carry_out(decision)
        return self._tickets

    def ask(self, command: object) -> object:
        """Submit a command that is answered at once."""
        ticket = self.send(command)
        assert ticket in self.replies, "not answered yet"
        reply = self.replies[ticket]
        if isinstance(reply, GoQueueError):
            raise reply
        return reply

    # --- what producers do --------------------------------------------------------------

    def init(self, name: str = "tx", *, timeout_ms: int = 60_000, current: Producer | None = None) -> Producer:
        reply = self.ask(InitProducer(name, timeout_ms, current))
        if isinstance(reply, ProducerIdNeeded):
            self.next_producer_id += 1
            reply = self.ask(InitProducer(name, timeout_ms, current, self.next_producer_id))
        assert isinstance(reply, Producer)
        return reply

    def add(self, producer: Producer, *places: TopicPartition, name: str = "tx") -> None:
        self.ask(AddPartitions(name, producer, frozenset(places)))

    def end(self, producer: Producer, *, commit: bool, name: str = "tx") -> None:
        self.ask(EndTransaction(name, producer, commit))

    # --- what the marker writer does ----------------------------------------------------

    def watch(self) -> int:
        return self.send(WatchPrepared())

    def told(self, ticket: int) -> tuple[Prepared, ...]:
        told = self.replies.get(ticket, ())
        assert isinstance(told, tuple)
        return told

    def complete_all(self) -> list[Prepared]:
        """Watch, and report every decided transaction as done."""
        prepared = list(self.told(self.watch()))
        for one in prepared:
            self.ask(Completed(one.name, one.number))
        return prepared

    # --- looking ------------------------------------------------------------------------

    def described(self, name: str = "tx") -> Described:
        reply = self.ask(Describe(name))
        assert isinstance(reply, Described)
        return reply

    def state(self, name: str = "tx") -> TransactionState:
        return self.described(name).state

    # --- time and restarts --------------------------------------------------------------

    def pass_ms(self, ms: int) -> None:
        """Let time pass, ringing every alarm when it is due."""
        until_ms = self.now_ms + ms
        while (at_ms := self.machine.wake_at_ms()) is not None and at_ms <= until_ms:
            self.now_ms = max(self.now_ms, at_ms)
            self._carry_out(self.machine.tick(self.now_ms))
        self.now_ms = until_ms

    def restart(self, *, from_snapshot: bool = False) -> None:
        """Lose all but the log, or all but a snapshot."""
        snapshot = self.machine.snapshot()
        self._new_machine()
        if from_snapshot:
            self.machine.restore(snapshot)
        else:
            for key, value in self.log:
                self.machine.apply(key, value)

    def _new_machine(self) -> None:
        self.open = OpenTransactions()
        producers = ShardProducers()
        self.open.show(0, producers, 0)
        self.machine = TransactionMachine(self.config, producers)

    def _carry_out(self, decision: Decision) -> None:
        if decision.records:
            self.steps.append(list(decision.records))
        for key, value in decision.records:
            self.log.append((key, value))
            self.machine.apply(key, value)
        for ticket, reply in decision.replies:
            assert ticket not in self.replies, "answered twice"
            self.replies[ticket] = reply
