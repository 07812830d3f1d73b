"""`connect("grpc://...")`: addresses, errors, restarts, and the synchronous client."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from tests.e2e.conftest import StartBroker
from tests.e2e.process import BrokerProcess

from goqueue.client import (
    BrokerUnreachable,
    InvalidArgument,
    RequestRefused,
    TopicNotFound,
    TopicPartition,
    connect,
    sync,
)
from goqueue.client.retry import RetryPolicy


@pytest.mark.parametrize("address", ["grpc://", "grpc://host", "grpc://host:1/path", "grpc://host:1,http://other:2"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(InvalidArgument, match=r"grpc://127\.0\.0\.1:9000"):
        connect(address)


async def test_nobody_there_is_one_clear_error() -> None:
    async with connect("grpc://127.0.0.1:9", retry=RetryPolicy(attempts_max=2, delay_ms_first=1)) as client:
        with pytest.raises(BrokerUnreachable, match=r"127\.0\.0\.1:9"):
            await client.topics()


async def test_the_next_address_is_tried(broker: BrokerProcess) -> None:
    async with connect(["grpc://127.0.0.1:9", f"grpc://{broker.grpc}"]) as client:
        assert isinstance(await client.topics(), list)


async def test_an_error_is_what_it_is_over_http(broker: BrokerProcess) -> None:
    async with connect(f"grpc://{broker.grpc}") as client, connect(f"http://{broker.http}") as other:
        for one in (client, other):
            with pytest.raises(TopicNotFound) as absent:
                await one.topic("absent")
            assert (absent.value.status, absent.value.code, absent.value.field) == (404, "topic_not_found", "topic")
            with pytest.raises(RequestRefused) as refused:
                await one.create_topic("a", partitions=0)
            assert (refused.value.status, refused.value.code, refused.value.field) == (
                400,
                "invalid_request",
                "num_partitions",
            )


def said(answer: Mapping[str, Any]) -> dict[str, Any]:
    """What an answer says: JSON leaves out some of what is empty or false. Times go on between two questions."""
    return {
        name: said(one)
        if isinstance(one, dict)
        else [said(row) if isinstance(row, dict) else row for row in one]
        if isinstance(one, list)
        else one
        for name, one in answer.items()
        if one not in ([], {}, None, False, "") and name not in {"lag_seconds", "stored"}
    }


async def test_answers_are_the_same_over_both_transports(broker: BrokerProcess) -> None:
    async with connect(f"grpc://{broker.grpc}") as ours, connect(f"http://{broker.http}") as theirs:
        await ours.create_topic("same", partitions=2, config={"retention.ms": "60000"})
        async with ours.producer() as producer:
            await producer.send_and_wait("same", b"\xff", key="k", headers={"h": b"\xfe", "n": None}, partition=1)
            await producer.send_and_wait("same", "text", partition=1)
            await producer.send_and_wait("same", "later", delay="1h")
        assert said(await ours.topic("same")) == said(await theirs.topic("same"))
        assert await ours.read("same", 1) == await theirs.read("same", 1)
        assert await ours.read_lanes("same", 1) == await theirs.read_lanes("same", 1)
        (delayed,) = await ours.delayed.list("same")
        (known,) = await theirs.delayed.list("same")
        assert (delayed["slot"], delayed["deliver_at"]) == (known["slot"], known["deliver_at"])
        async with ours.queue("same", group="same") as queue:
            (message, *_) = await queue.receive(limit=1, wait="5s")
            await queue.reject(message, error="broken")
        # Compared once the rejected message has become a dead letter: until then positions change between two answers.
        for _ in range(400):
            if (await theirs.dead_letters("same")).letters:
                break
            await asyncio.sleep(0.05)
        assert [*map(said, await ours.groups())] == [*map(said, await theirs.groups())]
        assert said(await ours.group("same")) == said(await theirs.group("same"))
        assert said(await ours.policy("same")) == said(await theirs.policy("same"))
        await ours.alter_policy("same", visibility="1m", retries_max=7)
        assert said(await ours.alter_policy("same", visibility=None)) == said(await theirs.policy("same"))
        assert (await ours.group_offsets("same")).total_lag == (await theirs.group_offsets("same")).total_lag
        assert said(await ours.dead_letters("same")) == said(await theirs.dead_letters("same"))
        assert (await (await ours.redrive("same", dry_run=True)).wait()).matched == 1
        assert (await ours.reliability_stats("same"))["dlq"] == (await theirs.reliability_stats("same"))["dlq"]
        assert (await ours.priority_stats("same")).keys() == (await theirs.priority_stats("same")).keys()
        await ours.schedules.create("nightly", "0 3 * * *", "same", "text", headers={"h": "1"})
        assert [*map(said, await ours.schedules.list())] == [*map(said, await theirs.schedules.list())]
        assert (await ours.delayed.stats()).keys() == (await theirs.delayed.stats()).keys()
        altered = await ours.alter_topic("same", config={"retention.ms": None, "max.message.bytes": "2000"})
        assert altered.overrides == (await theirs.topic("same")).overrides == {"max.message.bytes": "2000"}
        async with ours.consumer("moved", ["same"], auto_commit=False) as consumer:
            await consumer.commit({TopicPartition("same", 1): 1})
        moved = await ours.reset_offsets("moved", to={"offset": 2}, topic="same", partitions=[1])
        assert (moved.changes, moved.dry_run) == ([{"topic": "same", "partition": 1, "from": 1, "to": 2}], False)
        dry = await theirs.reset_offsets("moved", to="earliest", dry_run=True)
        assert said(await ours.reset_offsets("moved", to="earliest", dry_run=True)) == said(dry)


async def test_schemas_and_stories_are_the_same_over_both_transports(broker: BrokerProcess) -> None:
    text = '{"type": "object", "properties": {"name": {"type": "string"}}}'
    async with connect(f"grpc://{broker.grpc}") as ours, connect(f"http://{broker.http}") as theirs:
        registered = await ours.schemas.register("told-value", text)
        assert await ours.schemas.versions("told-value") == await theirs.schemas.versions("told-value") == [1]
        assert await ours.schemas.version("told-value") == await theirs.schemas.version("told-value")
        assert await ours.schemas.by_id(registered.id) == await theirs.schemas.by_id(registered.id)
        assert await ours.schemas.lookup("told-value", text) == await theirs.schemas.lookup("told-value", text)
        assert await ours.schemas.check("told-value", text) == await theirs.schemas.check("told-value", text)
        assert await ours.schemas.subjects() == await theirs.schemas.subjects()
        await ours.schemas.set_config("told-value", compatibility="FULL")
        assert said(await ours.schemas.config("told-value")) == said(await theirs.schemas.config("told-value"))
        assert await ours.schemas.delete("told-value", 1) == [1]
        async with ours.producer() as producer:
            await producer.send_and_wait("stories", "once upon a time", partition=0)
        assert said(await ours.story("stories", 0, 0)) == said(await theirs.story("stories", 0, 0))
        found = await ours.search_traces(topic="stories", start="2020-01-01T00:00:00Z")
        assert [one["offset"] for one in found["traces"]] == [0]


async def test_producers_consumers_and_queues_live_through_a_restart(start_broker: StartBroker) -> None:
    broker = start_broker()
    async with connect(f"grpc://{broker.grpc}", retry=RetryPolicy(attempts_max=30)) as client:
        await client.create_topic("t", partitions=1)
        async with (
            client.producer() as producer,
            client.consumer("readers", ["t"]) as consumer,
            client.queue("t", group="workers") as queue,
        ):
            for turn in range(2):
                await producer.send_and_wait("t", str(turn))
                (message,) = await queue.receive(limit=10, wait="10s")
                assert message.text == str(turn)
                await queue.ack(message)
                read: list[str] = []
                while not read:
                    read = [one.text for one in await consumer.poll(timeout="1s")]
                assert read == [str(turn)]
                await consumer.commit()
                if turn == 0:
                    broker.kill()
                    broker.start()
        messages, _ = await client.read("t", 0)
        assert [one.text for one in messages] == ["0", "1"]
        assert (await client.group("readers")).offsets[0].committed == 2


def test_the_synchronous_client_takes_the_address_too(broker: BrokerProcess) -> None:
    with sync.connect(f"grpc://{broker.grpc}") as client:
        client.create_topic("blocking", partitions=1)
        with client.producer() as producer:
            producer.send_and_wait("blocking", "hello")
        with client.consumer("blocking", ["blocking"]) as consumer:
            found: list[str] = []
            while not found:
                found = [one.text for one in consumer.poll(timeout="1s")]
            consumer.seek(TopicPartition("blocking", 0), 0)
        assert found == ["hello"]


def test_a_client_over_http_imports_no_grpc() -> None:
    program = (
        "import sys, asyncio\n"
        "from goqueue.client import connect\n"
        "connect('http://127.0.0.1:9')\n"
        "assert not {one for one in sys.modules if one.split('.')[0] in {'grpc', 'google'}}, sorted(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
