"""A client that is closed leaves no socket open, whatever the other side does."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from goqueue.client.sockets import Sockets


async def connected(sockets: Sockets, port: int) -> socket.socket:
    made = sockets.make((socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ()))
    made.setblocking(False)
    await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", port))
    return made


@asynccontextmanager
async def silent_server() -> AsyncIterator[int]:
    """The port of a server that never answers. Its own end of the one connection is closed when the block ends."""
    closed = asyncio.Event()

    async def never_say_anything(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        await writer.wait_closed()
        closed.set()

    server = await asyncio.start_server(never_say_anything, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
        await asyncio.wait_for(closed.wait(), 10)


async def test_a_connection_whose_other_side_says_no_farewell_is_ended() -> None:
    async with silent_server() as port:
        sockets = Sockets()
        made = await connected(sockets, port)
        await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=made)
        await sockets.all_closed()
        assert made.fileno() == -1


async def test_a_connection_that_is_closing_is_waited_for() -> None:
    async with silent_server() as port:
        sockets = Sockets()
        made = await connected(sockets, port)
        transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=made)
        asyncio.get_running_loop().call_later(0.02, transport.close)
        await sockets.all_closed()
        assert made.fileno() == -1


async def test_without_a_socket_nothing_is_waited_for() -> None:
    await asyncio.wait_for(Sockets().all_closed(), 0.2)
