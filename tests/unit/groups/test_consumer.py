"""The new protocol (KIP-848), heartbeat by heartbeat."""

from __future__ import annotations

import pytest
from tests.unit.groups.driver import Bench, FakeTopics

from goqueue.errors import (
    FencedInstance,
    FencedMemberEpoch,
    GroupFull,
    GroupNotFound,
    InvalidRegex,
    InvalidRequest,
    StaleMemberEpoch,
    UnknownMember,
    UnreleasedInstance,
    UnsupportedAssignor,
)
from goqueue.groups.commands import (
    CommitOffsets,
    DescribeGroup,
    FetchOffsets,
    LeaveGroup,
    Leaver,
    OffsetToCommit,
    RebalanceState,
)
from goqueue.groups.descriptions import ConsumerDescription, GroupState

NOTHING: frozenset[object] = frozenset()


def described(bench: Bench) -> ConsumerDescription:
    found = bench.ask(DescribeGroup("g"))
    assert isinstance(found, ConsumerDescription)
    return found


def commit(bench: Bench, member_id: str, epoch: int) -> object:
    shape = bench.topics.shape("t")
    assert shape is not None
    return bench.ask(CommitOffsets("g", (OffsetToCommit("t", shape.topic_id, 0, 7),), member_id, epoch))


# --- joining and moving -----------------------------------------------------------------


def test_a_first_member_gets_everything_at_once() -> None:
    bench = Bench(FakeTopics(t=3))

    beat = bench.consume("a")

    assert (beat.member_epoch, beat.heartbeat_interval_ms) == (1, 3_000)
    assert beat.assignment == bench.topics.partitions("t")
    assert described(bench).state is GroupState.STABLE


def test_partitions_are_revoked_first_and_assigned_only_when_given_up() -> None:
    """At no moment do two members own a partition."""
    bench = Bench(FakeTopics(t=4))
    t = bench.topics.partitions
    bench.consume("a")

    waiting = bench.consume("b")
    assert (waiting.member_epoch, waiting.assignment, waiting.state) == (2, NOTHING, RebalanceState.PENDING_ASSIGN)
    assert described(bench).state is GroupState.RECONCILING

    asked = bench.consume("a", 1)
    assert (asked.member_epoch, asked.assignment, asked.revoking) == (1, t("t", 0, 1), t("t", 2, 3))
    assert asked.state is RebalanceState.PENDING_REVOKE
    assert asked.revoke_before_ms == bench.now_ms + 60_000
    assert bench.consume("b", 2).assignment is None, "b must still wait"

    confirmed = bench.consume("a", 1, owned=t("t", 0, 1))
    assert (confirmed.member_epoch, confirmed.assignment) == (2, None)

    given = bench.consume("b", 2)
    assert (given.member_epoch, given.assignment, given.state) == (2, t("t", 2, 3), RebalanceState.COMPLETE)
    assert described(bench).state is GroupState.STABLE


def test_a_member_that_has_already_let_go_moves_in_one_step() -> None:
    bench = Bench(FakeTopics(t=2))
    bench.consume("a")
    bench.consume("b")

    beat = bench.consume("a", 1, owned=NOTHING)

    assert (beat.member_epoch, beat.assignment) == (2, bench.topics.partitions("t", 0))


def test_what_does_not_move_is_never_interrupted() -> None:
    """Partitions that stay are in every assignment from the old one to the new."""
    bench = Bench(FakeTopics(t=6))
    t = bench.topics.partitions
    bench.consume("a")
    bench.consume("b")
    staying = t("t", 0, 1, 2)

    during = bench.consume("a", 1)
    after = bench.consume("a", 1, owned=staying, topics=("t",), rebalance_timeout_ms=300_000)

    assert staying == during.assignment == after.assignment


def test_a_quiet_heartbeat_writes_nothing_and_says_nothing() -> None:
    bench = Bench()
    bench.consume("a")
    written = len(bench.log)

    beat = bench.consume("a", 1)

    assert len(bench.log) == written
    assert (beat.assignment, beat.member_epoch, beat.state) == (None, 1, RebalanceState.NONE)


def test_a_full_heartbeat_is_told_everything_again() -> None:
    bench = Bench()
    first = bench.consume("a")

    again = bench.consume("a", 1, topics=("t",), rebalance_timeout_ms=300_000, owned=NOTHING)

    assert again.assignment == first.assignment


