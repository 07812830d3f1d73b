"""Who sends an HTTP request, and the end of requests whose sender loses an access while they wait."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from goqueue.errors import AuthenticationRequired
from goqueue.servers.access.doors import DoorNeed, is_open
from goqueue.servers.header_login import HeaderLogin

if TYPE_CHECKING:
    from goqueue.caller import Caller
    from goqueue.security.service import Security
    from goqueue.security.store import Losers

_REVOKED_SECONDS = 0.1


class HttpLogin:
    """Turns the headers of a request into a principal, and ends requests of principals that lost an access."""

    def __init__(self, security: Security) -> None:
        self._security = security
        self._headers = HeaderLogin(security.authenticator)
        self._open_routes = frozenset(security.config.open_routes)
        # By identity: requests compare like mappings.
        self._in_flight: dict[int, tuple[web.Request, str]] = {}
        security.store.subscribe(self._revoke)

    async def identified(self, request: web.Request, caller: Caller, needs: DoorNeed | None) -> Caller:
        """The caller with its principal; raises if it must authenticate and did not."""
        transport = request.transport
        peer = certificate = None
        if transport is not None:
            peer, certificate = transport.get_extra_info("peername"), transport.get_extra_info("peercert")
        identity = await self._headers.identity(request.headers.get, certificate, caller.address, peer)
        if identity is None:
            if needs is not None and is_open(needs, self._open_routes):
                return caller
            # Not slowed: browsers and clients ask without credentials first.
            raise AuthenticationRequired
        if identity.expires_ms:
            request["goqueue.expires_ms"] = identity.expires_ms
        return msgspec.structs.replace(caller, principal=identity.principal)

    # --- requests under way -------------------------------------------------------------

    @contextmanager
    def in_flight(self, request: web.Request, caller: Caller) -> Iterator[None]:
        """While it lasts, the request ends when its principal loses an access or its credential expires."""
        self._in_flight[id(request)] = request, caller.principal
        expires_ms = request.get("goqueue.expires_ms")
        timer = None
        if expires_ms:
            seconds = (expires_ms - self._security.clock.now_ms()) / 1000
            timer = asyncio.get_running_loop().call_later(max(seconds, 0), _end, request)
        try:
            yield
        finally:
            del self._in_flight[id(request)]
            if timer is not None:
                timer.cancel()

    def _revoke(self, principals: Losers) -> None:
        loop = asyncio.get_running_loop()
        for request, principal in self._in_flight.values():
            if principals is None or principal in principals:
                # Not at once: it may be the request that made the change.
                loop.call_later(_REVOKED_SECONDS, self._end_if_under_way, request)

    def _end_if_under_way(self, request: web.Request) -> None:
        if id(request) in self._in_flight:
            _end(request)


def _end(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
