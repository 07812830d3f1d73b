"""A group id belongs to one protocol at a time; an empty group may change it."""

from __future__ import annotations

import pytest
from tests.unit.groups.driver import Bench

from goqueue.errors import GroupNotFound, InconsistentProtocol, UnknownMember
from goqueue.groups.commands import (
    CommitOffsets,
    DescribeGroup,
    FetchOffsets,
    LeaveGroup,
    Leaver,
    OffsetToCommit,
)
from goqueue.groups.descriptions import ClassicDescription, ConsumerDescription


def test_a_classic_group_with_members_is_no_group_of_the_new_protocol() -> None:
    bench = Bench()
    bench.form("a")

    with pytest.raises(GroupNotFound):
        bench.consume("b")
    bench.beat("a", 1)


def test_a_group_of_the_new_protocol_with_members_is_not_joined_the_classic_way() -> None:
    bench = Bench()
    bench.consume("a")

    with pytest.raises(InconsistentProtocol):
        bench.answer(bench.newcomer("b"))
    with pytest.raises(UnknownMember):
        bench.beat("a", 1)
    with pytest.raises(UnknownMember):
        bench.answer(bench.sync("a", 1))
    bench.consume("a", 1)


def test_an_empty_classic_group_is_taken_over_with_its_offsets() -> None:
    bench = Bench()
    bench.form("a")
    shape = bench.topics.shape("t")
    assert shape is not None
    bench.ask(CommitOffsets("g", (OffsetToCommit("t", shape.topic_id, 0, 5),), "a", 1))
    bench.ask(LeaveGroup("g", (Leaver("a"),)))

    bench.consume("b")

    assert isinstance(bench.ask(DescribeGroup("g")), ConsumerDescription)
    assert len(bench.ask(FetchOffsets("g"))) == 1  # type: ignore[arg-type]
    bench.check_replay()
    bench.restart(compacted=True)
    bench.consume("b", 1)


def test_an_empty_group_of_the_new_protocol_is_taken_over_with_its_offsets() -> None:
    bench = Bench()
    bench.consume("a")
    shape = bench.topics.shape("t")
    assert shape is not None
    bench.ask(CommitOffsets("g", (OffsetToCommit("t", shape.topic_id, 0, 5),), "a", 1))
    bench.consume("a", -1)

    bench.form("b")

    assert isinstance(bench.ask(DescribeGroup("g")), ClassicDescription)
    assert len(bench.ask(FetchOffsets("g"))) == 1  # type: ignore[arg-type]
    bench.check_replay()
    bench.restart(compacted=True)
    bench.beat("b", 1)


def test_a_newcomer_with_an_id_in_hand_does_not_stop_a_takeover() -> None:
    bench = Bench()
    bench.newcomer("a", id_required=True)

    bench.consume("b")

    with pytest.raises(InconsistentProtocol):
        bench.answer(bench.join("a", id_required=True))
    bench.pass_ms(29_999)
    bench.consume("b", 1)


def test_a_refused_takeover_leaves_the_group_as_it_was() -> None:
    bench = Bench()
    bench.form("a")
    bench.ask(LeaveGroup("g", (Leaver("a"),)))
    written = len(bench.log)

    with pytest.raises(GroupNotFound):
        bench.consume("b", 3)

    assert len(bench.log) == written
    assert isinstance(bench.ask(DescribeGroup("g")), ClassicDescription)