def test_a_member_that_leaves_frees_its_partitions_at_once() -> None:
    bench = Bench(FakeTopics(t=2))
    bench.consume("a")
    bench.consume("b")
    bench.consume("a", 1, owned=bench.topics.partitions("t", 0))
    bench.consume("b", 2)

    left = bench.consume("a", -1)

    assert left.member_epoch == -1
    beat = bench.consume("b", 2)
    assert (beat.member_epoch, beat.assignment) == (3, bench.topics.partitions("t"))


def test_when_the_last_member_leaves_the_group_is_empty() -> None:
    bench = Bench()
    bench.consume("a")
    bench.consume("a", -1)

    assert described(bench).state is GroupState.EMPTY
    assert bench.consume("b").member_epoch == 3, "epochs only rise"


def test_an_administrator_takes_members_out() -> None:
    bench = Bench()
    bench.consume("a")
    bench.consume("b", instance_id="i")

    outcomes = bench.ask(LeaveGroup("g", (Leaver("a"), Leaver("", "i"), Leaver("nobody"))))

    assert [type(one) for one in outcomes] == [type(None), type(None), UnknownMember]  # type: ignore[attr-defined]
    assert described(bench).state is GroupState.EMPTY


# --- fencing ----------------------------------------------------------------------------


def test_an_epoch_that_is_not_the_members_own_is_fenced() -> None:
    bench = Bench()
    bench.consume("a")
    for epoch in (2, 5):
        with pytest.raises(FencedMemberEpoch):
            bench.consume("a", epoch)
    with pytest.raises(UnknownMember):
        bench.consume("b", 1)


def test_the_epoch_before_is_accepted_if_our_answer_was_lost() -> None:
    bench = Bench(FakeTopics(t=2))
    bench.consume("a")
    bench.consume("b")
    bench.consume("a", 1, owned=bench.topics.partitions("t", 0))  # answered with epoch 2, which is lost

    again = bench.consume("a", 1, owned=bench.topics.partitions("t", 0))

    assert again.member_epoch == 2
    with pytest.raises(FencedMemberEpoch):
        bench.consume("a", 1, owned=bench.topics.partitions("t"))
    with pytest.raises(FencedMemberEpoch):
        bench.consume("a", 1)


def test_a_fenced_member_may_join_again_under_its_id() -> None:
    bench = Bench()
    first = bench.consume("a")

    assert bench.consume("a").assignment == first.assignment
    assert described(bench).epoch == 1


def test_who_does_not_revoke_in_time_is_out_and_cannot_commit() -> None:
    """Forced revocation fences the old owner."""
    bench = Bench(FakeTopics(t=2), session_timeout_ms=1_000_000)
    bench.consume("a")
    bench.consume("b")
    bench.consume("a", 1)  # is told to revoke, and never does
    bench.pass_ms(59_999)
    assert commit(bench, "a", 1) == (None,)

    bench.pass_ms(1)

    with pytest.raises(UnknownMember):
        bench.consume("a", 1)
    with pytest.raises(UnknownMember):
        commit(bench, "a", 1)
    assert bench.consume("b", 2).assignment == bench.topics.partitions("t")
    counts = bench.rebalances.of("g")
    # It belongs to the rebalance that was under way, which is counted by its own reason.
    assert (counts.revocation_timeouts, counts.by_reason.total()) == (1, counts.started)


def test_heartbeats_do_not_put_the_revocation_off() -> None:
    bench = Bench(FakeTopics(t=2))
    bench.consume("a")
    bench.consume("b")
    for _ in range(6):
        bench.consume("a", 1)
        bench.consume("b", 2)
        bench.pass_ms(10_000)

    with pytest.raises(UnknownMember):
        bench.consume("a", 1)


def test_a_shorter_patience_of_the_member_counts() -> None:
    bench = Bench(FakeTopics(t=2))
    bench.consume("a", rebalance_timeout_ms=5_000)
    bench.consume("b")
    bench.consume("a", 1)
    bench.pass_ms(5_000)

    with pytest.raises(UnknownMember):
        bench.consume("a", 1)


def test_a_member_that_falls_silent_is_out() -> None:
    bench = Bench(FakeTopics(t=2))
    bench.consume("a")
    bench.consume("b")
    bench.consume("a", 1, owned=bench.topics.partitions("t", 0))
    bench.pass_ms(20_000)
    bench.consume("b", 2)
    bench.pass_ms(10_000)

    beat = bench.consume("b", 2)

    assert (beat.member_epoch, beat.assignment) == (3, bench.topics.partitions("t"))
    with pytest.raises(UnknownMember):
        bench.consume("a", 2)


