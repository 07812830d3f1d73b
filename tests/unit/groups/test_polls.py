"""Polling as a member: where the broker has it read on."""

from __future__ import annotations

from goqueue.broker.topics import NewTopic
from goqueue.config import Config, GroupsConfig
from goqueue.groups.eager import EagerMember
from goqueue.groups.polls import Poll
from goqueue.records import Acks, NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.sim_node import SimNode

CONFIG = Config(groups=GroupsConfig(offsets_partitions=1))


async def create(services: Services, *values: bytes) -> None:
    await services.topics.create(NewTopic("orders", 1))
    await publish(services, *values)


async def publish(services: Services, *values: bytes) -> None:
    records = [NewRecord(None, value) for value in values]
    await services.publish.publish_records("orders", records, acks=Acks.LEADER, partition=0)


async def join(services: Services) -> EagerMember:
    return await services.eager_groups.join(
        "billing", ["orders"], client_id="c", client_host="h", session_timeout_ms=10_000, rebalance_timeout_ms=10_000
    )


async def polled(
    services: Services,
    member: EagerMember,
    *,
    from_latest: bool = False,
    paused: frozenset[TopicPartition] = frozenset(),
) -> list[bytes | None]:
    poll = Poll(
        "billing",
        member.member_id,
        member.generation,
        limit=100,
        max_bytes=1 << 20,
        wait_ms=0,
        from_latest=from_latest,
        paused=paused,
    )
    found = await services.group_polls.poll(poll)
    return [record.value for records in found.records.values() for record in records]


def test_a_topic_made_again_is_read_from_its_own_beginning() -> None:
    """W31: a position counts in the topic that it was reached in, not in the next one of that name."""

    async def story(services: Services) -> None:
        await create(services, b"a", b"b")
        member = await join(services)
        assert await polled(services, member) == [b"a", b"b"]
        await services.topics.delete("orders")
        await create(services, b"x", b"y", b"z")
        assert await polled(services, member) == [b"x", b"y", b"z"]

    assert SimNode(1, CONFIG).live(story)


def test_a_partition_that_is_paused_keeps_its_place() -> None:
    """Nothing was committed: without a place it would begin at the end, behind what came meanwhile."""

    async def story(services: Services) -> None:
        await create(services, b"old")
        member = await join(services)
        assert await polled(services, member, from_latest=True) == []
        await publish(services, b"a")
        assert await polled(services, member, from_latest=True) == [b"a"]
        paused = frozenset({TopicPartition("orders", 0)})
        assert await polled(services, member, from_latest=True, paused=paused) == []
        await publish(services, b"b", b"c")
        assert await polled(services, member, from_latest=True) == [b"b", b"c"]

    assert SimNode(1, CONFIG).live(story)
