"""The classic protocol, step by step, with the clock in our hands."""

from __future__ import annotations

from uuid import UUID

import pytest
from tests.unit.groups.driver import Bench, assignment, subscription

from goqueue.errors import (
    GroupFull,
    GroupNotFound,
    IllegalGeneration,
    InconsistentProtocol,
    InvalidRequest,
    InvalidSessionTimeout,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMember,
)
from goqueue.groups.commands import CommitOffsets, DescribeGroup, LeaveGroup, Leaver, OffsetToCommit, Synced
from goqueue.groups.descriptions import ClassicDescription, GroupState


def state(bench: Bench) -> GroupState:
    described = bench.ask(DescribeGroup("g"))
    assert isinstance(described, ClassicDescription)
    return described.state


def commit(member_id: str, generation: int, *, offset: int = 1) -> CommitOffsets:
    return CommitOffsets("g", (OffsetToCommit("t", UUID(int=1), 0, offset),), member_id, generation)


# --- joining ----------------------------------------------------------------------------


def test_a_first_member_joins_leads_syncs_and_is_stable() -> None:
    bench = Bench()

    joined = bench.joined(bench.newcomer("a"))
    assert (joined.generation, joined.leader, joined.protocol, joined.protocol_type) == (1, "a", "range", "consumer")
    assert [one.member_id for one in joined.members] == ["a"]
    assert joined.members[0].metadata == subscription("t")
    assert state(bench) is GroupState.COMPLETING_REBALANCE

    synced = bench.answer(bench.sync("a", 1, {"a": b"all of it"}))
    assert synced == Synced("consumer", "range", b"all of it")
    assert state(bench) is GroupState.STABLE
    bench.beat("a", 1)


def test_a_second_member_makes_the_first_join_again_and_both_sync() -> None:
    bench = Bench()
    bench.form("a")

    second = bench.newcomer("b")
    assert bench.waits(second)
    assert state(bench) is GroupState.PREPARING_REBALANCE
    with pytest.raises(RebalanceInProgress):
        bench.beat("a", 1)

    first = bench.join("a")
    assert bench.joined(first).generation == bench.joined(second).generation == 2
    assert {one.member_id for one in bench.joined(first).members} == {"a", "b"}
    assert bench.joined(second).members == (), "only the leader is told who is in"

    follower = bench.sync("b", 2)
    assert bench.waits(follower), "there is nothing to tell before the leader has assigned"
    leader = bench.sync("a", 2, {"a": b"0", "b": b"1"})
    assert bench.answer(leader) == Synced("consumer", "range", b"0")
    assert bench.answer(follower) == Synced("consumer", "range", b"1")


def test_a_newcomer_is_sent_back_with_an_id_first() -> None:
    """KIP-394: a client that gives up and asks again must not pile up members."""
    bench = Bench()

    with pytest.raises(MemberIdRequired) as given_id:
        bench.answer(bench.newcomer("a-1", id_required=True))

    assert given_id.value.member_id == "a-1"
    assert bench.joined(bench.join("a-1", id_required=True)).generation == 1


def test_an_id_that_is_not_used_within_a_session_is_forgotten() -> None:
    bench = Bench()
    bench.newcomer("a-1", id_required=True)

    bench.pass_ms(10_001)

    with pytest.raises(UnknownMember):
        bench.answer(bench.join("a-1", id_required=True))
    with pytest.raises(GroupNotFound):
        bench.ask(DescribeGroup("g"))


def test_a_rebalance_waits_for_a_newcomer_that_was_given_an_id() -> None:
    bench = Bench()
    bench.form("a")
    bench.newcomer("b", id_required=True)
    bench.join("a")  # the leader joins again

    assert state(bench) is GroupState.PREPARING_REBALANCE
    bench.join("b", id_required=True)
    assert state(bench) is GroupState.COMPLETING_REBALANCE


def test_an_unknown_member_or_group_is_told_so() -> None:
    bench = Bench()
    with pytest.raises(UnknownMember):
        bench.answer(bench.join("nobody"))
    with pytest.raises(UnknownMember):
        bench.beat("nobody", 1)
    with pytest.raises(UnknownMember):
        bench.answer(bench.sync("nobody", 1))


