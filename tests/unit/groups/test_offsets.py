"""Committed offsets: kept, read back, deleted, expired."""

from __future__ import annotations

from uuid import UUID

import pytest
from tests.unit.groups.driver import Bench, FakeTopics

from goqueue.errors import (
    GroupNotEmpty,
    GroupNotFound,
    GroupSubscribed,
    InvalidRequest,
    OffsetMetadataTooLarge,
)
from goqueue.groups.commands import (
    CommitOffsets,
    CommittedOffset,
    CommittedOffsets,
    DeleteGroup,
    DeleteOffsets,
    FetchOffsets,
    LeaveGroup,
    Leaver,
    ListGroups,
    OffsetToCommit,
)
from goqueue.groups.descriptions import GroupState, GroupType, ListedGroup
from goqueue.records import TopicPartition

DAY_MS = 24 * 3600 * 1000
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def commit(bench: Bench, *offsets: int, topic: str = "t", member_id: str = "", generation: int = -1) -> object:
    shape = bench.topics.shape(topic)
    assert shape is not None
    to_commit = tuple(
        OffsetToCommit(topic, shape.topic_id, partition, offset, leader_epoch=3, metadata=f"m{partition}")
        for partition, offset in enumerate(offsets)
    )
    return bench.ask(CommitOffsets("g", to_commit, member_id, generation))


def fetched(bench: Bench, *partitions: TopicPartition) -> CommittedOffsets:
    found = bench.ask(FetchOffsets("g", partitions or None))
    assert isinstance(found, dict)
    return found


def offsets(bench: Bench) -> dict[TopicPartition, int]:
    return {partition: one.offset for partition, one in fetched(bench).items()}


def test_an_offset_comes_back_as_it_was_committed() -> None:
    bench = Bench()

    assert commit(bench, 5, 9) == (None, None)

    assert fetched(bench, T0) == {T0: CommittedOffset(UUID(int=1), 5, 3, "m0", bench.now_ms)}
    assert offsets(bench) == {T0: 5, T1: 9}
    assert fetched(bench, TopicPartition("t", 2)) == {}


def test_a_group_that_nobody_knows_has_no_offsets() -> None:
    assert fetched(Bench()) == {}


def test_offsets_survive_restarts() -> None:
    bench = Bench()
    commit(bench, 5)
    commit(bench, 6)

    bench.restart(compacted=True)

    assert offsets(bench) == {T0: 6}
    bench.check_replay()


def test_a_topic_created_anew_does_not_inherit_offsets() -> None:
    bench = Bench()
    commit(bench, 500)
    bench.topics.delete("t")
    assert offsets(bench) == {}

    bench.topics.create("t", 3)

    assert offsets(bench) == {}
    commit(bench, 1)
    assert offsets(bench) == {T0: 1}


def test_what_cannot_be_committed_does_not_stop_the_rest() -> None:
    bench = Bench(offset_metadata_bytes_max=4)
    shape = bench.topics.shape("t")
    assert shape is not None
    outcomes = bench.ask(
        CommitOffsets(
            "g",
            (
                OffsetToCommit("t", shape.topic_id, 0, 1, metadata="long text"),
                OffsetToCommit("t", shape.topic_id, 1, -5),
                OffsetToCommit("t", shape.topic_id, 2, 7, metadata="äö"),
            ),
        )
    )

    assert [type(one) for one in outcomes] == [OffsetMetadataTooLarge, InvalidRequest, type(None)]  # type: ignore[attr-defined]
    assert offsets(bench) == {TopicPartition("t", 2): 7}


def test_a_commit_fits_into_one_batch() -> None:
    bench = Bench()
    many = tuple(OffsetToCommit("t", UUID(int=1), one, 1) for one in range(20_001))
    wordy = tuple(OffsetToCommit("t", UUID(int=1), one, 1, metadata="x" * 4096) for one in range(513))
    for too_much in (many, wordy):
        with pytest.raises(InvalidRequest):
            bench.ask(CommitOffsets("g", too_much))
    assert set(bench.ask(CommitOffsets("g", many[1:]))) == {None}  # type: ignore[call-overload]


def test_a_member_of_a_group_that_is_gone_is_told_so() -> None:
    with pytest.raises(GroupNotFound):
        commit(Bench(), 1, member_id="a", generation=4)


def test_offsets_alone_are_an_empty_group() -> None:
    bench = Bench()
    commit(bench, 1)

    assert bench.ask(ListGroups()) == (ListedGroup("g", GroupType.CLASSIC, GroupState.EMPTY, ""),)
    bench.ask(DeleteGroup("g"))
    assert bench.ask(ListGroups()) == ()
    assert fetched(bench) == {}
    bench.check_replay()


