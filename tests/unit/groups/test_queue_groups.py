"""A group is a stream or a queue: its first use decides, and everything that contradicts it is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.unit.groups.driver import Bench

from goqueue.coordinator.shard import Transaction
from goqueue.errors import (
    GroupBeingDeleted,
    GroupModeMismatch,
    GroupNotEmpty,
    GroupNotFound,
    InvalidRequest,
    wire_of,
)
from goqueue.groups.commands import (
    AlterQueue,
    AskMode,
    CommitInTransaction,
    CommitOffsets,
    DeleteGroup,
    DeleteOffsets,
    DescribeGroup,
    FetchOffsets,
    FinishDeletion,
    IsQueue,
    LeaveGroup,
    Leaver,
    ListGroups,
    OffsetToCommit,
    UseQueue,
)
from goqueue.groups.descriptions import ClassicDescription, ConsumerDescription, GroupType
from goqueue.groups.machine import GroupMachine
from goqueue.groups.queue.settings import AsQueue, Mode, QueueSettings, Sharing
from goqueue.groups.records import KEYS, VALUES, OffsetKey, OffsetRecord
from goqueue.groups.statistics import Rebalances
from goqueue.records import TopicPartition

EXCLUSIVE, SHARED = Sharing.EXCLUSIVE, Sharing.SHARED


def commit(bench: Bench, group: str = "g", **more: object) -> CommitOffsets:
    shape = bench.topics.shape("t")
    assert shape is not None
    return CommitOffsets(group, (OffsetToCommit("t", shape.topic_id, 0, 5),), **more)  # type: ignore[arg-type]


def use(bench: Bench, group: str = "g", *, sharing: Sharing | None = None, key_ordered: bool | None = None) -> object:
    return bench.ask(UseQueue(group, AsQueue(sharing, key_ordered)))


def commit_alone(bench: Bench) -> object:
    return bench.ask(commit(bench))


# --- every first use against every other ------------------------------------------------

STREAM_USES: dict[str, Callable[[Bench], object]] = {
    "a member of Kafka's classic protocol": lambda bench: bench.form("k"),
    "a member of Kafka's new protocol": lambda bench: bench.consume("k"),
    "a commit by nobody in particular": commit_alone,
}
QUEUE_USES: dict[str, Callable[[Bench], object]] = {
    "a receive": use,
    "a member that joins eagerly": lambda bench: bench.form("h", as_queue=AsQueue()),
    "a member that joins cooperatively": lambda bench: bench.consume("h", as_queue=AsQueue()),
}


# A commit to a queue group that nobody is in is a reset, and has its own test.
@pytest.mark.parametrize(
    ("queue", "stream"),
    [
        pytest.param(queue, stream, id=f"{first}, then {second}")
        for first, queue in QUEUE_USES.items()
        for second, stream in STREAM_USES.items()
        if "member" in first + second
    ],
)
def test_what_was_first_used_as_a_queue_is_no_stream(
    queue: Callable[[Bench], object], stream: Callable[[Bench], object]
) -> None:
    bench = Bench()
    queue(bench)
    stored = list(bench.log)

    with pytest.raises(GroupModeMismatch) as refusal:
        stream(bench)

    assert refusal.value.mode == "queue"
    assert wire_of(refusal.value).http == 409
    assert bench.log == stored
    bench.restart(compacted=True)
    with pytest.raises(GroupModeMismatch):
        stream(bench)


@pytest.mark.parametrize("queue", QUEUE_USES.values(), ids=QUEUE_USES)
@pytest.mark.parametrize("stream", STREAM_USES.values(), ids=STREAM_USES)
def test_what_was_first_used_as_a_stream_is_no_queue(
    stream: Callable[[Bench], object], queue: Callable[[Bench], object]
) -> None:
    bench = Bench()
    stream(bench)
    stored = list(bench.log)

    with pytest.raises(GroupModeMismatch) as refusal:
        queue(bench)

    assert refusal.value.mode == "stream"
    assert bench.log == stored
    bench.restart(compacted=True)
    with pytest.raises(GroupModeMismatch):
        queue(bench)


def test_kafkas_clients_get_the_codes_that_they_know() -> None:
    bench = Bench()
    use(bench)

    codes = []
    for asked in (lambda: bench.form("k"), lambda: bench.consume("k"), lambda: bench.ask(commit(bench, generation=1))):
        with pytest.raises(GroupModeMismatch) as refusal:
            asked()
        codes.append(wire_of(refusal.value).kafka)

    assert codes == [23, 69, 69]


def test_a_group_waiting_for_its_first_generation_is_a_stream_already() -> None:
    bench = Bench(initial_rebalance_delay_ms=3_000)
    bench.newcomer("k")

    with pytest.raises(GroupModeMismatch):
        use(bench)


def test_offsets_that_an_open_transaction_may_bring_make_a_stream() -> None:
    bench = Bench()
    machine = GroupMachine(bench.config, bench.topics, Rebalances(), lambda _transaction, _shard: None)
    shape = bench.topics.shape("t")
    assert shape is not None
    key = KEYS.encode(OffsetKey("g", "t", 0))
    machine.hold(7, [(key, VALUES.encode(OffsetRecord(shape.topic_id, 5, -1, "", 1)))])

    with pytest.raises(GroupModeMismatch):
        machine.decide(1, UseQueue("g", AsQueue()), bench.now_ms)

    machine.release(7)
    assert machine.decide(2, UseQueue("g", AsQueue()), bench.now_ms).replies == [(2, QueueSettings())]


def test_a_transaction_cannot_commit_offsets_of_a_queue() -> None:
    bench = Bench()
    machine = GroupMachine(bench.config, bench.topics, Rebalances(), lambda _transaction, _shard: None)
    for key, value in machine.decide(1, UseQueue("g", AsQueue()), bench.now_ms).records:
        machine.apply(key, value)

    with pytest.raises(GroupModeMismatch):
        machine.decide(2, CommitInTransaction(commit(bench), Transaction(7, 0), 0), bench.now_ms)


def test_asking_for_offsets_or_the_mode_settles_nothing() -> None:
    bench = Bench()

    assert bench.ask(AskMode("g")) is None
    assert bench.ask(FetchOffsets("g")) == {}
    assert bench.log == []
    use(bench)
    assert bench.ask(AskMode("g")) is Mode.QUEUE
    bench.form("k", group="other")
    assert bench.ask(AskMode("other")) is Mode.STREAM


# --- what is settled --------------------------------------------------------------------


def test_the_first_member_settles_sharing_and_a_receive_leaves_it_open() -> None:
    bench = Bench()

    assert use(bench) == QueueSettings(None)
    bench.consume("h", as_queue=AsQueue(SHARED))

    assert use(bench) == QueueSettings(SHARED, version=1)
    assert use(bench, sharing=SHARED) == QueueSettings(SHARED, version=1)
    with pytest.raises(GroupModeMismatch, match="shared"):
        use(bench, sharing=EXCLUSIVE)
    bench.check_replay()


def test_a_member_that_does_not_say_takes_the_group_as_it_is() -> None:
    bench = Bench()
    bench.form("a", as_queue=AsQueue(), group="alone")
    use(bench, "shared", sharing=SHARED)

    bench.consume("a", group="shared", as_queue=AsQueue())

    assert use(bench, "alone") == QueueSettings(EXCLUSIVE)
    assert use(bench, "shared") == QueueSettings(SHARED)


def test_the_order_of_keys_is_fixed_at_first_use() -> None:
    bench = Bench()
    use(bench, key_ordered=True)

    assert use(bench) == QueueSettings(None, key_ordered=True)
    with pytest.raises(GroupModeMismatch, match="order of their keys"):
        use(bench, key_ordered=False)


def test_settings_are_altered_and_taken_back() -> None:
    bench = Bench()
    bench.form("h", as_queue=AsQueue())

    bench.ask(AlterQueue("g", {"visibility_ms": 500, "retries_max": 7, "lane_weights": [5, 4, 3, 2, 1]}))
    settings = bench.ask(AlterQueue("g", {"retries_max": None}))

    assert settings == QueueSettings(
        EXCLUSIVE, policy={"visibility_ms": 500, "lane_weights": [5, 4, 3, 2, 1]}, version=2
    )
    assert bench.ask(AlterQueue("g", {"visibility_ms": 500})) == settings
    bench.check_replay()
    bench.restart(compacted=True)
    assert use(bench) == settings


def test_what_members_rest_on_is_altered_when_they_are_gone() -> None:
    bench = Bench()
    bench.consume("h", as_queue=AsQueue())

    with pytest.raises(GroupNotEmpty):
        bench.ask(AlterQueue("g", {"sharing": "shared"}))
    with pytest.raises(GroupNotEmpty):
        bench.ask(AlterQueue("g", {"key_ordered": True}))
    bench.consume("h", -1)

    assert bench.ask(AlterQueue("g", {"sharing": "shared", "key_ordered": True})) == QueueSettings(
        SHARED, key_ordered=True, version=1
    )
    bench.consume("i", as_queue=AsQueue(SHARED))


@pytest.mark.parametrize(
    "changes", [{"sharing": "both"}, {"sharing": None}, {"key_ordered": 1}, {f"s{n}": 1 for n in range(65)}]
)
def test_changes_that_mean_nothing_are_refused(changes: dict[str, object]) -> None:
    bench = Bench()
    use(bench)

    with pytest.raises(InvalidRequest) as refusal:
        bench.ask(AlterQueue("g", changes))  # type: ignore[arg-type]

    assert refusal.value.field is not None


def test_only_a_queue_group_has_settings() -> None:
    bench = Bench()
    bench.form("k")

    with pytest.raises(GroupModeMismatch):
        bench.ask(AlterQueue("g", {"visibility_ms": 1}))
    with pytest.raises(GroupNotFound):
        bench.ask(AlterQueue("nobody", {"visibility_ms": 1}))


def test_a_queue_group_may_change_its_protocol_and_stays_a_queue() -> None:
    bench = Bench()
    bench.form("a", as_queue=AsQueue())
    bench.ask(LeaveGroup("g", (Leaver("a"),)))
    bench.consume("b", as_queue=AsQueue())
    bench.consume("b", -1)

    bench.form("c", as_queue=AsQueue())

    assert bench.ask(AskMode("g")) is Mode.QUEUE
    bench.check_replay()


def test_lists_and_descriptions_say_what_a_group_is() -> None:
    bench = Bench()
    bench.form("h", as_queue=AsQueue())
    bench.form("k", group="stream")

    listed = {one.group: one.mode for one in bench.ask(ListGroups())}  # type: ignore[attr-defined]

    assert listed == {"g": Mode.QUEUE, "stream": Mode.STREAM}
    assert bench.ask(DescribeGroup("g")).queue == QueueSettings(EXCLUSIVE)  # type: ignore[attr-defined]
    assert bench.ask(DescribeGroup("stream")).queue is None  # type: ignore[attr-defined]


# --- offsets ----------------------------------------------------------------------------


def test_offsets_of_a_queue_are_deliverys_to_tell() -> None:
    bench = Bench()
    bench.form("h", as_queue=AsQueue())

    assert bench.ask(FetchOffsets("g")) is IsQueue.IT_IS
    with pytest.raises(GroupModeMismatch):
        bench.ask(DeleteOffsets("g", (TopicPartition("t", 0),)))


def test_offsets_of_a_queue_are_moved_only_while_nobody_is_in_it() -> None:
    bench = Bench()
    bench.form("h", as_queue=AsQueue())

    for claim in ({}, {"member_id": "h", "generation": 1}):
        with pytest.raises(GroupModeMismatch):
            bench.ask(commit(bench, **claim))
    bench.ask(LeaveGroup("g", (Leaver("h"),)))

    assert bench.ask(commit(bench)) is IsQueue.IT_IS
    bench.check_replay()


def test_a_queue_group_outlives_the_retention_of_offsets() -> None:
    bench = Bench(offsets_retention_ms=1_000)
    use(bench)
    bench.consume("h", group="members", as_queue=AsQueue(SHARED))
    bench.ask(LeaveGroup("members", (Leaver("h"),)))

    bench.pass_ms(3_600_000)

    assert bench.ask(AskMode("g")) is Mode.QUEUE
    assert use(bench, "members") == QueueSettings(SHARED)


def test_an_empty_queue_group_keeps_its_protocol_for_as_long_as_it_lives() -> None:
    bench = Bench(offsets_retention_ms=1_000)
    bench.consume("h", group="turns", as_queue=AsQueue(EXCLUSIVE))
    bench.consume("h", group="shares", as_queue=AsQueue(SHARED))
    bench.form("h", group="old", as_queue=AsQueue())
    before = {one.group: (one.type, one.mode) for one in bench.ask(ListGroups())}  # type: ignore[attr-defined]
    assert before == {
        "turns": (GroupType.CONSUMER, Mode.QUEUE),
        "shares": (GroupType.SHARE, Mode.QUEUE),
        "old": (GroupType.CLASSIC, Mode.QUEUE),
    }
    for group in before:
        bench.ask(LeaveGroup(group, (Leaver("h"),)))

    bench.pass_ms(3_600_000)

    for compacted in (False, True):
        assert {one.group: (one.type, one.mode) for one in bench.ask(ListGroups())} == before  # type: ignore[attr-defined]
        described = {group: bench.ask(DescribeGroup(group)) for group in before}
        assert [type(one) for one in described.values()] == [
            ConsumerDescription,
            ConsumerDescription,
            ClassicDescription,
        ]
        bench.restart(compacted=compacted)
    for group in before:
        bench.ask(DeleteGroup(group))
    assert bench.ask(ListGroups()) == ()


def test_a_queue_group_of_turns_that_never_had_a_member_speaks_the_consumer_protocol() -> None:
    bench = Bench()
    bench.ask(UseQueue("g", AsQueue(EXCLUSIVE)))

    (listed,) = bench.ask(ListGroups())  # type: ignore[misc]

    assert listed.type is GroupType.CONSUMER
    assert isinstance(bench.ask(DescribeGroup("g")), ConsumerDescription)


# --- the end ----------------------------------------------------------------------------


def test_a_deleted_queue_group_is_gone_once_delivery_has_forgotten_it() -> None:
    bench = Bench()
    bench.form("h", as_queue=AsQueue())
    with pytest.raises(GroupNotEmpty):
        bench.ask(DeleteGroup("g"))
    bench.ask(LeaveGroup("g", (Leaver("h"),)))

    assert bench.ask(DeleteGroup("g")) is IsQueue.IT_IS

    for compacted in (False, True):
        bench.restart(compacted=compacted)
        for asked in (use, lambda bench: bench.form("k"), lambda bench: bench.consume("k"), commit_alone):
            with pytest.raises(GroupBeingDeleted):
                asked(bench)
        with pytest.raises(GroupNotFound):
            bench.ask(DescribeGroup("g"))
        assert bench.ask(ListGroups()) == ()
        assert bench.ask(FetchOffsets("g")) == {}
        assert bench.ask(DeleteGroup("g")) is IsQueue.IT_IS
    bench.ask(FinishDeletion("g"))
    assert bench.ask(AskMode("g")) is None
    bench.form("k")
    bench.ask(FinishDeletion("g"))
    assert bench.ask(AskMode("g")) is Mode.STREAM
    bench.check_replay()


# --- members that are gone --------------------------------------------------------------


def test_delivery_hears_of_every_member_that_is_gone() -> None:
    bench = Bench()
    queue = {"as_queue": AsQueue()}
    bench.form("left", **queue)
    bench.ask(LeaveGroup("g", (Leaver("left"),)))
    bench.form("silent", group="classic", **queue)
    bench.consume("left too", group="consumer", **queue)
    bench.consume("left too", -1, group="consumer")
    bench.consume("silent too", group="consumer", **queue)
    assert bench.departed == [("g", "left"), ("consumer", "left too")]

    bench.pass_ms(60_000)

    assert bench.departed[2:] == [("classic", "silent"), ("consumer", "silent too")]


def test_delivery_does_not_hear_of_members_of_streams() -> None:
    bench = Bench()
    bench.form("k")
    bench.consume("l", group="consumer")

    bench.pass_ms(60_000)

    assert bench.departed == []


def test_a_static_member_that_returns_leaves_its_former_self_behind() -> None:
    bench = Bench()
    bench.form("a", instance_id="i", as_queue=AsQueue())
    bench.newcomer("b", instance_id="i", as_queue=AsQueue())

    assert bench.departed == [("g", "a")]
