"""Queue groups through the service, in a whole node: where they stand is delivery's word."""

from __future__ import annotations

import pytest
from tests.unit.groups.fake_delivery import FakeDelivery

from goqueue.broker.topics import NewTopic
from goqueue.codec.batch_encode import encode_batch
from goqueue.config import BrokerConfig, Config, GroupsConfig
from goqueue.errors import GroupModeMismatch, GroupNotEmpty, GroupNotFound, TopicNotFound
from goqueue.groups.classic.eager import EagerMember
from goqueue.groups.commands import ConsumerHeartbeat
from goqueue.groups.offsets.progress import Target
from goqueue.groups.polls import Poll
from goqueue.groups.queue.settings import AsQueue, Mode, QueueSettings, Sharing
from goqueue.groups.service import NewOffset
from goqueue.groups.subscription.topic_partitions import NO_PARTITIONS
from goqueue.records import Acks, NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.sim_node import SimNode

CONFIG = Config(broker=BrokerConfig(default_partitions=2), groups=GroupsConfig(offsets_partitions=3))
AT = TopicPartition("jobs", 0)


def play(story: object) -> None:
    assert SimNode(1, CONFIG).live(story)  # type: ignore[arg-type]


async def prepared(services: Services, *, messages: int = 0) -> FakeDelivery:
    delivery = FakeDelivery()
    services.groups._positions = services.groups._releases._delivery = delivery
    await services.topics.create(NewTopic("jobs"))
    if messages:
        batch = encode_batch([NewRecord(None, b"x")] * messages, now_ms=services.clock.now_ms())
        pending = services.publish.append("jobs", 0, batch, acks=Acks.ALL)
        assert pending.durable is not None
        await pending.durable
    return delivery


async def joined(services: Services, group: str = "g", *, as_queue: AsQueue | None) -> EagerMember:
    return await services.eager_groups.join(
        group,
        ["jobs"],
        client_id="worker",
        client_host="here",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        as_queue=as_queue,
    )


def test_a_group_becomes_a_queue_once_and_stays_one() -> None:
    async def story(services: Services) -> None:
        groups = services.groups
        assert await groups.mode("g") is None
        made = await groups.ensure_queue("g", key_ordered=True)
        assert made == QueueSettings(None, key_ordered=True, incarnation=made.incarnation)
        assert await groups.ensure_queue("g") == made
        assert await groups.ensure_queue("g", sharing=Sharing.SHARED) == await groups.queue_settings("g")
        assert await groups.mode("g") is Mode.QUEUE
        with pytest.raises(GroupModeMismatch):
            await groups.ensure_queue("g", sharing=Sharing.EXCLUSIVE)
        altered = await groups.alter_queue("g", {"visibility_ms": 700})
        assert altered.policy == {"visibility_ms": 700}
        assert await groups.ensure_queue("g") == altered

    play(story)


def test_members_of_queues_are_ordinary_members() -> None:
    async def story(services: Services) -> None:
        await prepared(services)
        member = await joined(services, as_queue=AsQueue())
        assert member.partitions == {AT, TopicPartition("jobs", 1)}
        owned, _ = await services.group_polls.assignment("g", member.member_id, member.generation)
        assert owned == member.partitions
        with pytest.raises(GroupModeMismatch) as refusal:
            await services.group_polls.poll(Poll("g", member.member_id, member.generation, 1, 1, 0))
        assert refusal.value.mode == "queue"
        with pytest.raises(GroupModeMismatch):
            await joined(services, as_queue=None)
        (listed,) = await services.groups.list()
        assert listed.mode is Mode.QUEUE

    play(story)


def test_only_a_queue_group_has_queue_settings() -> None:
    async def story(services: Services) -> None:
        await prepared(services)
        await joined(services, as_queue=None)
        with pytest.raises(GroupModeMismatch) as refusal:
            await services.groups.queue_settings("g")
        assert refusal.value.mode == "stream"
        with pytest.raises(GroupNotFound):
            await services.groups.queue_settings("nobody")

    play(story)


def test_lag_of_a_queue_is_what_delivery_has_not_settled() -> None:
    async def story(services: Services) -> None:
        delivery = await prepared(services, messages=10)
        await services.groups.ensure_queue("g")
        delivery.deliver("g", AT, 4)
        delivery.deliver("g", TopicPartition("gone", 0), 4)
        row, untouched = await services.group_progress.of("g")
        assert (row.topic, row.committed, row.end, row.lag) == ("jobs", 4, 10, 6)
        assert (untouched.partition, untouched.committed, untouched.lag) == (1, None, 0)
        found = await services.groups.fetch_offsets("g", [AT])
        assert {at: one.offset for at, one in found.items()} == {AT: 4}

    play(story)


def test_a_queue_without_members_is_reset_and_a_live_one_is_not() -> None:
    async def story(services: Services) -> None:
        delivery = await prepared(services, messages=10)
        member = await joined(services, as_queue=AsQueue())
        delivery.deliver("g", AT, 7)
        with pytest.raises(GroupNotEmpty):
            await services.group_progress.reset("g", Target(earliest=True))
        with pytest.raises(GroupModeMismatch):
            await services.groups.commit("g", [NewOffset("jobs", 0, 2)])
        await services.eager_groups.leave("g", member.member_id)
        (change,) = await services.group_progress.reset("g", Target(shift=-2))
        assert (change.before, change.after) == (7, 5)
        assert delivery.offsets["g"] == {AT: 5}
        outcomes = await services.groups.commit("g", [NewOffset("nothing", 0, 2), NewOffset("jobs", 0, 2)])
        assert isinstance(outcomes[0], TopicNotFound)
        assert outcomes[1] is None
        assert delivery.offsets["g"] == {AT: 2}
        delivery.in_flight.add("g")
        with pytest.raises(GroupNotEmpty):
            await services.group_progress.reset("g", Target(latest=True))

    play(story)


def test_a_deleted_queue_is_forgotten_and_its_name_is_free() -> None:
    async def story(services: Services) -> None:
        delivery = await prepared(services)
        await services.groups.ensure_queue("g", sharing=Sharing.SHARED)
        delivery.deliver("g", AT, 4)
        await services.groups.delete("g")
        assert delivery.forgotten == ["g"]
        assert await services.groups.mode("g") is None
        with pytest.raises(GroupNotFound):
            await services.groups.delete("g")
        await joined(services, as_queue=None)
        with pytest.raises(GroupModeMismatch):
            await services.groups.ensure_queue("g")

    play(story)


def test_leases_of_a_member_that_is_gone_are_released() -> None:
    async def story(services: Services) -> None:
        delivery = await prepared(services)
        first = await joined(services, as_queue=AsQueue())
        await services.eager_groups.leave("g", first.member_id)
        beat = await services.groups.consumer_heartbeat(
            ConsumerHeartbeat(
                "h", "", 0, rebalance_timeout_ms=1_000, topics=("jobs",), owned=NO_PARTITIONS, as_queue=AsQueue()
            )
        )
        await services.groups.consumer_heartbeat(ConsumerHeartbeat("h", beat.member_id, -1))
        await services.groups.mode("g")
        assert delivery.released == [("g", first.member_id), ("h", beat.member_id)]

    play(story)
