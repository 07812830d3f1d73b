"""The sockets of one client, so that closing the client can wait until each of them is closed.

Over TLS both sides say farewell before a connection ends. aiohttp does not wait for the connections that it has taken
out of its pool, such as WebSockets, and a loop that ends before they do leaves them open.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
import weakref

from aiohttp import AddrInfoType

# How long the other side may take to say farewell, and how long a connection may take to notice that it was ended.
_FAREWELL_S = 0.25
_ENDING_S = 1.0
_LOOK_EVERY_S = 0.002


class Sockets:
    """Makes sockets for a pool of connections and knows which of them are still open."""

    def __init__(self) -> None:
        self._made: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    def make(self, address: AddrInfoType) -> socket.socket:
        """A socket for one connection."""
        family, kind, protocol, _, _ = address
        made = socket.socket(family, kind, protocol)
        self._made.add(made)
        return made

    async def all_closed(self) -> None:
        """Wait until every socket is closed. One whose other side says no farewell is ended."""
        if await self._closed_within(_FAREWELL_S):
            return
        for one in self._open():
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        await self._closed_within(_ENDING_S)

    async def _closed_within(self, limit_s: float) -> bool:
        end = time.monotonic() + limit_s
        while self._open():
            if time.monotonic() > end:
                return False
            await asyncio.sleep(_LOOK_EVERY_S)
        return True

    def _open(self) -> list[socket.socket]:
        return [one for one in self._made if one.fileno() != -1]
