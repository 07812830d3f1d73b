"""A process is killed and then the power goes: what a life believed and promised must outlast both."""

from __future__ import annotations

import asyncio

from goqueue.broker.topics import NewTopic
from goqueue.config import Config, GroupsConfig
from goqueue.groups.service import NewOffset
from goqueue.records import Acks, NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.disk import Survival
from goqueue.testing.sim_node import SimNode

CONFIG = Config(groups=GroupsConfig(offsets_partitions=1))
ORDERS = TopicPartition("orders", 0)


async def publish(services: Services, *values: bytes, acks: Acks) -> None:
    records = [NewRecord(None, value) for value in values]
    results = await services.publish.publish_records("orders", records, acks=acks, partition=0)
    assert [result.error for result in results] == [None] * len(values)


async def stored(services: Services, offset: int = 0) -> list[bytes | None]:
    read = (await services.reads.read({ORDERS: offset}, limit=1000, max_bytes=1 << 20))[ORDERS]
    assert read.error is None
    return [record.value for record in read.records]


def test_what_was_written_before_a_kill_is_synced_after_it() -> None:
    async def writes(services: Services) -> None:
        await services.topics.create(NewTopic("orders", 1))
        await publish(services, b"a", b"b", acks=Acks.LEADER)

    async def reads(services: Services) -> None:
        assert await stored(services) == [b"a", b"b"]
        await asyncio.sleep(2)

    async def finds_all(services: Services) -> None:
        assert await stored(services) == [b"a", b"b"]

    node = SimNode(1, CONFIG)
    node.live(writes, is_killed=True)
    node.live(reads, is_killed=True)
    node.files = node.files.crash(Survival.NOTHING)
    node.live(finds_all)


def test_a_topic_that_is_served_after_a_kill_outlasts_a_power_cut() -> None:
    """Else its records, promised with acks=all, would lie in a directory that belongs to nobody."""

    async def creates(services: Services) -> None:
        creating = asyncio.ensure_future(services.topics.create(NewTopic("orders", 1)))
        await asyncio.sleep(0)
        assert not creating.done()

    async def writes(services: Services) -> None:
        await publish(services, b"a", acks=Acks.ALL)

    async def finds_all(services: Services) -> None:
        assert await stored(services) == [b"a"]

    node = SimNode(1, CONFIG)
    node.live(creates, is_killed=True)
    node.live(writes, is_killed=True)
    node.files = node.files.crash(Survival.NOTHING)
    node.live(finds_all)


def test_no_committed_offset_outlasts_the_records_below_it() -> None:
    """Else those written in their place are below it too, and no member of the group ever reads them."""

    async def reads_and_commits(services: Services) -> None:
        await services.topics.create(NewTopic("orders", 1))
        await publish(services, b"a", acks=Acks.ALL)
        await publish(services, b"b", b"c", acks=Acks.LEADER)
        assert await services.groups.commit("billing", [NewOffset("orders", 0, 3)]) == (None,)

    async def goes_on(services: Services) -> None:
        await publish(services, b"x", b"y", b"z", acks=Acks.ALL)
        committed = (await services.groups.fetch_offsets("billing"))[ORDERS].offset
        assert await stored(services, committed) == [b"x", b"y", b"z"]

    node = SimNode(1, CONFIG)
    node.live(reads_and_commits, is_killed=True)
    node.files = node.files.crash(Survival.NOTHING)
    node.live(goes_on)


def test_commits_of_a_group_are_taken_in_the_order_they_came() -> None:
    """A rewind that need not wait for the disk does not overtake the commit before it, which must."""

    async def rewinds(services: Services) -> None:
        await services.topics.create(NewTopic("orders", 1))
        await publish(services, b"a", acks=Acks.ALL)
        await publish(services, b"b", b"c", acks=Acks.LEADER)
        forward = asyncio.ensure_future(services.groups.commit("billing", [NewOffset("orders", 0, 3)]))
        back = asyncio.ensure_future(services.groups.commit("billing", [NewOffset("orders", 0, 1)]))
        assert (await forward, await back) == ((None,), (None,))
        assert (await services.groups.fetch_offsets("billing"))[ORDERS].offset == 1

    assert SimNode(1, CONFIG).live(rewinds)