def test_the_first_generation_can_wait_for_more_members() -> None:
    bench = Bench(initial_rebalance_delay_ms=3_000)
    first = bench.newcomer("a")
    bench.pass_ms(2_000)
    second = bench.newcomer("b")
    bench.pass_ms(1_000)
    assert bench.waits(first), "a newcomer extends the wait"
    bench.pass_ms(3_000)

    assert bench.joined(first).generation == bench.joined(second).generation == 1
    assert len(bench.joined(first).members) == 2


def test_the_protocol_that_most_prefer_and_all_speak_is_chosen() -> None:
    bench = Bench()
    speaks = {
        "a": (("sticky", b"a"), ("range", b"a")),
        "b": (("range", b"b"), ("sticky", b"b")),
        "c": (("exotic", b"c"), ("range", b"c"), ("sticky", b"c")),
    }
    first = bench.newcomer("a", protocols=speaks["a"])
    bench.newcomer("b", protocols=speaks["b"])
    bench.join("a", protocols=speaks["a"])
    bench.newcomer("c", protocols=speaks["c"])
    bench.join("b", protocols=speaks["b"])
    first = bench.join("a", protocols=speaks["a"])

    assert bench.joined(first).protocol == "range"
    assert [one.metadata for one in bench.joined(first).members] == [b"a", b"b", b"c"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"protocols": (("other", b""),)},
        {"protocols": ()},
        {"protocol_type": "connect"},
        {"protocol_type": ""},
    ],
)
def test_a_member_with_nothing_in_common_is_refused(wrong: dict[str, object]) -> None:
    bench = Bench()
    bench.form("a")

    with pytest.raises(InconsistentProtocol):
        bench.answer(bench.newcomer("b", **wrong))
    assert state(bench) is GroupState.STABLE


def test_sessions_have_limits() -> None:
    bench = Bench()
    for session_timeout_ms in (999, 1_800_001):
        with pytest.raises(InvalidSessionTimeout):
            bench.answer(bench.newcomer("a", session_timeout_ms=session_timeout_ms))


def test_a_full_group_takes_nobody_in_but_lets_its_own_come_back() -> None:
    bench = Bench(members_max=2)
    bench.form("a", "b")

    with pytest.raises(GroupFull):
        bench.answer(bench.newcomer("c"))
    bench.join("a")
    bench.join("b")
    assert state(bench) is GroupState.COMPLETING_REBALANCE


def test_ids_that_were_given_out_count_until_they_are_forgotten() -> None:
    bench = Bench(members_max=2)
    bench.form("a")
    bench.newcomer("b", id_required=True)

    with pytest.raises(GroupFull):
        bench.answer(bench.newcomer("c", id_required=True))
    bench.pass_ms(9_000)
    bench.beat("a", 1)
    bench.pass_ms(1_001)
    with pytest.raises(MemberIdRequired):
        bench.answer(bench.newcomer("c", id_required=True))


def test_a_group_fits_into_one_record() -> None:
    """A record that cannot be written would take its whole shard down."""
    bench = Bench()
    with pytest.raises(InvalidRequest, match="metadata"):
        bench.answer(bench.newcomer("a", protocols=(("range", bytes(1024 * 1024 + 1)),)))
    bench.newcomer("a", protocols=(("range", bytes(1024 * 1024)),))
    with pytest.raises(InvalidRequest, match="assignments"):
        bench.answer(bench.sync("a", 1, {"a": bytes(8 * 1024 * 1024)}))

    assert bench.answer(bench.sync("a", 1, {"a": b"small"})) == Synced("consumer", "range", b"small")


def test_a_member_that_missed_its_answer_gets_it_again() -> None:
    bench = Bench()
    generation = bench.form("a", "b")

    again = bench.joined(bench.join("b"))

    assert again.generation == generation
    assert state(bench) is GroupState.STABLE, "a follower that asks again changes nothing"
    assert bench.answer(bench.sync("b", generation)) == Synced("consumer", "range", b"b")


def test_a_follower_with_a_new_subscription_starts_a_rebalance() -> None:
    bench = Bench()
    bench.form("a", "b")

    assert bench.waits(bench.join("b", topics=["t", "u"]))
    assert state(bench) is GroupState.PREPARING_REBALANCE


def test_a_leader_that_joins_again_starts_a_rebalance() -> None:
    """It may have seen new partitions, of which its members know nothing."""
    bench = Bench()
    bench.form("a", "b")

    assert bench.waits(bench.join("a"))
    assert state(bench) is GroupState.PREPARING_REBALANCE


