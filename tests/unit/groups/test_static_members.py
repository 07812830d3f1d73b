"""Static members of classic groups (KIP-345, KIP-814): a restart is not a rebalance."""

from __future__ import annotations

import pytest
from tests.unit.groups.driver import Bench

from goqueue.errors import FencedInstance, RebalanceInProgress, UnknownMember
from goqueue.groups.commands import DescribeGroup, LeaveGroup, Leaver, Synced
from goqueue.groups.descriptions import ClassicDescription, GroupState


def stable(bench: Bench) -> bool:
    described = bench.ask(DescribeGroup("g"))
    assert isinstance(described, ClassicDescription)
    return described.state is GroupState.STABLE


def formed() -> Bench:
    """A stable generation of static members a-1 (leading) and b-1."""
    bench = Bench()
    bench.newcomer("a-1", instance_id="a")
    bench.newcomer("b-1", instance_id="b")
    bench.join("a-1", instance_id="a")
    bench.sync("b-1", 2, instance_id="b")
    bench.sync("a-1", 2, {"a-1": b"A", "b-1": b"B"}, instance_id="a")
    assert stable(bench)
    return bench


def test_a_static_member_that_returns_gets_its_assignment_without_a_rebalance() -> None:
    bench = formed()

    joined = bench.joined(bench.newcomer("b-2", instance_id="b"))

    assert (joined.generation, joined.leader, joined.skip_assignment) == (2, "a-1", False)
    assert bench.answer(bench.sync("b-2", 2, instance_id="b")) == Synced("consumer", "range", b"B")
    assert stable(bench)
    bench.beat("a-1", 2, instance_id="a")


def test_its_former_self_is_fenced_everywhere() -> None:
    bench = formed()
    bench.newcomer("b-2", instance_id="b")

    with pytest.raises(FencedInstance):
        bench.beat("b-1", 2, instance_id="b")
    with pytest.raises(FencedInstance):
        bench.answer(bench.sync("b-1", 2, instance_id="b"))
    with pytest.raises(FencedInstance):
        bench.answer(bench.join("b-1", instance_id="b"))
    with pytest.raises(UnknownMember):
        bench.beat("b-1", 2)


def test_a_static_leader_returns_and_may_skip_the_assignment() -> None:
    bench = formed()

    joined = bench.joined(bench.newcomer("a-2", instance_id="a"))

    assert (joined.leader, joined.skip_assignment) == ("a-2", True)
    assert [one.member_id for one in joined.members] == ["a-2", "b-1"]
    assert bench.answer(bench.sync("a-2", 2, instance_id="a")) == Synced("consumer", "range", b"A")


def test_an_older_client_that_returns_as_leader_is_told_of_its_former_self() -> None:
    """It would otherwise assign anew to members that do not listen."""
    bench = formed()

    joined = bench.joined(bench.newcomer("a-2", instance_id="a", can_skip_assignment=False))

    assert (joined.leader, joined.members) == ("a-1", ())


def test_a_static_member_with_another_subscription_starts_a_rebalance() -> None:
    bench = formed()

    assert bench.waits(bench.newcomer("b-2", instance_id="b", topics=["t", "u"]))
    with pytest.raises(RebalanceInProgress):
        bench.beat("a-1", 2, instance_id="a")


def test_a_static_member_does_not_leave_by_missing_a_rebalance() -> None:
    bench = formed()
    waiting = bench.newcomer("c")
    bench.join("a-1", instance_id="a", session_timeout_ms=100_000)
    for _ in range(10):  # b-1 only says that it is alive
        bench.pass_ms(6_000)
        if bench.waits(waiting):
            with pytest.raises(RebalanceInProgress):
                bench.beat("b-1", 2, instance_id="b")

    assert bench.joined(waiting).generation == 3
    described = bench.ask(DescribeGroup("g"))
    assert isinstance(described, ClassicDescription)
    assert [one.member_id for one in described.members] == ["a-1", "b-1", "c"]


def test_a_static_member_leaves_when_its_session_ends() -> None:
    bench = formed()
    bench.pass_ms(5_000)
    bench.beat("a-1", 2, instance_id="a")
    bench.pass_ms(5_001)

    with pytest.raises(RebalanceInProgress):
        bench.beat("a-1", 2, instance_id="a")
    with pytest.raises(UnknownMember):
        bench.beat("b-1", 2, instance_id="b")


def test_an_administrator_removes_a_static_member_by_instance_alone() -> None:
    bench = formed()

    assert bench.ask(LeaveGroup("g", (Leaver("", "b"),))) == (None,)

    with pytest.raises(UnknownMember):
        bench.beat("b-1", 2, instance_id="b")


def test_a_replacement_survives_a_restart() -> None:
    bench = formed()
    bench.newcomer("b-2", instance_id="b")

    bench.restart()

    bench.beat("b-2", 2, instance_id="b")
    with pytest.raises(FencedInstance):
        bench.beat("b-1", 2, instance_id="b")


def test_a_return_during_a_rebalance_joins_it() -> None:
    bench = formed()
    bench.newcomer("c")
    lost = bench.join("b-1", instance_id="b")
    back = bench.newcomer("b-2", instance_id="b")
    leader = bench.join("a-1", instance_id="a")

    with pytest.raises(FencedInstance):
        bench.answer(lost)
    assert bench.joined(back).generation == bench.joined(leader).generation == 3


def test_a_return_between_join_and_sync_forms_a_new_generation() -> None:
    """The leader may be assigning to the id that is no more."""
    bench = formed()
    bench.join("a-1", instance_id="a")
    bench.join("b-1", instance_id="b")
    waiting = bench.sync("b-1", 3, instance_id="b")
    back = bench.newcomer("b-2", instance_id="b")

    with pytest.raises(FencedInstance):
        bench.answer(waiting)
    assert bench.waits(back)
    bench.join("a-1", instance_id="a")
    assert bench.joined(back).generation == 4
