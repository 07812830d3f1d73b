"""Members of a group have names, can be evicted, and leave when their program stops polling."""

from __future__ import annotations

import asyncio
import os
import socket
import time

import pytest

from goqueue.client import GroupNotFound, NotFound, connect


@pytest.fixture
async def client(broker):
    async with connect(f"http://{broker.http}") as connected:
        yield connected


async def eventually(condition, seconds_max=30.0):
    deadline = time.monotonic() + seconds_max
    while not await condition():
        assert time.monotonic() < deadline, "it did not become true in time"
        await asyncio.sleep(0.05)


async def members(client, group):
    return (await client.group(group)).members


@pytest.mark.parametrize("kind", ["consumer", "queue_consumer"])
async def test_a_member_keeps_its_name_host_and_process_after_its_heartbeats(client, kind):
    topic = f"named-{kind}"
    await client.create_topic(topic, partitions=2)
    async with getattr(client, kind)(topic, [topic]) as first:
        (member,) = await members(client, topic)
        assert member.client_id.endswith(f"@{socket.gethostname()}")
        assert member.id.startswith(member.client_id)
        assert member.tags["pid"] == str(os.getpid())
        assert member.tags["host"] == socket.gethostname()
        assert member.tags["client"].startswith("goqueue-python/")
        # The second member makes the first one beat and give partitions up.
        async with getattr(client, kind)(topic, [topic], client_id="second"):
            read = first.poll if kind == "consumer" else first.receive

            async def shared():
                await (read(timeout=0.05) if kind == "consumer" else read(wait=0.05))
                await first._heart._beat_once() if kind == "consumer" else await first._source._heart._beat_once()
                return all(one.assigned_partitions for one in await members(client, topic))

            await eventually(shared)
            found = {one.client_id: one for one in await members(client, topic)}
            assert found.keys() == {member.client_id, "second"}
            assert found[member.client_id].host == "127.0.0.1"
            assert found[member.client_id].tags == member.tags


async def test_a_member_keeps_its_name_over_a_restart_of_the_broker(start_broker):
    broker = start_broker()
    async with connect(f"http://{broker.http}") as client:
        await client.create_topic("restarted")
        async with client.consumer("restarted", ["restarted"], client_id="me"):
            before = await members(client, "restarted")
            await asyncio.to_thread(broker.restart)
            assert await members(client, "restarted") == before
            assert before[0].tags["pid"] == str(os.getpid())


async def test_an_evicted_member_is_gone_and_joins_again_when_it_polls(client):
    await client.create_topic("evicted")
    async with client.consumer("evicted", ["evicted"], client_id="me") as consumer:
        (member,) = await members(client, "evicted")
        await client.evict("evicted", member.id)
        assert await members(client, "evicted") == []
        with pytest.raises(NotFound):
            await client.evict("evicted", member.id)

        async def is_back():
            await consumer.poll(timeout=0.05)
            return [one.client_id for one in await members(client, "evicted")] == ["me"]

        await eventually(is_back)


async def test_nobody_is_evicted_from_a_group_that_does_not_exist(client):
    with pytest.raises(GroupNotFound, match="there is no group 'nobodys'"):
        await client.evict("nobodys", "member")


async def test_a_consumer_that_does_not_poll_leaves_and_comes_back_with_its_next_poll(start_broker, caplog):
    broker = start_broker(GOQUEUE_GROUPS_HEARTBEAT_INTERVAL_MS=100)
    async with connect(f"http://{broker.http}") as client:
        await client.create_topic("stuck", partitions=1)
        async with client.producer() as producer:
            await producer.send_and_wait("stuck", "a")
        async with client.consumer("stuck", ["stuck"], poll_interval_max="300ms") as consumer:
            assert [one.text for one in await consumer.poll(timeout=5)] == ["a"]
            await consumer.commit()

            async def is_gone():
                return not await members(client, "stuck")

            await eventually(is_gone)
            assert "has not polled for 0.3 s" in caplog.text
            async with client.producer() as producer:
                await producer.send_and_wait("stuck", "b")
            got = []

            async def is_read():
                got.extend(one.text for one in await consumer.poll(timeout=0.1))
                return got

            await eventually(is_read)
            assert got[-1] == "b"
