"""Polling as a member: where the broker has it read on."""

from __future__ import annotations

from goqueue.broker.topics import NewTopic
from goqueue.config import Config, GroupsConfig
from goqueue.groups.polls import Poll
from goqueue.records import Acks, NewRecord
from goqueue.servers.services import Services
from goqueue.testing.sim_node import SimNode

CONFIG = Config(groups=GroupsConfig(offsets_partitions=1))


async def create(services: Services, *values: bytes) -> None:
    await services.topics.create(NewTopic("orders", 1))
    records = [NewRecord(None, value) for value in values]
    await services.publish.publish_records("orders", records, acks=Acks.LEADER, partition=0)


async def polled(services: Services, member_id: str, generation: int) -> list[bytes | None]:
    poll = Poll("billing", member_id, generation, limit=100, max_bytes=1 << 20, wait_ms=0)
    found = await services.group_polls.poll(poll)
    return [record.value for records in found.records.values() for record in records]


def test_a_topic_made_again_is_read_from_its_own_beginning() -> None:
    """W31: a position counts in the topic that it was reached in, not in the next one of that name."""

    async def story(services: Services) -> None:
        await create(services, b"a", b"b")
        member = await services.eager_groups.join(
            "billing",
            ["orders"],
            client_id="c",
            client_host="h",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
        )
        assert await polled(services, member.member_id, member.generation) == [b"a", b"b"]
        await services.topics.delete("orders")
        await create(services, b"x", b"y", b"z")
        assert await polled(services, member.member_id, member.generation) == [b"x", b"y", b"z"]

    assert SimNode(1, CONFIG).live(story)
