"""Keeps callers who connect and say nothing from holding all the connections there are.

A connection must bring its first request within a time, or it is closed; and there are only
so many connections. What comes after the first request is the keep-alive timeout's business.
"""

from __future__ import annotations

import asyncio
import logging
from typing import cast

from aiohttp.web_protocol import RequestHandler
from aiohttp.web_server import Server

from goqueue.caller import plain_address
from goqueue.handles import are_scarce

_BODY = (
    b'{"error":{"code":"too_busy","message":"the broker accepts no more connections","retriable":true},"status":503}'
)
_TOO_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(_BODY)
) + _BODY
_log = logging.getLogger(__name__)
# A flood of refusals is told once in so long.
_TOLD_SECONDS = 10.0


class ConnectionGuard:
    """Makes the protocols of new connections, and watches those that have not spoken yet."""

    def __init__(
        self, server: Server, *, connections_max: int, first_request_ms: int, per_address_max: int = 2**31
    ) -> None:
        self._server = server
        self._connections_max = connections_max
        self._per_address_max = per_address_max
        self._first_request_seconds = first_request_ms / 1000
        # Each stays here until it speaks or its time is up, so the set cannot grow for long.
        self._silent: set[object] = set()
        self._refusals = 0
        self._told_at = -_TOLD_SECONDS

    def __call__(self) -> asyncio.Protocol:
        """The protocol of a new connection."""
        if len(self._server.connections) >= self._connections_max:
            return self._refused(f"there are {self._connections_max} connections already")
        return _Accepted(self)

    def admit(self, transport: asyncio.Transport) -> None:
        """Hand the connection to the server, or refuse it: only now can its descriptor be looked at."""
        handle = transport.get_extra_info("socket")
        protocol: asyncio.Protocol
        if handle is not None and are_scarce(handle.fileno()):
            protocol = self._refused("the process has hardly any file handles left: raise its limit (ulimit -n)")
        elif self._is_crowded(transport):
            protocol = self._refused(f"its address has {self._per_address_max} connections already")
        else:
            protocol = handler = self._server()
            self._silent.add(handler)
            asyncio.get_running_loop().call_later(self._first_request_seconds, self._check, handler)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)

    def spoke(self, protocol: object) -> None:
        """A request came on this connection."""
        self._silent.discard(protocol)

    def _is_crowded(self, transport: asyncio.Transport) -> bool:
        """Whether the address has as many connections as one may have; counted only where that could be."""
        if len(self._server.connections) < self._per_address_max:
            return False
        address = _address(transport)
        count = sum(_address(one.transport) == address for one in self._server.connections)
        return count >= self._per_address_max

    def _refused(self, reason: str) -> _Refused:
        now = asyncio.get_running_loop().time()
        self._refusals += 1
        if now >= self._told_at + _TOLD_SECONDS:
            self._told_at = now
            _log.warning("refusing an HTTP connection, %d refused so far: %s", self._refusals, reason)
        return _Refused()

    def _check(self, protocol: RequestHandler) -> None:
        if protocol in self._silent:
            self._silent.discard(protocol)
            protocol.force_close()


def _address(transport: asyncio.BaseTransport | None) -> str:
    name = transport.get_extra_info("peername") if transport is not None else None
    return plain_address(str(name[0])) if name else ""


class _Accepted(asyncio.Protocol):
    """A connection that the guard has not looked at yet."""

    def __init__(self, guard: ConnectionGuard) -> None:
        self._guard = guard

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._guard.admit(cast("asyncio.Transport", transport))


class _Refused(asyncio.Protocol):
    """One connection too many: it is told so, whatever it came for."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        connection = cast("asyncio.Transport", transport)
        connection.write(_TOO_BUSY)
        connection.close()
