"""Ranges of offsets settled at once, against looking at every offset by itself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from goqueue.delivery.leases.outstanding import State
from goqueue.delivery.settlement.outcomes import Changes, settle_held
from goqueue.delivery.state.commands import Promise, SettleHeld, SettleShare
from goqueue.delivery.state.queue import Queue
from goqueue.delivery.state.records import Settled, offsets_of
from goqueue.delivery.state.snapshots import snapshot_of
from goqueue.delivery.values import Action, RangeSettlement

from .driver import QUEUE, Driver

MESSAGES = 24
_offsets = st.integers(0, MESSAGES - 1)
_ranges = st.lists(st.tuples(_offsets, _offsets).map(sorted), min_size=1, max_size=4)


def _held(queue: Queue, consumer: str, first: int, last: int) -> set[int]:
    return {
        at
        for at in range(first, last + 1)
        if (hold := queue.outstanding.get(at)) is not None
        and hold.consumer == consumer
        and hold.state is State.LEASED
        and at not in queue.pending
    }


@given(
    receives=st.lists(st.tuples(st.integers(1, 8), st.sampled_from("ab")), min_size=1, max_size=6),
    lanes=st.lists(st.integers(1, 3), min_size=MESSAGES, max_size=MESSAGES),
    returned=st.sets(_offsets, max_size=6),
    promised=st.sets(_offsets, max_size=4),
    ranges=_ranges,
)
def test_a_range_settles_what_each_of_its_offsets_would(
    receives: list[tuple[int, str]],
    lanes: list[int],
    returned: set[int],
    promised: set[int],
    ranges: list[list[int]],
) -> None:
    driver = Driver()
    for lane in lanes:
        driver.publish(lane)
    for limit, consumer in receives[:3]:
        driver.receive(limit, consumer)
    # Some come back and are delivered again, so that neighbours differ in their number of deliveries.
    for at in returned:
        back = [RangeSettlement(at, at, Action.NACK)]
        driver.run(SettleHeld(QUEUE, "a", back))
    driver.advance(1_500)
    granted = [one for limit, consumer in receives[3:] for one in driver.receive(limit, consumer)]
    shares = [
        SettleShare(one.lease_id, one.count, Action.ACK, sorted(promised.intersection(offsets_of(one.ranges))))
        for one in granted
    ]
    driver.run(Promise(77, [one for one in shares if one.offsets], 0, 0))
    queue = driver.queue
    expected, taken = [], set[int]()
    for first, last in ranges:
        fresh = _held(queue, "a", first, last) - taken
        expected.append(bool(fresh))
        taken |= fresh
    before = set(queue.outstanding)
    in_flight = queue.in_flight["b"]

    outcomes = driver.run(SettleHeld(QUEUE, "a", [RangeSettlement(first, last, Action.ACK) for first, last in ranges]))

    assert outcomes == expected
    assert set(queue.outstanding) == before - taken
    assert queue.counts["acked"] == len(taken)
    assert queue.in_flight["b"] == in_flight
    live = [hold for hold in queue.outstanding.values() if hold.state is State.LEASED]
    assert queue.in_flight_count == len(live)
    kept = snapshot_of(queue)
    driver.restart()
    assert snapshot_of(driver.queue) == kept


def test_neighbours_of_many_leases_are_settled_as_one_stretch() -> None:
    driver = Driver()
    for _ in range(10):
        driver.publish()
        driver.receive(1, "a")
    changes: Changes = {}

    settle_held(driver.queue, SettleHeld(QUEUE, "a", [RangeSettlement(0, 9, Action.ACK)]), driver.now_ms, changes)

    assert changes[driver.queue] == [Settled([0, 9])]


def test_messages_of_others_between_ones_own_stay_with_them() -> None:
    driver = Driver()
    for consumer in "aab" + "ab":
        driver.publish()
        driver.receive(1, consumer)

    driver.run(SettleHeld(QUEUE, "a", [RangeSettlement(0, 4, Action.ACK)]))

    assert sorted(driver.queue.outstanding) == [2, 4]
    assert driver.queue.in_flight == {"b": 2}
