"""The timer wheel: never early, at most a tick late, cancel means never, on every level."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from goqueue.delay.due.wheel import LEVEL_BUCKETS, RANGE_MS, TICK_MS, TimerWheel

START_MS = 1_700_000_000_003
LEVEL_1_MS = 2_560
LEVEL_2_MS = 163_840
LEVEL_3_MS = 10_485_760
# Below, at and above a tick, and around the boundary of every level.
DELAYS_MS = sorted(
    {0, 1, 9, 10, 11, 19, 20, 21}
    | {
        boundary + step
        for boundary in (LEVEL_1_MS, 2 * LEVEL_1_MS, LEVEL_2_MS, 2 * LEVEL_2_MS, LEVEL_3_MS, 2 * LEVEL_3_MS)
        for step in (-11, -10, -9, -1, 0, 1, 9, 10, 11)
    }
    | {RANGE_MS - step for step in (20, 30, 31)}
)


def fired_by(wheel: TimerWheel, now_ms: int) -> list[int]:
    fired: list[int] = []
    wheel.advance(now_ms, fired.append)
    return fired


def test_published_figures_of_the_levels_are_the_wheels_own():
    ranges_ms = []
    span = TICK_MS
    for buckets in LEVEL_BUCKETS:
        span *= buckets
        ranges_ms.append(span)
    assert ranges_ms == [LEVEL_1_MS, LEVEL_2_MS, LEVEL_3_MS, 671_088_640]
    assert ranges_ms[-1] == RANGE_MS
    assert RANGE_MS // 864_000 == 776  # hundredths of a day: 7.76 days


@pytest.mark.parametrize("delay_ms", DELAYS_MS)
@pytest.mark.parametrize("phase_ms", [0, 1, 7, 9])
def test_a_timer_fires_within_a_tick_after_it_is_due_and_never_before(delay_ms: int, phase_ms: int):
    start_ms = START_MS + phase_ms
    wheel = TimerWheel(start_ms)
    wheel.add(1, start_ms + delay_ms)
    if delay_ms:
        assert fired_by(wheel, start_ms + delay_ms - 1) == []
    assert fired_by(wheel, start_ms + delay_ms + TICK_MS) == [1]
    assert len(wheel) == 0


@pytest.mark.parametrize("delay_ms", [one for one in DELAYS_MS if one < LEVEL_2_MS + 100])
def test_a_timer_fires_in_time_when_the_wheel_turns_tick_by_tick(delay_ms: int):
    wheel = TimerWheel(START_MS)
    wheel.add(1, START_MS + delay_ms)
    for now_ms in range(START_MS, START_MS + delay_ms + 2 * TICK_MS, TICK_MS):
        if fired_by(wheel, now_ms):
            assert delay_ms <= now_ms - START_MS < delay_ms + 2 * TICK_MS
            return
    pytest.fail("it never fired")


def test_a_timer_in_the_past_fires_at_the_next_advance():
    wheel = TimerWheel(START_MS)
    wheel.add(1, START_MS - 5_000)
    assert wheel.next_ms() is not None
    assert fired_by(wheel, START_MS) == [1]


def test_the_position_decides_when_the_clock_jitters():
    """A clock that steps back and forth neither loses a timer nor fires it twice."""
    wheel = TimerWheel(START_MS)
    wheel.add(1, START_MS + 100)
    assert fired_by(wheel, START_MS + 95) == []
    assert fired_by(wheel, START_MS + 40) == []
    assert fired_by(wheel, START_MS + 111) == [1]
    assert fired_by(wheel, START_MS + 90) == []
    assert fired_by(wheel, START_MS + 200) == []


def test_what_is_beyond_the_range_is_refused():
    wheel = TimerWheel(START_MS)
    with pytest.raises(ValueError, match="beyond"):
        wheel.add(1, START_MS + RANGE_MS + TICK_MS)
    assert not wheel.fits(START_MS + RANGE_MS + TICK_MS)


@pytest.mark.parametrize("delay_ms", [15, LEVEL_1_MS + 15, LEVEL_2_MS + 15, LEVEL_3_MS + 15])
def test_cancel_during_a_drain_stops_the_others_and_strands_none(delay_ms: int):
    """While one timer of a bucket fires, another of the same bucket is cancelled, on every level."""
    wheel = TimerWheel(START_MS)
    for timer in range(5):
        wheel.add(timer, START_MS + delay_ms)
    fired: list[int] = []
    answers: list[bool] = []

    def fire(timer: int) -> None:
        fired.append(timer)
        if timer == 1:
            answers.extend([wheel.cancel(1), wheel.cancel(2), wheel.cancel(0)])

    wheel.advance(START_MS + delay_ms + TICK_MS, fire)
    assert fired == [0, 1, 3, 4]
    assert answers == [False, True, False]
    assert len(wheel) == 0
    assert fired_by(wheel, START_MS + 2 * RANGE_MS) == []


@pytest.mark.parametrize("delay_ms", [15, LEVEL_1_MS + 15, LEVEL_2_MS + 15, LEVEL_3_MS + 15])
def test_a_timer_moved_during_a_drain_fires_once_at_its_new_time(delay_ms: int):
    wheel = TimerWheel(START_MS)
    wheel.add(1, START_MS + delay_ms)
    wheel.add(2, START_MS + delay_ms)
    now_ms = START_MS + delay_ms + TICK_MS
    fired: list[int] = []

    def fire(timer: int) -> None:
        fired.append(timer)
        if timer == 1:
            wheel.add(2, now_ms + LEVEL_1_MS)

    wheel.advance(now_ms, fire)
    assert fired == [1]
    assert fired_by(wheel, now_ms + LEVEL_1_MS - 1) == []
    assert fired_by(wheel, now_ms + LEVEL_1_MS + TICK_MS) == [2]


@given(st.lists(st.integers(0, RANGE_MS - 100), max_size=60), st.integers(0, 9))
@settings(max_examples=200, deadline=None)
def test_timers_fire_in_the_order_of_their_ticks(delays_ms: list[int], phase_ms: int):
    start_ms = START_MS + phase_ms
    wheel = TimerWheel(start_ms)
    for timer, delay_ms in enumerate(delays_ms):
        wheel.add(timer, start_ms + delay_ms)
    fired = fired_by(wheel, start_ms + RANGE_MS)
    ticks = [max(-(-(start_ms + delays_ms[timer]) // TICK_MS), start_ms // TICK_MS) for timer in fired]
    assert sorted(fired) == list(range(len(delays_ms)))
    assert ticks == sorted(ticks)


class WheelMachine(RuleBasedStateMachine):
    """The wheel against a dictionary of due times that is searched whole."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = START_MS
        self.wheel = TimerWheel(self.now_ms)
        self.model: dict[int, int] = {}
        self.next_timer = 0

    delays = st.one_of(
        st.integers(-50, 60),
        st.sampled_from(DELAYS_MS),
        st.integers(0, 10 * LEVEL_1_MS),
        st.integers(0, RANGE_MS - 100),
    )

    @rule(delay_ms=delays)
    def add(self, delay_ms: int) -> None:
        if self.wheel.fits(self.now_ms + delay_ms):
            self.wheel.add(self.next_timer, self.now_ms + delay_ms)
            self.model[self.next_timer] = self.now_ms + delay_ms
            self.next_timer += 1

    @rule(timer=st.integers(0, 50), delay_ms=delays)
    def move(self, timer: int, delay_ms: int) -> None:
        if timer in self.model and self.wheel.fits(self.now_ms + delay_ms):
            self.wheel.add(timer, self.now_ms + delay_ms)
            self.model[timer] = self.now_ms + delay_ms

    @rule(timer=st.integers(0, 50))
    def cancel(self, timer: int) -> None:
        assert self.wheel.cancel(timer) == (self.model.pop(timer, None) is not None)

    @rule(step_ms=delays, victim=st.integers(0, 50))
    def advance(self, step_ms: int, victim: int) -> None:
        self.now_ms += max(0, step_ms)
        reached_ms = self.now_ms // TICK_MS * TICK_MS

        def fire(timer: int) -> None:
            due_ms = self.model.pop(timer)
            assert due_ms <= self.now_ms, "early"
            assert self.wheel.cancel(victim) == (self.model.pop(victim, None) is not None)

        self.wheel.advance(self.now_ms, fire)
        late = [timer for timer, due_ms in self.model.items() if due_ms <= reached_ms]
        assert late == []

    @invariant()
    def agrees(self) -> None:
        assert len(self.wheel) == len(self.model)
        next_ms = self.wheel.next_ms()
        assert (next_ms is None) == (not self.model and not any(self.wheel._occupied))
        if self.model and next_ms is not None:
            earliest_ms = max(min(self.model.values()), self.now_ms)
            assert next_ms <= earliest_ms + TICK_MS


TestWheelAgainstModel = WheelMachine.TestCase
TestWheelAgainstModel.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
