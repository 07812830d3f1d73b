"""Shared queue groups: every member may take messages of every partition of its topics."""

from __future__ import annotations

import pytest
from tests.unit.groups.driver import Bench, FakeTopics

from goqueue.errors import (
    FencedMemberEpoch,
    GroupFull,
    GroupModeMismatch,
    GroupNotEmpty,
    InconsistentProtocol,
    InvalidRegex,
    InvalidRequest,
    UnknownMember,
)
from goqueue.groups.commands import (
    AlterQueue,
    ConsumerBeat,
    DeleteGroup,
    DescribeGroup,
    FinishDeletion,
    LeaveGroup,
    Leaver,
    ListGroups,
    UseQueue,
)
from goqueue.groups.descriptions import ConsumerDescription, GroupState, GroupType
from goqueue.groups.queue.settings import AsQueue, Mode, Sharing

SHARED = AsQueue(Sharing.SHARED)


def share(bench: Bench, member_id: str, epoch: int = 0, **more: object) -> ConsumerBeat:
    settings: dict[str, object] = {"as_queue": SHARED, "is_share": True}
    if epoch == 0:
        settings["topics"] = ("t",)
    return bench.consume(member_id, epoch, **{**settings, **more})


def described(bench: Bench, group: str = "g") -> ConsumerDescription:
    found = bench.ask(DescribeGroup(group))
    assert isinstance(found, ConsumerDescription)
    return found


def test_members_share_all_partitions() -> None:
    bench = Bench()

    first, second = share(bench, "a"), share(bench, "b")

    assert first.assignment == second.assignment == bench.topics.partitions("t")
    assert (first.member_epoch, second.member_epoch) == (1, 2)
    assert share(bench, "a", 1) == ConsumerBeat("a", 2, bench.config.heartbeat_interval_ms)
    bench.check_replay()


def test_more_members_than_partitions_all_have_work() -> None:
    bench = Bench(FakeTopics(t=1))

    beats = [share(bench, f"m{n}") for n in range(5)]

    assert {beat.assignment for beat in beats} == {bench.topics.partitions("t")}


def test_a_member_is_told_of_new_partitions_and_topics_and_of_no_more() -> None:
    bench = Bench(FakeTopics(t=1))
    share(bench, "a", topics=("t", "u"))

    bench.topics.grow("t", 2)
    bench.topics.create("u", 1)
    beat = share(bench, "a", 1)

    assert beat.assignment == bench.topics.partitions("t") | bench.topics.partitions("u")
    assert beat.member_epoch == 2
    assert share(bench, "a", 2).assignment is None
    bench.topics.delete("u")
    assert share(bench, "a", 2).assignment == bench.topics.partitions("t")


def test_a_subscription_changes_with_a_heartbeat() -> None:
    bench = Bench(FakeTopics(t=1, u=2))
    share(bench, "a")

    beat = share(bench, "a", 1, topics=("u",))

    assert beat.assignment == bench.topics.partitions("u")
    assert described(bench).members[0].topics == ("u",)
    bench.check_replay()


def test_a_pattern_of_an_http_member_is_kept_up_to_date() -> None:
    bench = Bench(FakeTopics(jobs_a=1))
    beat = share(bench, "a", topics=(), regex="jobs_.*")

    bench.topics.create("jobs_b", 1)

    assert beat.assignment == bench.topics.partitions("jobs_a")
    assert share(bench, "a", 1).assignment == bench.topics.partitions("jobs_a") | bench.topics.partitions("jobs_b")
    with pytest.raises(InvalidRegex):
        share(bench, "b", regex="(")


def test_members_of_other_protocols_are_in_the_same_group() -> None:
    """An HTTP member joins cooperatively, one from Kafka by the share protocol, and one beats eagerly."""
    bench = Bench()
    share(bench, "kafka")
    bench.consume("cooperative", as_queue=AsQueue())

    bench.beat("cooperative", 2)
    bench.consume("cooperative", 2)

    assert [one.member_id for one in described(bench).members] == ["kafka", "cooperative"]
    with pytest.raises(InconsistentProtocol):
        bench.form("eager", as_queue=AsQueue())
    with pytest.raises(UnknownMember):
        bench.beat("stranger", 1)
    bench.ask(LeaveGroup("g", (Leaver("cooperative"), Leaver("stranger"))))
    assert [one.member_id for one in described(bench).members] == ["kafka"]