def test_a_request_that_is_asked_twice_answers_the_first_one_too() -> None:
    bench = Bench()
    bench.form("a")
    first = bench.newcomer("b")
    second = bench.join("b")

    with pytest.raises(RebalanceInProgress):
        bench.answer(first)
    bench.join("a")
    assert bench.joined(second).generation == 2


# --- sessions, leaving, timeouts --------------------------------------------------------


def test_a_member_that_falls_silent_is_out_and_the_others_rebalance() -> None:
    bench = Bench()
    generation = bench.form("a", "b")
    bench.pass_ms(6_000)
    bench.beat("a", generation)
    bench.pass_ms(4_001)

    with pytest.raises(RebalanceInProgress):
        bench.beat("a", generation)
    with pytest.raises(UnknownMember):
        bench.beat("b", generation)
    assert bench.joined(bench.join("a")).generation == generation + 1


def test_members_that_wait_for_our_answer_need_not_send_heartbeats() -> None:
    bench = Bench()
    bench.form("a", "b")
    waiting = bench.join("a")  # b has the rebalance timeout, 60 s, to come
    for _ in range(5):
        bench.pass_ms(8_000)
        with pytest.raises(RebalanceInProgress):
            bench.beat("b", 2)

    assert bench.waits(waiting)
    bench.join("b")
    assert bench.joined(waiting).generation == 3


def test_who_does_not_join_in_time_is_out() -> None:
    bench = Bench()
    bench.form("a", "b")
    waiting = bench.join("a")
    for _ in range(10):  # b is alive, but does not join
        bench.pass_ms(6_000)
        if bench.waits(waiting):
            with pytest.raises(RebalanceInProgress):
                bench.beat("b", 2)

    assert [one.member_id for one in bench.joined(waiting).members] == ["a"]
    with pytest.raises(UnknownMember):
        bench.beat("b", 3)


def test_who_does_not_sync_in_time_is_out() -> None:
    bench = Bench()
    bench.form("a", "b", session_timeout_ms=1_000_000)
    bench.join("a", session_timeout_ms=1_000_000)
    bench.join("b", session_timeout_ms=1_000_000)
    follower = bench.sync("b", 3)  # the leader never hands anything in

    bench.pass_ms(60_001)

    with pytest.raises(RebalanceInProgress):
        bench.answer(follower)
    with pytest.raises(UnknownMember):
        bench.beat("a", 3)
    assert [one.member_id for one in bench.joined(bench.join("b")).members] == ["b"]


def test_a_newcomer_whose_connection_died_does_not_hold_the_group_for_ever() -> None:
    bench = Bench()
    bench.form("a", rebalance_timeout_ms=1_000_000, session_timeout_ms=1_000_000)
    lost = bench.newcomer("b", rebalance_timeout_ms=1_000_000)

    bench.pass_ms(300_001)

    with pytest.raises(UnknownMember):
        bench.answer(lost)


def test_leaving_takes_effect_at_once() -> None:
    bench = Bench()
    bench.form("a", "b")

    outcomes = bench.ask(LeaveGroup("g", (Leaver("b"), Leaver("nobody"))))

    assert [type(one) for one in outcomes] == [type(None), UnknownMember]  # type: ignore[attr-defined]
    assert state(bench) is GroupState.PREPARING_REBALANCE
    assert bench.joined(bench.join("a")).generation == 3


def test_when_the_last_member_leaves_the_group_is_empty_and_that_is_written_down() -> None:
    bench = Bench()
    generation = bench.form("a")

    bench.ask(LeaveGroup("g", (Leaver("a"),)))

    assert state(bench) is GroupState.EMPTY
    bench.restart()
    assert state(bench) is GroupState.EMPTY
    assert bench.joined(bench.newcomer("b")).generation == generation + 2, "generations only rise"


def test_a_leader_that_leaves_is_followed_by_the_next() -> None:
    bench = Bench()
    bench.form("a", "b", "c")
    bench.ask(LeaveGroup("g", (Leaver("a"),)))
    bench.join("c")

    assert bench.joined(bench.join("b")).leader == "b"


def test_a_newcomer_that_changes_its_mind_disturbs_nobody() -> None:
    bench = Bench()
    bench.form("a")
    bench.newcomer("b", id_required=True)

    bench.ask(LeaveGroup("g", (Leaver("b"),)))

    assert state(bench) is GroupState.STABLE


# --- fencing ----------------------------------------------------------------------------


