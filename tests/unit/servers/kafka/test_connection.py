"""A connection over a real socket: order, pipelining, limits, and a clean end."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.codec.kafka.kio_values import read_response, request_frame

from goqueue.broker.reading.answer_budget import AnswerBudget
from goqueue.config import Config, LimitsConfig
from goqueue.servers.doors import Door
from goqueue.servers.kafka import server as server_module
from goqueue.servers.kafka.api import Handler
from goqueue.servers.kafka.dispatch import Dispatcher
from goqueue.servers.kafka.server import KafkaServer
from goqueue.servers.services import Services

from .stub_handlers import HEARTBEAT, METADATA, Slow, stub

MIB = 1024 * 1024
LIMITS = LimitsConfig(connections_max=10, inflight_requests_per_connection_max=4, unsent_bytes_max=MIB)


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, *frames: bytes) -> None:
        self.writer.write(b"".join(len(one).to_bytes(4, "big") + one for one in frames))

    def send_heartbeats(self, *correlation_ids: int) -> None:
        self.send(*(request_frame(HEARTBEAT, 4, {}, correlation_id=one) for one in correlation_ids))

    async def receive(self) -> bytes:
        async with asyncio.timeout(5):
            size = int.from_bytes(await self.reader.readexactly(4), "big")
            return await self.reader.readexactly(size)

    async def receive_heartbeat(self, correlation_id: int) -> int:
        return int(read_response(HEARTBEAT, 4, await self.receive(), correlation_id=correlation_id)["error_code"])

    async def is_closed(self) -> bool:
        async with asyncio.timeout(5):
            try:
                return await self.reader.read(1) == b""
            except ConnectionError:
                return True

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


class World:
    """Servers with handlers of the test's own, and clients of them."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], Any]] = []
        self.server: KafkaServer = cast("KafkaServer", None)

    async def serve(self, handlers: dict[int, Handler], limits: LimitsConfig = LIMITS) -> KafkaServer:
        answers = AnswerBudget(
            limits.answer_bytes_max,
            unread_ms_max=limits.unread_answer_ms_max,
            wait_ms_max=limits.answer_wait_ms_max,
        )
        services = cast(
            "Services",
            SimpleNamespace(config=replace(Config(), limits=limits), answers=answers, for_caller=lambda _caller: None),
        )
        listener = socket.create_server(("127.0.0.1", 0))
        door = Door("kafka", listener, "127.0.0.1", listener.getsockname()[1])
        self.server = KafkaServer(services, [door], dispatcher=Dispatcher(services, handlers))
        await self.server.start()
        self.port = listener.getsockname()[1]
        self._undo.append(self.server.stop)
        return self.server

    async def connect(self) -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port))
        self._undo.append(client.close)
        return client

    async def close(self) -> None:
        for undo in reversed(self._undo):
            await undo()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    one = World()
    yield one
    await one.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - the condition is the server's, it has no event
            await asyncio.sleep(0.001)


def echo(context: Any, request: Any) -> dict[str, Any]:
    return {"error_code": request.generation_id}


async def test_answers_keep_the_order_of_requests_though_the_first_takes_longest(world: World) -> None:
    slow = Slow()
    await world.serve(stub(HEARTBEAT, (0, 4), slow))
    client = await world.connect()
    client.send_heartbeats(1, 2, 3)
    await until(lambda: len(slow.answers) == 3)
    for at in (2, 1, 0):
        slow.answers[at].set_result({"error_code": at})
    assert [await client.receive_heartbeat(one) for one in (1, 2, 3)] == [0, 1, 2]


async def test_a_request_that_waits_does_not_hold_up_the_work_behind_it(world: World) -> None:
    slow = Slow()
    done = []
    handlers = stub(HEARTBEAT, (0, 4), slow) | stub(METADATA, (0, 12), lambda *_: done.append(1) or {})
    await world.serve(handlers)
    client = await world.connect()
    client.send(request_frame(HEARTBEAT, 4, {}, correlation_id=1), request_frame(METADATA, 4, {}, correlation_id=2))
    await until(lambda: bool(done))
    slow.answers[0].set_result({"error_code": 3})
    assert await client.receive_heartbeat(1) == 3
    read_response(METADATA, 4, await client.receive(), correlation_id=2)


async def test_no_more_requests_are_taken_than_may_be_worked_on_at_once(world: World) -> None:
    slow = Slow()
    await world.serve(stub(HEARTBEAT, (0, 4), slow))
    client = await world.connect()
    client.send_heartbeats(*range(1, 11))
    await until(lambda: len(slow.answers) == 4)
    await asyncio.sleep(0.02)
    assert len(slow.answers) == 4
    slow.answers[0].set_result({"error_code": 7})
    assert await client.receive_heartbeat(1) == 7
    await until(lambda: len(slow.answers) == 5)
    for at in range(1, 10):
        await until(lambda at=at: len(slow.answers) > at)
        slow.answers[at].set_result({"error_code": at})
        assert await client.receive_heartbeat(at + 1) == at
    assert world.server.budget.request_bytes == 0