def test_offsets_of_topics_that_are_read_cannot_be_deleted() -> None:
    bench = Bench(FakeTopics(t=2, u=1))
    bench.form("a")
    commit(bench, 1, 2, member_id="a", generation=1)
    commit(bench, 3, topic="u", member_id="a", generation=1)

    outcomes = bench.ask(DeleteOffsets("g", (T0, TopicPartition("u", 0), TopicPartition("u", 7))))

    assert [type(one) for one in outcomes] == [GroupSubscribed, type(None), type(None)]  # type: ignore[attr-defined]
    assert offsets(bench) == {T0: 1, T1: 2}


def test_offsets_of_an_empty_group_can_be_deleted() -> None:
    bench = Bench()
    bench.form("a")
    commit(bench, 1, 2, member_id="a", generation=1)
    bench.ask(LeaveGroup("g", (Leaver("a"),)))

    assert bench.ask(DeleteOffsets("g", (T0,))) == (None,)
    assert offsets(bench) == {T1: 2}
    with pytest.raises(GroupNotFound):
        bench.ask(DeleteOffsets("unknown", (T0,)))


def test_a_group_whose_protocol_is_its_own_keeps_its_offsets_while_it_has_members() -> None:
    bench = Bench()
    bench.form("a", protocol_type="connect")

    with pytest.raises(GroupNotEmpty):
        bench.ask(DeleteOffsets("g", (T0,)))


def test_a_group_with_members_is_not_deleted() -> None:
    bench = Bench()
    bench.form("a")
    commit(bench, 1, member_id="a", generation=1)
    with pytest.raises(GroupNotEmpty):
        bench.ask(DeleteGroup("g"))
    with pytest.raises(GroupNotFound):
        bench.ask(DeleteGroup("unknown"))

    bench.ask(LeaveGroup("g", (Leaver("a"),)))
    bench.ask(DeleteGroup("g"))

    bench.restart()
    assert bench.ask(ListGroups()) == ()


def test_a_group_of_the_new_protocol_is_deleted_with_all_its_records() -> None:
    bench = Bench()
    bench.consume("a")
    commit(bench, 1, member_id="a", generation=1)
    with pytest.raises(GroupNotEmpty):
        bench.ask(DeleteGroup("g"))
    bench.consume("a", -1)

    bench.ask(DeleteGroup("g"))

    bench.restart(compacted=True)
    assert bench.ask(ListGroups()) == ()
    assert bench.machine.wake_at_ms() is None


# --- expiry -----------------------------------------------------------------------------


def test_offsets_of_an_empty_group_expire_a_week_after_its_last_member_left() -> None:
    bench = Bench()
    bench.form("a", session_timeout_ms=1_800_000)
    commit(bench, 1, member_id="a", generation=1)
    for _ in range(8 * 72):  # eight days of one commit and many heartbeats
        bench.pass_ms(DAY_MS // 72)
        bench.beat("a", 1)
    assert offsets(bench) == {T0: 1}, "while members read the topic its offsets stay"
    bench.ask(LeaveGroup("g", (Leaver("a"),)))

    bench.pass_ms(7 * DAY_MS - 1)
    assert offsets(bench) == {T0: 1}
    bench.pass_ms(700_000)

    assert offsets(bench) == {}
    assert bench.ask(ListGroups()) == ()
    bench.check_replay()


def test_offsets_of_a_topic_that_a_group_reads_no_more_expire() -> None:
    bench = Bench(FakeTopics(t=1, u=1), session_timeout_ms=1_800_000)
    bench.consume("a", topics=("u",))
    commit(bench, 1, member_id="a", generation=1)
    commit(bench, 2, topic="u", member_id="a", generation=1)
    for _ in range(8 * 72):
        bench.pass_ms(DAY_MS // 72)
        bench.consume("a", 1)

    assert offsets(bench) == {TopicPartition("u", 0): 2}


def test_offsets_without_a_group_expire_one_by_one() -> None:
    bench = Bench()
    commit(bench, 1)
    bench.pass_ms(4 * DAY_MS)
    commit(bench, 1, 1)
    commit(bench, 5)
    bench.pass_ms(4 * DAY_MS)
    assert offsets(bench) == {T0: 5, T1: 1}
    bench.pass_ms(4 * DAY_MS)

    assert bench.ask(ListGroups()) == ()


def test_offsets_that_lost_their_topic_are_cleared_away() -> None:
    bench = Bench()
    commit(bench, 1)
    bench.topics.delete("t")

    bench.pass_ms(600_001)

    assert bench.ask(ListGroups()) == ()
    bench.pass_ms(600_000)
    assert bench.machine.wake_at_ms() is None, "nothing is left to look after"