def test_a_member_that_is_not_heard_of_is_out() -> None:
    bench = Bench()
    share(bench, "a")
    share(bench, "b")

    bench.pass_ms(20_000)
    share(bench, "b", 1)
    bench.pass_ms(20_000)

    assert bench.departed == [("g", "a")]
    assert [one.member_id for one in described(bench).members] == ["b"]
    with pytest.raises(UnknownMember):
        share(bench, "a", 1)
    bench.check_replay()


def test_a_member_that_leaves_is_out_at_once() -> None:
    bench = Bench()
    share(bench, "a")

    assert share(bench, "a", -1).member_epoch == -1

    assert bench.departed == [("g", "a")]
    assert described(bench).state is GroupState.EMPTY
    with pytest.raises(UnknownMember):
        share(bench, "a", -1)


def test_members_outlive_a_restart_of_the_broker() -> None:
    bench = Bench()
    share(bench, "a")
    share(bench, "b")

    bench.restart(compacted=True)

    assert share(bench, "a", 1).assignment == bench.topics.partitions("t")
    bench.pass_ms(31_000)
    assert sorted(bench.departed) == [("g", "a"), ("g", "b")]


def test_an_epoch_that_was_never_given_is_fenced() -> None:
    bench = Bench()
    share(bench, "a")

    with pytest.raises(FencedMemberEpoch):
        share(bench, "a", 7)


def test_a_group_has_as_many_members_as_it_may() -> None:
    bench = Bench(members_max=1)
    share(bench, "a")

    with pytest.raises(GroupFull):
        share(bench, "b")
    share(bench, "a")


@pytest.mark.parametrize(
    ("member_id", "epoch", "more"),
    [
        ("", 0, {}),
        ("a", -2, {}),
        ("a", 0, {"topics": ()}),
        ("a", 0, {"topics": ("x" * 2**20, "y")}),
    ],
    ids=["no id", "no such epoch", "no subscription", "endless names"],
)
def test_a_heartbeat_must_say_what_it_must(member_id: str, epoch: int, more: dict[str, object]) -> None:
    bench = Bench()

    with pytest.raises(InvalidRequest):
        share(bench, member_id, epoch, **more)

    assert bench.log == []
    assert bench.ask(ListGroups()) == ()


def test_an_exclusive_group_is_not_shared() -> None:
    bench = Bench()
    bench.form("h", as_queue=AsQueue())

    with pytest.raises(GroupModeMismatch, match="exclusive"):
        share(bench, "a")


def test_a_stream_group_is_no_share_group() -> None:
    bench = Bench()
    bench.form("k")

    with pytest.raises(GroupModeMismatch):
        share(bench, "a")
    with pytest.raises(UnknownMember):
        share(bench, "a", 1)


def test_a_share_group_is_listed_as_one() -> None:
    bench = Bench()
    bench.ask(UseQueue("received from", AsQueue()))
    share(bench, "a")

    listed = {one.group: (one.type, one.state, one.mode) for one in bench.ask(ListGroups())}  # type: ignore[attr-defined]

    assert listed == {
        "g": (GroupType.SHARE, GroupState.STABLE, Mode.QUEUE),
        "received from": (GroupType.SHARE, GroupState.EMPTY, Mode.QUEUE),
    }
    assert described(bench).type is GroupType.SHARE
    assert described(bench, "received from").members == ()


def test_an_empty_group_changes_how_it_is_shared() -> None:
    bench = Bench()
    share(bench, "a")
    with pytest.raises(GroupNotEmpty):
        bench.ask(AlterQueue("g", {"sharing": "exclusive"}))
    share(bench, "a", -1)

    bench.ask(AlterQueue("g", {"sharing": "exclusive"}))
    bench.form("eager", as_queue=AsQueue())
    bench.check_replay()
    bench.ask(LeaveGroup("g", (Leaver("eager"),)))
    bench.consume("cooperative", as_queue=AsQueue())
    bench.consume("cooperative", -1)
    bench.ask(AlterQueue("g", {"sharing": "shared"}))
    share(bench, "b")

    assert [one.member_id for one in described(bench).members] == ["b"]
    bench.check_replay()


def test_a_deleted_group_leaves_nothing_behind() -> None:
    bench = Bench()
    share(bench, "a")
    with pytest.raises(GroupNotEmpty):
        bench.ask(DeleteGroup("g"))
    share(bench, "a", -1)

    bench.ask(DeleteGroup("g"))
    bench.ask(FinishDeletion("g"))

    bench.check_replay()
    assert bench.ask(ListGroups()) == ()
    bench.restart(compacted=True)
    bench.form("k")
