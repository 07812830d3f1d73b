"""Who sends an HTTP request, and the end of requests whose sender loses an access while they wait."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from aiohttp import web

from goqueue.caller import ANONYMOUS
from goqueue.errors import AuthenticationRequired
from goqueue.servers.access.doors import DoorNeed, is_open
from goqueue.servers.header_login import HeaderLogin

if TYPE_CHECKING:
    from goqueue.security.authentication import Identity
    from goqueue.security.service import Security
    from goqueue.security.store import Losers

_REVOKED_SECONDS = 0.1


class _UnderWay(NamedTuple):
    """A request that is not answered yet. The timer ends it with its credential."""

    request: web.Request
    principal: str
    timer: asyncio.TimerHandle | None


class HttpLogin:
    """Turns the headers of a request into a principal, and ends requests of principals that lost an access."""

    def __init__(self, security: Security) -> None:
        self._security = security
        self._headers = HeaderLogin(security.authenticator)
        self._open_routes = frozenset(security.config.open_routes)
        # By identity: requests compare like mappings.
        self._in_flight: dict[int, _UnderWay] = {}
        security.store.subscribe(self._revoke)

    def by_key(self, request: web.Request, address: str) -> str | None:
        """The principal of a good API key, without a wait; None means to ask `identified`."""
        transport = request.transport
        peer = None if transport is None else transport.get_extra_info("peername")
        identity = self._headers.by_key(request.headers.get, address, peer)
        if identity is None:
            return None
        self._watch(request, identity)
        return identity.principal

    async def identified(self, request: web.Request, address: str, needs: DoorNeed | None) -> str:
        """The principal of the sender; raises if it must authenticate and did not."""
        transport = request.transport
        peer = None if transport is None else transport.get_extra_info("peername")
        certificate = None if transport is None else transport.get_extra_info("peercert")
        identity = await self._headers.identity(request.headers.get, certificate, address, peer)
        if identity is None:
            if needs is not None and is_open(needs, self._open_routes):
                return ANONYMOUS.principal
            # Not slowed: browsers and clients ask without credentials first.
            raise AuthenticationRequired
        self._watch(request, identity)
        return identity.principal

    # --- requests under way -------------------------------------------------------------

    def _watch(self, request: web.Request, identity: Identity) -> None:
        """Until it leaves, the request ends when its principal loses an access or its credential expires.

        From the login on: a request whose body comes in slowly is under way while it comes.
        """
        timer = None
        if identity.expires_ms:
            seconds = (identity.expires_ms - self._security.clock.now_ms()) / 1000
            timer = asyncio.get_running_loop().call_later(max(seconds, 0), _end, request)
        self._in_flight[id(request)] = _UnderWay(request, identity.principal, timer)

    def leave(self, request: web.Request) -> None:
        """The request is answered."""
        left = self._in_flight.pop(id(request), None)
        if left is not None and left.timer is not None:
            left.timer.cancel()

    def _revoke(self, principals: Losers) -> None:
        loop = asyncio.get_running_loop()
        for one in self._in_flight.values():
            if principals is None or one.principal in principals:
                # Not at once: it may be the request that made the change.
                loop.call_later(_REVOKED_SECONDS, self._end_if_under_way, one.request)

    def _end_if_under_way(self, request: web.Request) -> None:
        if id(request) in self._in_flight:
            _end(request)


def _end(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
