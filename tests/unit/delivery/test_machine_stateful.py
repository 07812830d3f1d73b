"""The delivery machine against a naive one that keeps a row for every message."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from goqueue.delivery.policy import DeliveryPolicy
from goqueue.delivery.state import records as delivery_records
from goqueue.delivery.state.commands import BeginMove, EndMove, Move, ReleaseConsumer, Settle, SettleShare
from goqueue.delivery.state.records import offsets_of
from goqueue.delivery.state.snapshots import snapshot_of
from goqueue.delivery.values import Action

from .driver import QUEUE, Driver

RETRIES_MAX = 2
VISIBILITY_MS = 1_000


@dataclass
class Row:
    """What the naive model knows of one message."""

    offset: int
    lane: int
    key: int
    state: str = "new"  # new, held, waiting, dying, settled
    count: int = 0
    until_ms: int = 0
    consumer: str = ""
    # (lease id, count) of the receipt that is good; None if none is.
    receipt: tuple[int, int] | None = None


@dataclass
class Model:
    rows: list[Row] = field(default_factory=list)
    buried: list[int] = field(default_factory=list)

    def available(self, now_ms: int, *, key_ordered: bool) -> set[int]:
        blocked: set[tuple[int, int]] = set()
        found = set()
        for row in self.rows:
            free = row.state == "new" or (row.state in {"held", "waiting"} and row.until_ms <= now_ms)
            place = (row.lane, row.key)
            if key_ordered and row.key:
                if place in blocked:
                    continue
                if row.state in {"new", "held", "waiting"}:
                    blocked.add(place)
            if free:
                found.add(row.offset)
        return found


class Leases(RuleBasedStateMachine):
    """Random receives, answers, waits, deaths and restarts."""

    @initialize(key_ordered=st.booleans(), dead_letters=st.booleans())
    def begin(self, key_ordered: bool, dead_letters: bool) -> None:
        self.policy = DeliveryPolicy(
            visibility_ms=VISIBILITY_MS,
            retries_max=RETRIES_MAX,
            backoff_ms=500,
            backoff_ms_max=4_000,
            key_ordered=key_ordered,
            dead_letters=dead_letters,
            outstanding_max=60,
        )
        self.driver = Driver(self.policy)
        self.model = Model()
        self.receipts: list[tuple[int, int, int]] = []

    # --- what happens --------------------------------------------------------------------

    @rule(lanes=st.lists(st.integers(0, 4), min_size=1, max_size=10), key=st.integers(0, 2))
    def publish(self, lanes: list[int], key: int) -> None:
        for lane in lanes:
            offset = self.driver.publish(lane, key)
            self.model.rows.append(Row(offset, lane, key))

    @rule(limit=st.integers(1, 12), consumer=st.sampled_from(["a", "b"]))
    def receive(self, limit: int, consumer: str) -> None:
        now_ms = self.driver.now_ms
        available = self.model.available(now_ms, key_ordered=self.policy.key_ordered)
        granted = self.driver.receive(limit, consumer)
        got: list[int] = []
        for one in granted:
            for offset in offsets_of(one.ranges):
                row = self.model.rows[offset]
                assert offset in available, f"{row} was not available"
                assert one.count == row.count + 1
                assert one.lane == row.lane
                row.state, row.count, row.consumer = "held", one.count, consumer
                row.until_ms, row.receipt = one.deadline_ms, (one.lease_id, one.count)
                self.receipts.append((offset, one.lease_id, one.count))
                got.append(offset)
        assert len(got) == len(set(got)) <= limit
        if not self.policy.key_ordered and len(self.driver.queue.outstanding) < self.policy.outstanding_max:
            assert len(got) == min(limit, len(available))

    @rule()
    def receive_all(self) -> None:
        """Whatever may be had is had, at the latest once what waits for its key was passed over."""
        for _ in range(4):
            self.receive(100, "a")
        if len(self.driver.queue.outstanding) < self.policy.outstanding_max:
            assert not self.model.available(self.driver.now_ms, key_ordered=self.policy.key_ordered)

    @rule(
        data=st.data(),
        action=st.sampled_from([Action.ACK, Action.ACK, Action.NACK, Action.REJECT, Action.EXTEND, Action.RELEASE]),
    )
    @precondition(lambda self: getattr(self, "receipts", None))
    def settle(self, data: st.DataObject, action: Action) -> None:
        offset, lease_id, count = data.draw(st.sampled_from(self.receipts))
        row = self.model.rows[offset]
        (outcome,) = self.driver.run(Settle([SettleShare(lease_id, count, action, [offset])]))
        is_held = row.state == "held" and row.until_ms > self.driver.now_ms
        is_good = row.receipt == (lease_id, count) and is_held
        assert (offset not in outcome.refused) == is_good
        if is_good:
            self._settled(row, action, outcome.action_taken)

    def _settled(self, row: Row, action: Action, taken: str) -> None:
        now_ms = self.driver.now_ms
        if action is Action.EXTEND:
            row.until_ms = now_ms + VISIBILITY_MS
            return
        row.receipt = None
        if action is Action.ACK:
            row.state = "settled"
        elif action is Action.RELEASE:
            row.state, row.until_ms, row.count = "waiting", now_ms, row.count - 1
        elif action is Action.REJECT:
            row.state = "dying" if self.policy.dead_letters else "settled"
        elif row.count > RETRIES_MAX and self.policy.dead_letters:
            row.state = "dying"
            assert taken == "dlq"
        else:
            wait_ms = 4_000 if row.count > RETRIES_MAX else 500 * 2 ** (row.count - 1)
            row.state, row.until_ms = "waiting", now_ms + wait_ms

    @rule(consumer=st.sampled_from(["a", "b"]))
    def consumer_leaves(self, consumer: str) -> None:
        now_ms = self.driver.now_ms
        released = self.driver.run(ReleaseConsumer(QUEUE, consumer))
        held = [r for r in self.model.rows if r.state == "held" and r.consumer == consumer and r.until_ms > now_ms]
        assert released == len(held)
        for row in held:
            row.state, row.until_ms, row.count, row.receipt = "waiting", now_ms, row.count - 1, None

    @rule(ms=st.sampled_from([1, 400, 999, 1_000, 1_001, 5_000]))
    def wait(self, ms: int) -> None:
        end_ms = self.driver.now_ms + ms
        self.driver.advance(ms)
        for row in self.model.rows:
            if row.state == "held" and row.until_ms <= end_ms and row.count > RETRIES_MAX:
                row.receipt = None
                if self.policy.dead_letters:
                    row.state = "dying"
                else:
                    row.state, row.until_ms = "waiting", row.until_ms + 4_000

    @rule(crash=st.sampled_from(["no", "before the end", "before the append"]))
    def bury(self, crash: str) -> None:
        move = self.driver.run(BeginMove(QUEUE))
        if move is None:
            assert not [row for row in self.model.rows if row.state == "dying"]
            return
        if not isinstance(move, Move):
            move = self.driver.run(BeginMove(QUEUE, 99))
        assert isinstance(move, Move)
        if crash == "before the append":
            self.driver.restart()
            again = self.driver.run(BeginMove(QUEUE))
            assert again == move
        # What a partition does with a producer's sequences.
        assert move.sequence == len(self.model.buried)
        self.model.buried += [one.offset for one in move.dead]
        if crash == "before the end":
            self.driver.restart()
            assert self.driver.run(BeginMove(QUEUE)) == move
        self.driver.run(EndMove(QUEUE, move.id, len(move.dead)))
        for one in move.dead:
            row = self.model.rows[one.offset]
            assert (row.state, one.count, one.lane) == ("dying", row.count, row.lane)
            row.state = "settled"

    @rule(compacted=st.booleans())
    def restart(self, compacted: bool) -> None:
        self.driver.restart(compacted=compacted)

    @rule()
    def snapshot(self) -> None:
        data = self.driver.machine.snapshot()
        fresh = type(self.driver.machine)(self.driver.table)
        fresh.restore(data)
        before, after = self.driver.queue, fresh.queue(QUEUE)
        assert after is not None
        assert snapshot_of(after) == snapshot_of(before)

    # --- what must be true ---------------------------------------------------------------

    @invariant()
    def nothing_is_lost_and_nothing_comes_twice(self) -> None:
        if not hasattr(self, "driver"):
            return
        queue = self.driver.queue
        for row in self.model.rows:
            untouched = row.offset >= queue.cursors[row.lane]
            outstanding = row.offset in queue.outstanding
            if row.state == "settled":
                assert not outstanding
                assert not untouched
            elif row.state == "new":
                assert untouched or outstanding  # parked
            else:
                assert outstanding
                assert not untouched
        assert len(self.model.buried) == len(set(self.model.buried))

    @invariant()
    def the_lowest_unsettled_is_what_it_should_be(self) -> None:
        if not hasattr(self, "driver"):
            return
        queue = self.driver.queue
        touched = [
            row.offset for row in self.model.rows if row.state != "settled" and row.offset < queue.cursors[row.lane]
        ]
        assert queue.lowest_outstanding() == min(touched, default=None)
        held = [row for row in self.model.rows if row.state == "held" and row.until_ms > self.driver.now_ms]
        self.driver.machine.advance(self.driver.now_ms)
        assert queue.in_flight_count == len(held) == sum(queue.in_flight.values())


TestLeases = Leases.TestCase
TestLeases.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)


def test_the_slots_of_deltas_are_enough_for_the_snapshots() -> None:
    """The deltas behind the newest snapshot must all survive compaction."""
    assert delivery_records.SNAPSHOT_DELTAS < delivery_records.SLOTS
