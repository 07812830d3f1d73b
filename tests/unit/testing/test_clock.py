"""Time that a test owns."""

from __future__ import annotations

import pytest

from goqueue.clock import Clock, Rng
from goqueue.testing.clock import ManualClock, seeded_rng


def test_time_stands_still_until_it_is_advanced() -> None:
    clock: Clock = (manual := ManualClock(now_ms=1_000))
    manual.advance(ms=5, seconds=2, days=1)
    assert clock.now_ms() == 1_000 + 5 + 2_000 + 86_400_000
    assert clock.monotonic_ms() == 86_402_005


def test_the_wall_clock_can_jump_and_monotonic_time_cannot() -> None:
    clock = ManualClock(now_ms=1_000)
    clock.jump(ms=-400)
    assert (clock.now_ms(), clock.monotonic_ms()) == (600, 0)
    with pytest.raises(ValueError, match="backwards"):
        clock.advance(ms=-1)
    clock.advance_to_monotonic_ns(7_000_000)
    clock.advance_to_monotonic_ns(3_000_000)
    assert (clock.now_ms(), clock.monotonic_ms()) == (607, 7)


def test_one_seed_repeats_itself_for_each_purpose_and_purposes_differ() -> None:
    first: Rng = seeded_rng(7, "disk")
    assert first.random() == seeded_rng(7, "disk").random()
    assert seeded_rng(7, "disk").getrandbits(64) != seeded_rng(7, "order").getrandbits(64)
