"""A node that slept, or whose clock was set, has not heard its members: they are not to blame."""

from __future__ import annotations

import pytest
from tests.unit.groups.driver import Bench, FakeTopics

from goqueue.errors import GoQueueError, UnknownMember
from goqueue.groups.commands import DescribeGroup
from goqueue.groups.descriptions import ConsumerDescription

HOUR_MS = 3_600_000


def sleep(bench: Bench, ms: int) -> None:
    """Time passes, and nobody looks at the alarms."""
    bench.now_ms += ms


def test_members_get_the_time_they_had_left() -> None:
    bench = Bench()
    bench.form("a", "b")  # sessions of 10 s
    bench.pass_ms(4_000)
    bench.beat("a", 2)
    sleep(bench, HOUR_MS)
    bench.pass_ms(5_000)
    bench.beat("b", 2)
    bench.pass_ms(5_000)

    with pytest.raises(UnknownMember):
        bench.beat("a", 2)  # it had 10 s left, and now they are over
    with pytest.raises(GoQueueError, match="join again"):
        bench.beat("b", 2)


def test_members_of_the_new_protocol_too_whoever_speaks_first() -> None:
    bench = Bench(FakeTopics(t=2))
    bench.consume("a")
    bench.consume("b")
    sleep(bench, HOUR_MS)

    bench.consume("b", 2)  # comes before the alarm

    bench.pass_ms(20_000)
    bench.consume("a", 1)
    found = bench.ask(DescribeGroup("g"))
    assert isinstance(found, ConsumerDescription)
    assert {one.member_id for one in found.members} == {"a", "b"}


def test_a_revocation_is_put_off_too() -> None:
    bench = Bench(FakeTopics(t=2), session_timeout_ms=1_800_000)
    bench.consume("a")
    bench.consume("b")
    bench.consume("a", 1)
    sleep(bench, HOUR_MS)
    bench.pass_ms(59_999)
    bench.consume("a", 1)
    bench.pass_ms(1)

    with pytest.raises(UnknownMember):
        bench.consume("a", 1)


def test_a_machine_that_is_merely_busy_forgives_nothing() -> None:
    """It has taken steps all the time, so it would have heard."""
    bench = Bench()
    bench.form("a", "b")
    for _ in range(12):
        sleep(bench, 1_000)
        bench.ask(DescribeGroup("g"))
    bench.pass_ms(0)

    with pytest.raises(UnknownMember):
        bench.beat("a", 2)
