"""The lane scheduler: shares by weight, nobody starves, nothing is turned upside down."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from goqueue.delivery.lanes.lane_scheduler import LANES, LaneScheduler
from goqueue.delivery.policy import LANE_WEIGHTS

FULL = [1_000_000] * LANES
CRITICAL, HIGH, NORMAL, LOW, BACKGROUND = range(LANES)


def pick(
    scheduler: LaneScheduler,
    available: list[int],
    limit: int,
    *,
    now_ms: int = 0,
    weights: tuple[int, ...] = LANE_WEIGHTS,
    starvation_ms: int = 30_000,
    strict: bool = False,
) -> list[int]:
    """The lanes of the messages picked, one by one."""
    picks = scheduler.pick(available, limit, now_ms, weights=weights, starvation_ms=starvation_ms, strict=strict)
    return [lane for lane, count in picks for _ in range(count)]


@pytest.mark.parametrize("limit", [1, 3, 7, 10, 100, 1000])
@pytest.mark.parametrize("weights", [LANE_WEIGHTS, (20, 20, 20, 20, 20), (1, 2, 3, 4, 90), (97, 1, 1, 1, 1)])
def test_w13_full_lanes_get_their_shares_within_two_points(limit: int, weights: tuple[int, ...]) -> None:
    scheduler = LaneScheduler()
    served: Counter[int] = Counter()
    while served.total() < 10_000:
        served.update(pick(scheduler, FULL, limit, weights=weights))
    for lane in range(LANES):
        share = 100 * served[lane] / served.total()
        assert abs(share - weights[lane]) <= 2, (lane, share)


def test_r6_13_every_round_looks_at_critical_first() -> None:
    scheduler = LaneScheduler()
    picked = pick(scheduler, FULL, 10_000)
    assert picked[:5] == [CRITICAL] * 5
    rounds = "".join(map(str, picked)).split("0" * 5)
    # Between two visits to critical every other lane is visited at most once, in the order of urgency.
    for between in rounds[1:]:
        assert list(between) == sorted(between)


def test_lanes_without_messages_leave_their_share_to_the_others() -> None:
    scheduler = LaneScheduler()
    served = Counter(pick(scheduler, [0, 10_000, 0, 0, 10_000], 2800))
    assert abs(served[HIGH] / served[BACKGROUND] - 25 / 3) < 0.1


def test_a_lane_that_was_empty_has_saved_nothing_up() -> None:
    scheduler = LaneScheduler()
    pick(scheduler, [0, 0, 1_000_000, 0, 1_000_000], 10_000)
    served = Counter(pick(scheduler, FULL, 100))
    assert abs(served[CRITICAL] - 50) <= 5


def test_a_single_lane_gives_all_it_has() -> None:
    assert pick(LaneScheduler(), [0, 0, 0, 3, 0], 10) == [LOW] * 3


def test_nothing_available_and_nothing_wanted_picks_nothing() -> None:
    scheduler = LaneScheduler()
    assert pick(scheduler, [0] * LANES, 10) == []
    assert pick(scheduler, FULL, 0) == []


def test_strict_priority_serves_a_lane_only_when_the_more_urgent_are_empty() -> None:
    scheduler = LaneScheduler()
    assert pick(scheduler, [2, 0, 3, 1, 9], 8, strict=True) == [0, 0, 2, 2, 2, 3, 4, 4]
    # Not even after a long wait.
    assert pick(scheduler, [2, 0, 3, 1, 9], 1, now_ms=10**9, strict=True) == [0]


def test_r6_15_a_lane_that_waited_too_long_is_served_out_of_turn() -> None:
    scheduler = LaneScheduler()
    available = [100, 0, 0, 0, 100]
    assert pick(scheduler, available, 1) == [CRITICAL]
    assert pick(scheduler, available, 1, now_ms=20_000) == [CRITICAL]
    assert pick(scheduler, available, 1, now_ms=29_999) == [CRITICAL]
    assert pick(scheduler, available, 1, now_ms=30_000) == [BACKGROUND]
    assert pick(scheduler, available, 1, now_ms=30_001) == [CRITICAL]


def test_w14_when_all_lanes_are_old_the_most_urgent_still_comes_first() -> None:
    scheduler = LaneScheduler()
    pick(scheduler, FULL, 1)
    assert pick(scheduler, FULL, 10, now_ms=10**9)[0] == CRITICAL
    # Several lanes that are too old are served in the order of urgency, before the one that is not.
    pick(scheduler, [0, 0, 0, 5, 5], 1, now_ms=2 * 10**9)
    assert pick(scheduler, [0, 5, 0, 5, 5], 3, now_ms=3 * 10**9)[:2] == [LOW, BACKGROUND]


@given(
    st.lists(st.integers(0, 20), min_size=LANES, max_size=LANES),
    st.integers(0, 120),
    st.booleans(),
)
def test_no_more_is_picked_than_there_is_and_all_of_it_if_wanted(
    available: list[int], limit: int, strict: bool
) -> None:
    picked = Counter(pick(LaneScheduler(), available, limit, strict=strict))
    assert picked.total() == min(sum(available), limit)
    assert all(picked[lane] <= available[lane] for lane in range(LANES))


class Lanes(RuleBasedStateMachine):
    """Lanes that fill and empty in any way: what is picked is there, and no lane waits for ever."""

    @initialize()
    def begin(self) -> None:
        self.scheduler = LaneScheduler()
        self.available = [0] * LANES
        self.now_ms = 0
        self.passed_since_ms: list[int | None] = [None] * LANES

    @rule(lane=st.integers(0, 4), count=st.integers(1, 50))
    def fill(self, lane: int, count: int) -> None:
        self.available[lane] += count

    @rule(ms=st.integers(0, 40_000))
    def wait(self, ms: int) -> None:
        self.now_ms += ms

    @rule(limit=st.integers(1, 30))
    def serve(self, limit: int) -> None:
        before = list(self.available)
        picked = pick(self.scheduler, before, limit, now_ms=self.now_ms)
        assert len(picked) == min(sum(before), limit)
        old = [
            lane
            for lane in range(LANES)
            if before[lane]
            and self.passed_since_ms[lane] is not None
            and self.now_ms - (self.passed_since_ms[lane] or 0) >= 30_000
        ]
        waiting = [lane for lane in range(LANES) if before[lane]]
        if len(waiting) > 1 and len(old) < len(waiting):
            assert picked[: len(old)] == old[:limit]
        for lane in range(LANES):
            if lane in picked or not before[lane]:
                self.passed_since_ms[lane] = None
            elif self.passed_since_ms[lane] is None:
                self.passed_since_ms[lane] = self.now_ms
        for lane in picked:
            self.available[lane] -= 1
            assert self.available[lane] >= 0
        for lane in range(LANES):
            # Served, but not empty: it waits again from now on.
            if lane in picked and self.available[lane]:
                self.passed_since_ms[lane] = self.now_ms


TestLanes = Lanes.TestCase