async def test_a_thousand_requests_in_one_read_are_all_answered(world: World) -> None:
    await world.serve(stub(HEARTBEAT, (0, 4), echo))
    client = await world.connect()
    client.send(*(request_frame(HEARTBEAT, 4, {"generation_id": at % 50}, correlation_id=at) for at in range(1000)))
    for at in range(1000):
        assert await client.receive_heartbeat(at) == at % 50


async def test_a_silent_answer_takes_no_place_in_line(world: World) -> None:
    slow = Slow()
    await world.serve(stub(HEARTBEAT, (0, 4), slow))
    client = await world.connect()
    client.send_heartbeats(1, 2)
    await until(lambda: len(slow.answers) == 2)
    slow.answers[0].set_result(cast("Any", None))
    slow.answers[1].set_result({"error_code": 5})
    assert await client.receive_heartbeat(2) == 5


@pytest.mark.parametrize(
    "data",
    [
        b"\x7f\xff\xff\xff",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x00",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\x00\x00\x00\x03abc",
        b"\x00\x00\x00\x0a" + bytes(10),
        b"\x00\x00\x00\x0e" + b"\x00\x0c\x00\x04\x00\x00\x00\x01\x00\x00\x00\xff\xff\xff",
    ],
)
async def test_bytes_that_are_no_request_close_their_connection_with_a_reason(
    world: World, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    await world.serve(stub(HEARTBEAT, (0, 4), echo))
    hostile, friendly = await world.connect(), await world.connect()
    with caplog.at_level(logging.WARNING):
        hostile.writer.write(data)
        assert await hostile.is_closed()
    assert "closing connection from 127.0.0.1: " in caplog.text
    friendly.send_heartbeats(1)
    await friendly.receive_heartbeat(1)


async def test_a_flood_of_refusals_does_not_flood_the_log(world: World, caplog: pytest.LogCaptureFixture) -> None:
    await world.serve(stub(HEARTBEAT, (0, 4), echo))
    with caplog.at_level(logging.WARNING):
        for _ in range(60):
            client = await world.connect()
            client.writer.write(b"\xff\xff\xff\xff")
            assert await client.is_closed()
    assert len(caplog.records) <= 60 // 2


async def test_one_connection_too_many_is_closed_and_the_others_live_on(world: World) -> None:
    server = await world.serve(stub(HEARTBEAT, (0, 4), echo))
    clients = [await world.connect() for _ in range(10)]
    await until(lambda: server.connection_count == 10)
    assert await (await world.connect()).is_closed()
    clients[0].send_heartbeats(1)
    await clients[0].receive_heartbeat(1)
    await clients[1].close()
    await until(lambda: server.connection_count == 9)
    late = await world.connect()
    late.send_heartbeats(2)
    await late.receive_heartbeat(2)


async def test_an_idle_connection_is_closed_and_one_that_waits_for_its_answer_is_not(world: World) -> None:
    slow = Slow()
    await world.serve(stub(HEARTBEAT, (0, 4), slow), replace(LIMITS, idle_connection_ms=50))
    idle, waiting = await world.connect(), await world.connect()
    waiting.send_heartbeats(1)
    assert await idle.is_closed()
    slow.answers[0].set_result({"error_code": 9})
    assert await waiting.receive_heartbeat(1) == 9


async def test_a_client_that_does_not_read_is_no_longer_worked_for(world: World) -> None:
    answered = []
    big = {"topics": [{"name": "x" * 10_000}] * 10}
    await world.serve(stub(METADATA, (0, 12), lambda *_: answered.append(1) or big))
    client = await world.connect()
    for one in range(400):
        client.send(request_frame(METADATA, 4, {}, correlation_id=one))
    seen = -1
    while seen != len(answered):
        seen = len(answered)
        await asyncio.sleep(0.1)
    assert 10 <= seen < 200, "it stops after the socket's buffers and unsent_bytes_max are full"
    for one in range(400):
        read_response(METADATA, 4, await client.receive(), correlation_id=one)
    assert len(answered) == 400


async def test_when_unread_answers_fill_the_memory_those_who_do_not_read_are_closed(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    big = {"topics": [{"name": "x" * 30_000}] * 100}
    limits = replace(LIMITS, answer_bytes_max=8 * MIB, unsent_bytes_max=20 * MIB)
    server = await world.serve(stub(METADATA, (0, 12), lambda *_: big), limits)
    clients = [await world.connect() for _ in range(4)]
    with caplog.at_level(logging.WARNING):
        for client in clients:
            client.send(*(request_frame(METADATA, 4, {}, correlation_id=one) for one in range(9)))
        await until(lambda: server.connection_count < 4)
    assert server.answers.bytes <= 8 * MIB + 3_100_000, "the limit, and the one answer that passed it"
    assert "unread" in caplog.text


async def test_answers_behind_a_long_poll_count_as_unread(world: World) -> None:
    poll = Slow()
    big = {"topics": [{"name": "x" * 30_000}] * 10}
    handlers = stub(HEARTBEAT, (0, 4), poll) | stub(METADATA, (0, 12), lambda *_: big)
    limits = replace(LIMITS, inflight_requests_per_connection_max=100, unsent_bytes_max=MIB)
    server = await world.serve(handlers, limits)
    client = await world.connect()
    client.send(request_frame(HEARTBEAT, 4, {}), *[request_frame(METADATA, 4, {}) for _ in range(20)])
    await until(lambda: server.answers.bytes > MIB)
    await asyncio.sleep(0.02)
    assert server.answers.bytes < 2 * MIB, "no more is answered than a connection may leave unread"
    poll.answers[0].set_result({})
    for _ in range(21):
        await client.receive()
    await until(lambda: server.answers.bytes == 0)


async def test_requests_in_halves_do_not_block_each_other_for_ever(world: World) -> None:
    sizes = []
    limits = replace(LIMITS, inflight_bytes_max=MIB)
    handlers = stub(HEARTBEAT, (0, 4), lambda context, request: sizes.append(len(request.group_id)) or {})
    server = await world.serve(handlers, limits)
    frame = request_frame(HEARTBEAT, 4, {"group_id": "g" * 900_000}, correlation_id=1)
    clients = [await world.connect() for _ in range(5)]
    for client in clients:
        client.writer.write(len(frame).to_bytes(4, "big") + frame[:600_000])
    await asyncio.sleep(0.05)
    assert server.budget.request_bytes < 3 * MIB
    for client in clients:
        client.writer.write(frame[600_000:])
    for client in clients:
        await client.receive_heartbeat(1)
    assert sizes == [900_000] * 5
    assert server.budget.request_bytes == 0


async def test_when_the_client_leaves_its_long_poll_ends_and_other_work_goes_on(world: World) -> None:
    poll, commit = Slow(), Slow()
    handlers = stub(HEARTBEAT, (0, 4), poll, ends_with_client=True) | stub(METADATA, (0, 12), commit)
    server = await world.serve(handlers)
    client = await world.connect()
    client.send(request_frame(HEARTBEAT, 4, {}), request_frame(METADATA, 4, {}))
    await until(lambda: len(commit.answers) == 1)
    await client.close()
    await until(poll.answers[0].cancelled)
    assert not commit.answers[0].done()
    commit.answers[0].set_result({})
    await until(lambda: server.connection_count == 0 and server.budget.request_bytes == 0)


async def test_a_stop_lets_requests_finish_and_tells_their_clients(world: World) -> None:
    slow = Slow()
    server = await world.serve(stub(HEARTBEAT, (0, 4), slow))
    client, idle = await world.connect(), await world.connect()
    client.send_heartbeats(1)
    await until(lambda: len(slow.answers) == 1)
    stopping = asyncio.create_task(server.stop())
    await asyncio.sleep(0.01)
    client.send_heartbeats(2)
    slow.answers[0].set_result({"error_code": 4})
    assert await client.receive_heartbeat(1) == 4
    await stopping
    assert len(slow.answers) == 1, "what comes during the stop is not taken"
    assert await client.is_closed()
    assert await idle.is_closed()
    await server.stop()


async def test_a_stop_does_not_wait_for_long_polls_nor_for_the_stuck(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "STOP_SECONDS_MAX", 0.05)
    poll, stuck = Slow(), Slow()
    server = await world.serve(stub(HEARTBEAT, (0, 4), poll, ends_with_client=True) | stub(METADATA, (0, 12), stuck))
    client, other = await world.connect(), await world.connect()
    client.send_heartbeats(1)
    other.send(request_frame(METADATA, 4, {}))
    await until(lambda: len(poll.answers) + len(stuck.answers) == 2)
    async with asyncio.timeout(2):
        await server.stop()
    assert server.connection_count == 0


async def test_small_answers_are_sent_at_once(world: World) -> None:
    server = await world.serve(stub(HEARTBEAT, (0, 4), echo))
    client = await world.connect()
    client.send_heartbeats(1)
    await client.receive_heartbeat(1)
    (connection,) = server._connections
    handle = connection._transport.get_extra_info("socket")
    assert handle.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
