"""Queues over one WebSocket: many consumers on one connection, cancellation, a stop, and clients that send nonsense."""

from __future__ import annotations

import asyncio
import itertools
import time

import aiohttp
import msgspec
import pytest
from aiohttp import web

from goqueue.client import BrokerUnreachable, connect

numbers = itertools.count()
pack = msgspec.msgpack.encode


@pytest.fixture
async def client(broker):
    async with connect(f"http://{broker.http}") as client:
        yield client


@pytest.fixture
async def topic(client):
    name = f"queue-connection-{next(numbers)}"
    await client.create_topic(name, partitions=2)
    return name


async def publish(client, topic, *values):
    async with client.producer() as producer:
        for value in values:
            await producer.send(topic, value)


async def test_many_consumers_of_one_client_get_every_message_once(client, topic):
    await publish(client, topic, *[str(number) for number in range(300)])
    seen: list[str] = []

    async def work() -> None:
        async with client.queue(topic, group="workers") as queue:
            while len(seen) < 300:
                for message in await queue.receive(limit=1, wait="100ms"):
                    seen.append(message.text)
                    await queue.ack(message)

    async with asyncio.timeout(60):
        await asyncio.gather(*(work() for _ in range(16)))

    assert sorted(seen, key=int) == [str(number) for number in range(300)]
    assert (await client.group_offsets("workers")).total_lag == 0


async def test_a_receive_that_is_cancelled_takes_nothing(client, topic):
    async with client.queue(topic, group="g") as queue:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await queue.receive(limit=1, wait="30s")
        await publish(client, topic, "one")

        started = time.monotonic()
        (message,) = await queue.receive(limit=1, wait="20s")
        assert (message.text, message.delivery_count) == ("one", 1)
        assert time.monotonic() - started < 15, "nobody held it in between"
        await queue.ack(message)


async def test_a_broker_stops_at_once_and_the_consumer_goes_on_with_the_next(start_broker):
    broker = start_broker()
    async with connect(f"http://{broker.http}") as client:
        await client.create_topic("t", partitions=1)
        async with client.queue("t", group="g") as queue:
            waiting = asyncio.create_task(_first(queue))
            await asyncio.sleep(0.2)
            await asyncio.to_thread(broker.stop)
            await asyncio.to_thread(broker.start)
            await publish(client, "t", "after")

            async with asyncio.timeout(30):
                assert (await waiting).text == "after"


async def _first(queue):
    async for message in queue:
        await queue.ack(message)
        return message
    return None


async def test_frames_that_are_not_valid_are_answered_and_harm_nothing(broker, client, topic):
    async with aiohttp.ClientSession() as session:
        url = f"http://{broker.http}/queue/connection"
        async with session.get(url) as plain:
            answer = await plain.json()
            assert (plain.status, answer["error"]["message"]) == (400, "the request is not a WebSocket handshake")
        async with session.ws_connect(url, protocols=("goqueue.queue.v1",)) as socket:
            assert socket.protocol == "goqueue.queue.v1"

            async def ask(frame: bytes):
                await socket.send_bytes(frame)
                return msgspec.msgpack.decode(await socket.receive_bytes(timeout=10))

            await socket.send_str("hello")
            assert msgspec.msgpack.decode(await socket.receive_bytes())[:3] == ["error", -1, 400]
            assert (await ask(b"\xc1"))[:3] == ["error", -1, 400]
            assert (await ask(pack(["receive", 4, "no-such-topic", "g", "c", 1])))[:3] == ["error", 4, 404]
            assert (await ask(pack(["receive", 5, topic, "g", "c", 1, 0, None, 9])))[:3] == ["error", 5, 404]
            assert (await ask(pack(["settle", 6, "reject", [[f"{topic}:0", 1, "0.aa", [1]]]])))[:3] == ["error", 6, 400]
            refused = await ask(pack(["settle", 7, "ack", [[f"{topic}:0", 1, "nonsense", [1]]]]))
            assert refused[:2] == ["settled", 7]
            assert refused[2][0][5] == 400
            await socket.send_bytes(pack(["receive", 8, topic, "g", "c", 1, 20_000]))
            assert (await ask(pack(["receive", 8, topic, "g", "c", 1])))[:3] == ["error", 8, 400], "its id is in use"
            await socket.send_bytes(pack(["cancel", 8]))
            assert await ask(pack(["receive", 9, topic, "g", "c", 1])) == ["messages", 9, 0, []]


async def test_messages_that_cannot_be_handed_over_are_available_at_once(broker, client, topic):
    async with aiohttp.ClientSession() as session:
        socket = await session.ws_connect(f"http://{broker.http}/queue/connection")
        await socket.send_bytes(pack(["receive", 1, topic, "g", "c", 10, 20_000]))
        await asyncio.sleep(0.1)
        await socket.close()
    await publish(client, topic, "one")

    async with client.queue(topic, group="g") as queue:
        (message,) = await queue.receive(limit=1, wait="10s")
        assert message.delivery_count == 1
        await queue.ack(message)


async def test_a_broker_without_queue_connections_is_spoken_to_in_json(broker):
    """As it is behind a proxy that knows no WebSockets."""
    target = f"http://{broker.http}"

    async def forward(request: web.Request) -> web.Response:
        if request.path == "/queue/connection":
            return web.Response(status=404)
        async with session.request(request.method, target + request.path_qs, data=await request.read()) as answer:
            return web.Response(status=answer.status, body=await answer.read())

    async with aiohttp.ClientSession() as session:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", forward)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        try:
            async with connect(f"http://127.0.0.1:{port}") as client:
                await client.create_topic("json-only", partitions=1, exist_ok=True)
                await publish(client, "json-only", "one", "two")
                async with client.queue("json-only", group="g") as queue:
                    messages = await queue.receive(limit=10, wait="10s")
                    results = await queue.ack(*messages)
            assert [one.text for one in messages] == ["one", "two"]
            assert [one.action for one in results] == ["acked", "acked"]
        finally:
            await runner.cleanup()


async def test_no_broker_is_one_clear_error():
    async with connect("http://127.0.0.1:9", timeout=2) as client:
        with pytest.raises(BrokerUnreachable, match=r"127\.0\.0\.1:9"):
            async with client.queue("t", reconnect_max=0) as queue:
                await queue.receive(limit=1, wait=0)
