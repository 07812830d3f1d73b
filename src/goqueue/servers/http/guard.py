"""Keeps callers who connect and say nothing from holding all the connections there are.

A connection must bring its first request within a time, or it is closed; and there are only
so many connections. What comes after the first request is the keep-alive timeout's business.
"""

from __future__ import annotations

import asyncio
from typing import cast

from aiohttp.web_protocol import RequestHandler
from aiohttp.web_server import Server


class ConnectionGuard:
    """Makes the protocols of new connections, and watches those that have not spoken yet."""

    def __init__(self, server: Server, *, connections_max: int, first_request_ms: int) -> None:
        self._server = server
        self._connections_max = connections_max
        self._first_request_seconds = first_request_ms / 1000
        # Each stays here until it speaks or its time is up, so the set cannot grow for long.
        self._silent: set[object] = set()

    def __call__(self) -> asyncio.Protocol:
        """The protocol of a new connection."""
        if len(self._server.connections) >= self._connections_max:
            return _Refused()
        protocol = self._server()
        self._silent.add(protocol)
        asyncio.get_running_loop().call_later(self._first_request_seconds, self._check, protocol)
        return protocol

    def spoke(self, protocol: object) -> None:
        """A request came on this connection."""
        self._silent.discard(protocol)

    def _check(self, protocol: RequestHandler) -> None:
        if protocol in self._silent:
            self._silent.discard(protocol)
            protocol.force_close()


class _Refused(asyncio.Protocol):
    """One connection too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).abort()