def test_members_that_fall_silent_together_leave_together() -> None:
    bench = Bench(FakeTopics(t=4))
    for member in "abcd":
        bench.consume(member)
    bench.pass_ms(15_000)
    bench.consume("d", 4)
    bench.pass_ms(15_000)

    beat = bench.consume("d", 4)

    assert [one.member_id for one in described(bench).members] == ["d"]
    assert (beat.member_epoch, beat.assignment) == (5, bench.topics.partitions("t"))
    bench.check_replay()


def test_commits_and_reads_of_members_are_at_their_epoch() -> None:
    bench = Bench()
    bench.consume("a")

    with pytest.raises(StaleMemberEpoch):
        commit(bench, "a", 0)
    with pytest.raises(UnknownMember):
        commit(bench, "stranger", 1)
    with pytest.raises(UnknownMember):
        commit(bench, "", -1)
    assert commit(bench, "a", 1) == (None,)
    with pytest.raises(StaleMemberEpoch):
        bench.ask(FetchOffsets("g", None, "a", 2))
    assert len(bench.ask(FetchOffsets("g", None, "a", 1))) == 1  # type: ignore[arg-type]
    assert len(bench.ask(FetchOffsets("g"))) == 1  # type: ignore[arg-type]


# --- static members ---------------------------------------------------------------------


def test_a_static_member_that_returns_gets_what_it_had_and_nobody_moves() -> None:
    bench = Bench(FakeTopics(t=4))
    bench.consume("a-1", instance_id="a")
    bench.consume("b")
    bench.consume("a-1", 1, owned=bench.topics.partitions("t", 0, 1))
    bench.consume("b", 2)
    epoch = described(bench).epoch

    bench.consume("a-1", -2, instance_id="a")
    bench.pass_ms(10_000)
    bench.consume("b", 2)
    back = bench.consume("a-2", instance_id="a")

    assert back.assignment == bench.topics.partitions("t", 0, 1)
    assert described(bench).epoch == back.member_epoch == epoch
    assert described(bench).state is GroupState.STABLE
    with pytest.raises(FencedInstance):
        bench.consume("a-1", 2, instance_id="a")
    bench.check_replay()


def test_a_static_member_that_does_not_return_in_time_is_out() -> None:
    bench = Bench()
    bench.consume("a-1", instance_id="a")
    bench.consume("a-1", -2, instance_id="a")
    bench.pass_ms(30_000)

    assert described(bench).state is GroupState.EMPTY


def test_an_instance_that_is_in_use_is_not_released() -> None:
    bench = Bench()
    bench.consume("a-1", instance_id="a")

    with pytest.raises(UnreleasedInstance):
        bench.consume("a-2", instance_id="a")
    assert bench.consume("a-1", instance_id="a").member_epoch == 1, "itself it may of course replace"


def test_a_refused_return_does_not_end_the_wait_for_the_member() -> None:
    bench = Bench()
    bench.consume("a-1", instance_id="a")
    bench.consume("a-1", -2, instance_id="a")

    with pytest.raises(InvalidRegex):
        bench.consume("a-2", instance_id="a", regex="(")
    bench.pass_ms(30_000)

    assert described(bench).state is GroupState.EMPTY


# --- subscriptions and topics -----------------------------------------------------------


def test_a_pattern_is_evaluated_here_and_follows_new_topics() -> None:
    bench = Bench(FakeTopics(**{"orders-eu": 1, "orders-us": 1, "other": 1}))
    t = bench.topics.partitions
    first = bench.consume("a", topics=None, regex="orders-.*")
    assert first.assignment == t("orders-eu") | t("orders-us")

    bench.topics.create("orders-asia", 2)
    beat = bench.consume("a", 1)

    assert (beat.member_epoch, beat.assignment) == (2, t("orders-eu") | t("orders-us") | t("orders-asia"))
    assert bench.rebalances.of("g").by_reason["topics_changed"] == 1  # type: ignore[index]


def test_new_partitions_are_handed_out() -> None:
    bench = Bench(FakeTopics(t=1))
    bench.consume("a")
    bench.topics.grow("t", 3)

    assert bench.consume("a", 1).assignment == bench.topics.partitions("t", 0, 1, 2)


def test_a_topic_that_was_deleted_is_taken_away_and_its_successor_is_another() -> None:
    bench = Bench(FakeTopics(t=2, u=1))
    first = bench.consume("a", topics=("t", "u"))
    old = bench.topics.partitions("t")
    bench.topics.delete("t")
    kept = bench.topics.partitions("u")
    assert bench.consume("a", 1).assignment == kept

    bench.consume("a", 1, owned=kept)
    bench.topics.create("t", 2)
    last = bench.consume("a", 2)

    assert first.assignment == old | kept
    assert last.assignment == bench.topics.partitions("t") | kept
    assert old.isdisjoint(last.assignment or ())


