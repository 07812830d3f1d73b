"""Topics: created once, changed durably, deleted without a trace."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.broker.stack import Stack

from goqueue.broker.topics import NewTopic
from goqueue.config import BrokerConfig, Config
from goqueue.errors import (
    InternalTopic,
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopicName,
    ReservedTopicName,
    TopicExists,
    TopicIdNotFound,
    TopicNotFound,
)
from goqueue.metadata.events import Topic
from goqueue.metadata.settings.topic_config import ConfigSource
from goqueue.testing.disk import Survival
from goqueue.testing.memory_files import MemoryFiles


async def test_a_topic_has_three_partitions_unless_told_otherwise() -> None:
    stack = Stack()
    topic = await stack.topics.create(NewTopic("orders"))
    assert topic.partition_count == 3
    assert topic.replication_factor == 1
    assert not topic.internal
    assert topic.created_ms == stack.clock.now_ms()
    assert stack.topics.get("orders") is topic
    assert stack.topics.by_id(topic.topic_id) is topic
    assert [one.name for one in stack.topics.list()] == ["orders"]


@pytest.mark.parametrize("default", [None, -1])
async def test_minus_one_leaves_the_choice_to_the_broker(default: int | None) -> None:
    stack = Stack(config=Config(broker=BrokerConfig(default_partitions=7)))
    topic = await stack.topics.create(NewTopic("orders", default, default))
    assert topic.partition_count == 7


async def test_a_topic_survives_a_power_cut() -> None:
    files = MemoryFiles()
    stack = Stack(files)
    topic = await stack.topic("orders", 5, retention_ms="1000")
    again = Stack(files.crash(Survival.NOTHING)).topics
    assert again.get("orders") == topic
    # The end of a log may be lost with the power, and its readers learn that by the epoch.
    assert [one.leader_epoch for one in again.assignments(topic)] == [1] * 5


async def test_what_is_not_there_is_not_found() -> None:
    stack = Stack()
    with pytest.raises(TopicNotFound):
        stack.topics.get("orders")
    with pytest.raises(TopicIdNotFound):
        stack.topics.by_id(UUID(int=5))
    for change in (
        stack.topics.delete("orders"),
        stack.topics.add_partitions("orders", 9),
        stack.topics.alter_config("orders", {}),
    ):
        with pytest.raises(TopicNotFound):
            await change


async def test_a_name_that_exists_is_refused() -> None:
    stack = Stack()
    await stack.topic("orders")
    with pytest.raises(TopicExists):
        await stack.topic("orders")
    with pytest.raises(TopicExists):
        await stack.topics.create(NewTopic("orders"), validate_only=True)


async def test_names_that_differ_only_in_dots_and_underscores_or_case_are_different_topics() -> None:
    stack = Stack()
    for name in ("a.b", "a_b", "A.b", "-", "_", "...", "a" * 245, "a" * 245 + ".dlq"):
        await stack.topic(name)
        await stack.write(name.encode(), topic=name)
    for name in ("a.b", "a_b", "A.b", "-", "_", "...", "a" * 245, "a" * 245 + ".dlq"):
        assert [record.value for record in await stack.read_all(name)] == [name.encode()]


async def test_a_name_that_leaves_no_room_for_its_dead_letter_topic_is_refused() -> None:
    with pytest.raises(InvalidTopicName, match="dead-letter"):
        await Stack().topics.create(NewTopic("a" * 246))


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "a/b",
        "/",
        "../etc",
        "a\\b",
        "a b",
        "a\0b",
        "a\n",
        "ü",
        "a" * 250,
        "naïve",
        "a:b",
        "%2e%2e",
        "\u2024",
    ],
)
async def test_a_name_that_could_leave_its_directory_is_refused(name: str) -> None:
    """A topic named `..` was a way to remove the data directory."""
    stack = Stack()
    for attempt in (
        stack.topics.create(NewTopic(name)),
        stack.topics.ensure(name),
        stack.topics.ensure_internal(name, 1, {}),
    ):
        with pytest.raises(InvalidTopicName):
            await attempt
    assert stack.files.list("logs") == []


@settings(deadline=None)
@given(st.text(max_size=8) | st.text("./_-a\\\0 ", max_size=6))
def test_any_name_stays_inside_the_data_directory(name: str) -> None:

    async def attempt() -> None:
        files = MemoryFiles()
        stack = Stack(files)
        try:
            await stack.topics.create(NewTopic(name, 1))
        except InvalidTopicName:
            assert stack.topics.list() == []
            return
        await stack.write(b"v", topic=name)
        places = {path.split("/")[1] for path in files.tree() if path.startswith("logs/")}
        assert places == {name}
        await stack.topics.delete(name)
        await stack.stop()
        assert not any(path.startswith("logs/") for path in files.tree())
        assert any(path.startswith("metadata/") for path in files.tree())

    asyncio.run(attempt())


async def test_names_of_the_brokers_own_are_reserved() -> None:
    stack = Stack()
    for attempt in (stack.topics.create(NewTopic("__mine")), stack.topics.ensure("__consumer_offsets")):
        with pytest.raises(ReservedTopicName):
            await attempt


@pytest.mark.parametrize("partitions", [0, -2, 10_001])
async def test_impossible_partition_counts_are_refused(partitions: int) -> None:
    with pytest.raises(InvalidPartitions):
        await Stack().topics.create(NewTopic("orders", partitions))


@pytest.mark.parametrize("copies", [0, -2, 2, 3])
async def test_a_single_node_cannot_hold_more_than_one_copy(copies: int) -> None:
    with pytest.raises(InvalidReplicationFactor):
        await Stack().topics.create(NewTopic("orders", 1, copies))


async def test_an_assignment_to_this_node_is_taken() -> None:
    stack = Stack(config=Config(broker=BrokerConfig(node_id=4)))
    topic = await stack.topics.create(NewTopic("orders", -1, -1, assignments={1: [4], 0: [4]}))
    assert [one.replicas for one in stack.topics.assignments(topic)] == [(4,), (4,)]


@pytest.mark.parametrize("assignments", [{}, {0: []}, {0: [2]}, {0: [1, 2]}, {1: [1]}, {0: [1], 2: [1]}, {0: [1, 1]}])
async def test_any_other_assignment_is_refused(assignments: dict[int, list[int]]) -> None:
    with pytest.raises(InvalidReplicaAssignment):
        await Stack().topics.create(NewTopic("orders", assignments=assignments))


async def test_numbers_and_assignments_exclude_each_other() -> None:
    with pytest.raises(InvalidRequest, match="not both"):
        await Stack().topics.create(NewTopic("orders", 1, assignments={0: [1]}))


async def test_bad_settings_are_refused_before_anything_is_made() -> None:
    stack = Stack()
    for config in ({"retention.ms": "soon"}, {"retention": "1"}, {"retention.ms": None}):
        with pytest.raises(InvalidConfig):
            await stack.topics.create(NewTopic("orders", config=config))
    assert stack.topics.list() == []


async def test_validation_alone_changes_nothing() -> None:
    stack = Stack()
    planned = await stack.topics.create(NewTopic("orders", 4), validate_only=True)
    assert planned.partition_count == 4
    assert stack.topics.list() == []
    await stack.topic("orders", 1)
    await stack.topics.add_partitions("orders", 2, validate_only=True)
    await stack.topics.alter_config("orders", {"retention.ms": "1"}, validate_only=True)
    assert stack.topics.get("orders").partition_count == 1
    assert stack.topics.get("orders").config == {}


async def test_partitions_are_added_and_never_taken_away() -> None:
    files = MemoryFiles()
    stack = Stack(files)
    await stack.topic("t", 2)
    await stack.write(b"before", partition=1)
    topic = await stack.topics.add_partitions("t", 4)
    assert topic.partition_count == 4
    await stack.write(b"after", partition=3)
    for total in (4, 3, 0, -1, 10_001):
        with pytest.raises(InvalidPartitions):
            await stack.topics.add_partitions("t", total)
    reopened = Stack(files.crash(Survival.NOTHING))
    assert reopened.topics.get("t").partition_count == 4
    assert [record.value for record in await reopened.read_all("t", 1)] == [b"before"]
    assert [record.value for record in await reopened.read_all("t", 3)] == [b"after"]


async def test_new_partitions_can_be_assigned_to_this_node_only() -> None:
    stack = Stack()
    await stack.topic("t", 1)
    with pytest.raises(InvalidReplicaAssignment):
        await stack.topics.add_partitions("t", 3, assignments=[[1]])
    with pytest.raises(InvalidReplicaAssignment):
        await stack.topics.add_partitions("t", 3, assignments=[[1], [2]])
    assert (await stack.topics.add_partitions("t", 3, assignments=[[1], [1]])).partition_count == 3


async def test_settings_are_changed_one_by_one_or_all_together() -> None:
    files = MemoryFiles()
    stack = Stack(files)
    await stack.topic("t", retention_ms="5")
    await stack.topics.alter_config("t", {"segment.bytes": "4096", "cleanup.policy": "compact"})
    assert stack.topics.get("t").config == {
        "retention.ms": "5",
        "segment.bytes": "4096",
        "cleanup.policy": "compact",
    }
    await stack.topics.alter_config("t", {"cleanup.policy": None, "retention.hours": None})
    assert stack.topics.get("t").config == {"segment.bytes": "4096"}
    await stack.topics.alter_config("t", {"retention.minutes": "1"}, replace=True)
    assert stack.topics.get("t").config == {"retention.ms": "60000"}
    with pytest.raises(InvalidConfig):
        await stack.topics.alter_config("t", {"retention.ms": "1", "no.such": "1"})
    with pytest.raises(InvalidConfig):
        await stack.topics.alter_config("t", {"no.such": None})
    assert stack.topics.config("t").retention_ms == 60_000
    assert Stack(files.crash(Survival.NOTHING)).topics.config("t").retention_ms == 60_000


async def test_settings_changed_at_the_same_time_are_all_kept() -> None:
    stack = Stack()
    await stack.topic("t")
    changes = {"retention.ms": "1", "segment.ms": "2", "retention.bytes": "3", "delete.retention.ms": "4"}
    await asyncio.gather(*(stack.topics.alter_config("t", {name: value}) for name, value in changes.items()))
    assert stack.topics.get("t").config == changes


async def test_of_two_at_once_that_create_a_name_one_wins_and_the_other_is_told_that_it_exists() -> None:
    stack = Stack()
    outcomes = await asyncio.gather(stack.topic("t", 1), stack.topic("t", 2), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Topic, TopicExists]
    assert stack.topics.get("t") is outcomes[0]


async def test_a_change_at_the_same_time_as_a_deletion_never_brings_the_topic_back() -> None:
    stack = Stack()
    for change in (
        lambda: stack.topics.alter_config("t", {"retention.ms": "1"}),
        lambda: stack.topics.add_partitions("t", 5),
    ):
        await stack.topic("t", 1)
        deleted, refused = await asyncio.gather(stack.topics.delete("t"), change(), return_exceptions=True)
        assert (type(deleted), type(refused)) == (Topic, TopicNotFound)
        await stack.topic("t", 1)
        changed, deleted = await asyncio.gather(change(), stack.topics.delete("t"), return_exceptions=True)
        assert (type(changed), type(deleted)) == (Topic, Topic)
        assert stack.topics.find("t") is None


async def test_partitions_added_at_the_same_time_are_added_once() -> None:
    stack = Stack()
    await stack.topic("t", 1)
    outcomes = await asyncio.gather(
        *(stack.topics.add_partitions("t", total) for total in (4, 4, 6)), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [Topic, InvalidPartitions, Topic]
    assert stack.topics.get("t").partition_count == len(stack.topics.assignments(stack.topics.get("t"))) == 6


async def test_an_open_partition_obeys_new_settings_at_once() -> None:
    stack = Stack()
    await stack.topic("t")
    partition = stack.partitions.leader("t", 0)
    await stack.topics.alter_config("t", {"max.message.bytes": "77", "segment.bytes": "2048", "flush.messages": "1"})
    assert partition.config.max_message_bytes == 77
    assert partition.log.settings.max_message_bytes == 77
    assert partition.log.settings.segment_bytes == 2048
    assert partition.writer.syncs_every_batch


async def test_settings_are_described_with_their_sources() -> None:
    stack = Stack()
    await stack.topic("t", retention_ms="5")
    rows = {row.name: row for row in stack.topics.describe_config("t")}
    assert rows["retention.ms"].source is ConfigSource.TOPIC
    assert rows["segment.bytes"].source is ConfigSource.DEFAULT


async def test_a_topic_is_made_once_however_many_clients_name_it_first() -> None:
    stack = Stack()
    topics = await asyncio.gather(*(stack.topics.ensure("orders") for _ in range(50)))
    assert len({topic.topic_id for topic in topics}) == 1
    assert topics[0] is stack.topics.get("orders")
    assert await stack.topics.ensure("orders") is topics[0]


@pytest.mark.parametrize("is_on", [True, False])
async def test_automatic_creation_is_named_as_a_remedy_only_where_it_is_off(is_on: bool) -> None:
    stack = Stack(config=Config(broker=BrokerConfig(auto_create_topics=is_on)))
    with pytest.raises(TopicNotFound) as missing:
        stack.topics.get("orders") if is_on else await stack.topics.ensure("orders")
    assert ("auto_create_topics" in str(missing.value.hint)) is not is_on


async def test_a_bad_name_is_called_a_topic_by_who_names_one_in_passing_and_its_limit_is_told() -> None:
    stack = Stack()
    with pytest.raises(InvalidTopicName) as refused:
        await stack.topics.ensure("no/slashes")
    assert (refused.value.field, "1 to 245" in str(refused.value.hint)) == ("topic", True)


async def test_naming_a_topic_while_it_is_being_created_waits_for_it() -> None:
    stack = Stack()
    explicit, first_use = await asyncio.gather(
        stack.topics.create(NewTopic("orders", 9)), stack.topics.ensure("orders")
    )
    assert explicit is first_use
    assert first_use.partition_count == 9


async def test_a_client_that_gives_up_does_not_stop_the_others_topic() -> None:
    stack = Stack()
    impatient = asyncio.create_task(stack.topics.ensure("orders"))
    patient = asyncio.create_task(stack.topics.ensure("orders"))
    await asyncio.sleep(0)
    impatient.cancel()
    topic = await patient
    assert topic is stack.topics.get("orders")


async def test_creation_by_naming_can_be_switched_off() -> None:
    stack = Stack(config=Config(broker=BrokerConfig(auto_create_topics=False)))
    with pytest.raises(TopicNotFound):
        await stack.topics.ensure("orders")
    made = await stack.topic("orders")
    assert await stack.topics.ensure("orders") is made


async def test_the_brokers_own_topics_are_made_on_first_use_with_their_own_settings() -> None:
    stack = Stack(config=Config(broker=BrokerConfig(auto_create_topics=False)))
    made = await asyncio.gather(
        *(stack.topics.ensure_internal("__consumer_offsets", 50, {"cleanup.policy": "compact"}) for _ in range(5))
    )
    assert all(topic is made[0] for topic in made)
    assert made[0].internal
    assert made[0].partition_count == 50
    assert stack.topics.config("__consumer_offsets").is_compacted


async def test_clients_cannot_change_the_brokers_own_topics() -> None:
    stack = Stack()
    await stack.topics.ensure_internal("__own", 1, {})
    for change in (
        stack.topics.delete("__own"),
        stack.topics.add_partitions("__own", 9),
        stack.topics.alter_config("__own", {"retention.ms": "1"}),
    ):
        with pytest.raises(InternalTopic):
            await change
