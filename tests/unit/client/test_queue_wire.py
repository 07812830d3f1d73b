"""One queue connection that many requests share, when the broker refuses some of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import aiohttp
import msgspec
import pytest

from goqueue.client.errors import BrokerUnavailable, ClientClosed
from goqueue.client.queues.frames import encode
from goqueue.client.queues.wire import QueueWire
from goqueue.client.retry import RetryPolicy
from goqueue.client.transport import OpenedSocket

AWAY = {"code": "not_leader", "message": "no node leads the partition"}


class Socket:
    """Refuses receives of the topic `away`, and answers those of others when told."""

    def __init__(self) -> None:
        self.closed = False
        self.is_asked, self.go = asyncio.Event(), asyncio.Event()
        self._replies: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._answering: set[asyncio.Task[None]] = set()

    async def send_bytes(self, data: bytes) -> None:
        kind, number, *fields = msgspec.msgpack.decode(data)
        if kind != "receive":
            return
        topic = fields[0]
        task = asyncio.create_task(self._answer(number, topic))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _answer(self, number: int, topic: str) -> None:
        if topic == "away":
            self._replies.put_nowait(encode(("error", number, 503, AWAY)))
            return
        self.is_asked.set()
        await self.go.wait()
        row = (5, 0, None, b"found", (), 2)
        self._replies.put_nowait(encode(("messages", number, 0, [(topic, 0, 1, "nonce", 0, 0, [row])])))

    async def close(self) -> None:
        self.closed = True
        self._replies.put_nowait(None)

    async def __aiter__(self) -> AsyncIterator[Any]:
        while (data := await self._replies.get()) is not None:
            yield SimpleNamespace(type=aiohttp.WSMsgType.BINARY, data=data)


class Transport:
    """Opens a socket to the address in use."""

    def __init__(self, *servers: str) -> None:
        self.retry = RetryPolicy(attempts_max=3, delay_ms_first=1)
        self.timeout_s = 30.0
        self.server, self._others = servers[0], servers[1:]
        self.sockets: list[Socket] = []
        self.is_opened = asyncio.Event()

    async def open_socket(self, _path: str, _protocol: str) -> OpenedSocket:
        self.sockets.append(Socket())
        self.is_opened.set()
        return OpenedSocket(self.sockets[-1])  # type: ignore[arg-type]

    def next_server(self, tried: str) -> None:
        if tried == self.server:
            self.server, *self._others = *self._others, self.server


@pytest.mark.parametrize("servers", [["http://one:1"], ["http://one:1", "http://two:1"]])
async def test_a_refusal_that_passes_ends_no_other_request(servers: list[str]) -> None:
    wire = QueueWire(transport := Transport(*servers))  # type: ignore[arg-type]
    receiving = asyncio.create_task(wire.receive("here", "g", "c", 1, 20_000, None))
    await transport.is_opened.wait()
    first = transport.sockets[0]
    await first.is_asked.wait()

    with pytest.raises(BrokerUnavailable, match="no node leads"):
        await wire.receive("away", "g", "c", 1, 20_000, None)

    assert not first.closed
    # With one address there is no better connection.
    assert len(transport.sockets) == (1 if len(servers) == 1 else 3)
    first.go.set()
    (message,) = await asyncio.wait_for(receiving, 5)
    assert message.value == b"found"
    await wire.close()
    assert all(one.closed for one in transport.sockets)


async def test_a_connection_that_is_still_used_is_closed_with_its_client() -> None:
    wire = QueueWire(transport := Transport("http://one:1", "http://two:1"))  # type: ignore[arg-type]
    receiving = asyncio.create_task(wire.receive("here", "g", "c", 1, 20_000, None))
    await transport.is_opened.wait()
    await transport.sockets[0].is_asked.wait()
    with pytest.raises(BrokerUnavailable):
        await wire.receive("away", "g", "c", 1, 20_000, None)

    await wire.close()

    assert all(one.closed for one in transport.sockets)
    with pytest.raises(ClientClosed):
        await receiving