def test_a_topic_that_nobody_reads_changes_nothing() -> None:
    bench = Bench()
    bench.consume("a")
    bench.topics.create("other", 5)
    written = len(bench.log)

    assert bench.consume("a", 1).member_epoch == 1
    assert len(bench.log) == written


def test_a_topic_that_comes_later_is_assigned_when_it_is_there() -> None:
    bench = Bench(FakeTopics())
    assert bench.consume("a").assignment == NOTHING
    bench.topics.create("t", 2)

    assert bench.consume("a", 1).assignment == bench.topics.partitions("t")


def test_topics_that_changed_while_the_broker_was_down_are_noticed() -> None:
    bench = Bench(FakeTopics(t=1))
    bench.consume("a")
    bench.topics.grow("t", 2)
    bench.restart()

    assert bench.consume("a", 1).assignment == bench.topics.partitions("t", 0, 1)


def test_a_member_may_change_its_subscription() -> None:
    bench = Bench(FakeTopics(t=1, u=1))
    bench.consume("a")

    beat = bench.consume("a", 1, topics=("u",), owned=bench.topics.partitions("t"))
    assert (beat.member_epoch, beat.assignment) == (1, NOTHING)
    beat = bench.consume("a", 1, owned=NOTHING)

    assert (beat.member_epoch, beat.assignment) == (2, bench.topics.partitions("u"))


def test_the_assignor_that_most_ask_for_is_used() -> None:
    bench = Bench(FakeTopics(t=4))
    bench.consume("a", assignor="range")
    bench.consume("b", assignor="range")
    bench.consume("c", assignor="uniform")

    assert described(bench).assignor == "range"


# --- what is refused --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        ({"assignor": "magic"}, UnsupportedAssignor),
        ({"regex": "(a"}, InvalidRegex),
        ({"topics": ("x" * (1024 * 1024 + 1),)}, InvalidRequest),
        ({"topics": None}, InvalidRequest),
        ({"rebalance_timeout_ms": None}, InvalidRequest),
        ({"owned": FakeTopics(t=1).partitions("t")}, InvalidRequest),
        ({"epoch": -3}, InvalidRequest),
        ({"epoch": -2}, InvalidRequest),
        ({"epoch": -1}, GroupNotFound),
        ({"epoch": 1}, GroupNotFound),
        ({"member_id": ""}, InvalidRequest),
    ],
)
def test_a_heartbeat_that_cannot_be_is_refused_and_leaves_nothing(
    request_: dict[str, object], error: type[Exception]
) -> None:
    bench = Bench()
    settings = {"member_id": "a", **request_}

    with pytest.raises(error):
        bench.consume(**settings)  # type: ignore[arg-type]
    assert bench.log == []
    with pytest.raises(GroupNotFound):
        bench.ask(DescribeGroup("g"))


def test_a_full_group_takes_nobody_in() -> None:
    bench = Bench(members_max=1)
    bench.consume("a")

    with pytest.raises(GroupFull):
        bench.consume("b")
    bench.consume("a", 1)


# --- restarts ---------------------------------------------------------------------------


@pytest.mark.parametrize("compacted", [False, True])
def test_members_survive_a_restart_in_the_middle_of_a_rebalance(compacted: bool) -> None:
    """A restart neither forgets a revocation nor hands partitions out twice."""
    bench = Bench(FakeTopics(t=4))
    t = bench.topics.partitions
    bench.consume("a")
    bench.consume("b")
    bench.consume("a", 1)
    bench.pass_ms(20_000)

    bench.restart(compacted=compacted)

    assert bench.consume("b", 2).assignment is None, "a still owns what b waits for"
    assert bench.consume("a", 1, owned=t("t", 0, 1)).member_epoch == 2
    assert bench.consume("b", 2).assignment == t("t", 2, 3)


def test_a_revocation_that_a_restart_interrupts_has_a_new_deadline() -> None:
    bench = Bench(FakeTopics(t=2), session_timeout_ms=1_000_000)
    bench.consume("a")
    bench.consume("b")
    bench.consume("a", 1)
    bench.restart()
    bench.pass_ms(60_000)

    with pytest.raises(UnknownMember):
        bench.consume("a", 1)


def test_sessions_begin_anew_with_a_restart() -> None:
    bench = Bench()
    bench.consume("a")
    bench.pass_ms(29_000)
    bench.restart()
    bench.pass_ms(29_000)

    bench.consume("a", 1)
    bench.pass_ms(30_000)
    with pytest.raises(UnknownMember):
        bench.consume("a", 1)
