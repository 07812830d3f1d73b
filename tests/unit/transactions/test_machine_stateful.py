"""Any sequence of requests, delays and restarts: what was decided stays decided, and everything ends."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from goqueue.errors import GoQueueError
from goqueue.transactions.commands import Completed, Prepared, Producer
from goqueue.transactions.records import TransactionState

from .driver import A0, A1, B0, Bench

NAMES = st.sampled_from(["one", "two"])
PLACES = st.sampled_from([A0, A1, B0])


class Transactions(RuleBasedStateMachine):
    """Producers that may be zombies, a marker writer that may forget, a node that may restart."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(timeout_ms=1000)
        self.producers: dict[str, list[Producer]] = {}
        # By id and number of the transaction: how its producer was told that it ends.
        self.answered: dict[tuple[str, int], bool] = {}
        self.prepared: dict[tuple[str, int], Prepared] = {}

    @rule(name=NAMES)
    def initialise(self, name: str) -> None:
        try:
            producer = self.bench.init(name, timeout_ms=1000)
        except GoQueueError:
            return
        known = self.producers.setdefault(name, [])
        assert producer not in known
        known.append(producer)

    @rule(name=NAMES, place=PLACES, age=st.integers(0, 1))
    def add(self, name: str, place: object, age: int) -> None:
        producer = self.producer(name, age)
        if producer is None:
            return
        try:
            self.bench.add(producer, place, name=name)  # type: ignore[arg-type]
        except GoQueueError:
            return
        assert producer == self.producers[name][-1], "a zombie was let in"

    @rule(name=NAMES, commit=st.booleans(), age=st.integers(0, 1))
    def end(self, name: str, commit: bool, age: int) -> None:
        producer = self.producer(name, age)
        if producer is None:
            return
        number = self.number(name)
        try:
            self.bench.end(producer, commit=commit, name=name)
        except GoQueueError:
            return
        assert producer == self.producers[name][-1], "a zombie was let in"
        assert self.answered.setdefault((name, number), commit) is commit

    @rule()
    def watch(self) -> None:
        for one in self.bench.told(self.bench.watch()):
            key = (one.name, one.number)
            assert self.prepared.setdefault(key, one) == one
            if key in self.answered:
                assert one.commit is self.answered[key]

    @rule()
    def complete(self) -> None:
        for one in self.prepared.values():
            self.bench.ask(Completed(one.name, one.number))

    @rule(ms=st.integers(0, 600))
    def wait(self, ms: int) -> None:
        self.bench.pass_ms(ms)

    @rule(from_snapshot=st.booleans())
    def restart(self, from_snapshot: bool) -> None:
        self.bench.restart(from_snapshot=from_snapshot)

    @invariant()
    def no_transaction_outlives_its_time(self) -> None:
        for name in self.producers:
            described = self.bench.described(name)
            if described.state is TransactionState.ONGOING:
                assert described.started_ms + 1000 >= self.bench.now_ms

    def teardown(self) -> None:
        self.bench.pass_ms(1000)
        self.bench.restart()
        self.watch()
        self.complete()
        for name in self.producers:
            assert not self.bench.state(name).is_prepared
            assert self.bench.state(name) is not TransactionState.ONGOING

    def producer(self, name: str, age: int) -> Producer | None:
        known = self.producers.get(name, [])
        return known[-1 - age] if len(known) > age else None

    def number(self, name: str) -> int:
        return self.bench.machine._ids[name].number


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
