"""Polling as a member: where the broker has it read on."""

from __future__ import annotations

from goqueue.broker.topics import NewTopic
from goqueue.config import Config, GroupsConfig
from goqueue.groups.classic.eager import EagerMember
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
    again: bool = False,
    is_sent: bool = True,
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
        again=again,
    )
    found = await services.group_polls.poll(poll)
    if is_sent:
        found.sent()
    return [record.value for records in found.records.values() for record in records]


def test_a_topic_made_again_is_read_from_its_own_beginning() -> None:
    """A position counts in the topic that it was reached in, not in the next one of that name."""

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


def test_what_could_not_be_sent_is_read_again() -> None:
    async def story(services: Services) -> None:
        await create(services, b"a")
        member = await join(services)
        assert await polled(services, member) == [b"a"]
        await publish(services, b"b")
        assert await polled(services, member, is_sent=False) == [b"b"]
        await publish(services, b"c")
        assert await polled(services, member) == [b"b", b"c"]
        assert await polled(services, member) == []

    assert SimNode(1, CONFIG).live(story)


def test_a_member_that_began_at_the_end_begins_there_again_when_its_poll_was_lost() -> None:
    """Nothing is committed: at the end of the log it would miss what has come since."""

    async def story(services: Services) -> None:
        await create(services, b"old")
        member = await join(services)
        assert await polled(services, member, from_latest=True, is_sent=False) == []
        await publish(services, b"a")
        assert await polled(services, member, from_latest=True) == [b"a"]

    assert SimNode(1, CONFIG).live(story)


def test_a_member_asks_again_for_what_was_lost_on_its_way() -> None:
    async def story(services: Services) -> None:
        await create(services, b"a")
        member = await join(services)
        assert await polled(services, member) == [b"a"]
        await publish(services, b"b")
        assert await polled(services, member) == [b"b"]
        await publish(services, b"c")
        assert await polled(services, member, again=True) == [b"b", b"c"]
        assert await polled(services, member, again=True) == [b"b", b"c"]
        assert await polled(services, member) == []

    assert SimNode(1, CONFIG).live(story)


def test_to_ask_again_first_of_all_is_to_begin() -> None:
    async def story(services: Services) -> None:
        await create(services, b"a")
        member = await join(services)
        assert await polled(services, member, again=True) == [b"a"]

    assert SimNode(1, CONFIG).live(story)