def test_an_old_generation_is_refused_everywhere() -> None:
    """Generations stop zombies on heartbeat, sync and commit."""
    bench = Bench()
    bench.form("a")
    bench.newcomer("b")
    bench.join("a")
    bench.sync("b", 2)
    bench.sync("a", 2, {})

    with pytest.raises(IllegalGeneration):
        bench.beat("a", 1)
    with pytest.raises(IllegalGeneration):
        bench.answer(bench.sync("a", 1))
    with pytest.raises(IllegalGeneration):
        bench.ask(commit("a", 1))
    assert bench.ask(commit("a", 2)) == (None,)


def test_only_members_commit_while_there_are_any() -> None:
    """The caller's generation counts, not the group's."""
    bench = Bench()
    bench.form("a")

    with pytest.raises(UnknownMember):
        bench.ask(commit("", -1))
    with pytest.raises(UnknownMember):
        bench.ask(commit("stranger", 1))
    with pytest.raises(IllegalGeneration):
        bench.ask(commit("a", 0))


def test_a_commit_between_join_and_sync_is_told_to_wait() -> None:
    bench = Bench()
    bench.newcomer("a")

    with pytest.raises(RebalanceInProgress):
        bench.ask(commit("a", 1))


def test_a_commit_before_joining_again_still_counts() -> None:
    """An eager consumer commits what it has read before it gives its partitions up."""
    bench = Bench()
    bench.form("a")
    bench.newcomer("b")

    assert bench.ask(commit("a", 1)) == (None,)


def test_a_commit_is_a_sign_of_life() -> None:
    bench = Bench()
    bench.form("a")
    for _ in range(3):
        bench.pass_ms(8_000)
        bench.ask(commit("a", 1))

    bench.beat("a", 1)


# --- restarts ---------------------------------------------------------------------------


def test_members_survive_a_restart_with_a_new_session() -> None:
    """Group membership must not be lost on restart."""
    bench = Bench()
    generation = bench.form("a", "b")
    bench.pass_ms(9_000)

    bench.restart()
    bench.pass_ms(9_000)

    bench.beat("a", generation)
    assert bench.answer(bench.sync("b", generation)) == Synced("consumer", "range", b"b")
    bench.pass_ms(1_001)
    with pytest.raises(UnknownMember):
        bench.beat("b", generation)


def test_a_rebalance_that_a_restart_interrupts_begins_again() -> None:
    bench = Bench()
    bench.form("a", "b")
    bench.newcomer("c")
    bench.join("a")
    bench.join("b")  # generation 3 is formed, but nothing of it is durable

    bench.restart()

    bench.beat("a", 2)
    with pytest.raises(IllegalGeneration):
        bench.beat("a", 3)
    with pytest.raises(UnknownMember):
        bench.answer(bench.sync("c", 3))


def test_a_restart_keeps_what_members_voted_for() -> None:
    bench = Bench()
    bench.form("a", protocols=(("sticky", b"s"), ("range", b"r")))
    bench.restart()

    second = bench.newcomer("b", protocols=(("range", b"r"),))
    bench.join("a", protocols=(("sticky", b"s"), ("range", b"r")))

    assert bench.joined(second).protocol == "range"


def test_a_group_that_is_stable_says_what_its_members_read() -> None:
    bench = Bench()
    bench.newcomer("a")
    bench.sync("a", 1, {"a": assignment(t=[0, 1, 2])})

    described = bench.ask(DescribeGroup("g"))

    assert isinstance(described, ClassicDescription)
    assert described.protocol == "range"
    assert described.members[0].assignment == assignment(t=[0, 1, 2])
    assert described.members[0].metadata == subscription("t")


def test_statistics_count_rebalances_moves_and_reasons() -> None:
    bench = Bench()
    bench.newcomer("a")
    bench.sync("a", 1, {"a": assignment(t=[0, 1, 2])})
    bench.newcomer("b")
    bench.pass_ms(250)
    bench.join("a")
    bench.sync("b", 2)
    bench.sync("a", 2, {"a": assignment(t=[0, 1]), "b": assignment(t=[2])})

    counts = bench.rebalances.of("g")

    assert (counts.started, counts.completed, counts.partitions_moved) == (2, 2, 1)
    assert counts.by_reason == {"member_joined": 2}
    assert (counts.duration_ms_last, counts.duration_ms_max) == (250, 250)
    assert bench.rebalances.overall() == counts
