"""What every request passes before its route: the check of browsers and, with security, the login."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from goqueue.caller import ANONYMOUS, Caller, plain_address, printable
from goqueue.servers.access.doors import HTTP_NEEDS, DoorNeed, require
from goqueue.servers.http.admission.browser_guard import BrowserGuard

if TYPE_CHECKING:
    from goqueue.servers.http.admission.login import HttpLogin
    from goqueue.servers.http.route import Route
    from goqueue.servers.services import Services

_CLIENT_ID = "X-Client-Id"
_CLIENT_ID_CHARS_MAX = 256
_TRACE_CHARS_MAX = 256


class Entrances(msgspec.Struct, frozen=True):
    """Makes the entrance of every route. `login` is there with security."""

    browser_guard: BrowserGuard
    login: HttpLogin | None = None

    def of(self, route: Route, services: Services) -> Entrance:
        """The entrance of one route."""
        if self.login is None:
            return Entrance(self.browser_guard, services)
        needs = HTTP_NEEDS.get((route.method, route.path))
        return _GuardedEntrance(self.browser_guard, services, self.login, needs)


class Entrance:
    """Without security: everybody comes in."""

    def __init__(self, browser_guard: BrowserGuard, services: Services) -> None:
        self._check_browser = browser_guard.check
        self._services = services

    async def services_for(self, request: web.Request, request_id: str) -> Services:
        """The services as the sender of the request may use them."""
        self._check_browser(request)
        return self._services.for_caller(caller_of(request, request_id, plain_address(request.remote or "")))

    def leave(self, request: web.Request) -> None:
        """The request is answered."""


class _GuardedEntrance(Entrance):
    """With security: the sender says who it is, and the route says what it needs."""

    def __init__(
        self, browser_guard: BrowserGuard, services: Services, login: HttpLogin, needs: DoorNeed | None
    ) -> None:
        super().__init__(browser_guard, services)
        self._login = login
        self._needs = needs

    async def services_for(self, request: web.Request, request_id: str) -> Services:
        self._check_browser(request)
        address = plain_address(request.remote or "")
        principal = self._login.by_key(request, address) or await self._login.identified(request, address, self._needs)
        bound = self._services.for_caller(caller_of(request, request_id, address, principal))
        require(bound, self._needs, request.match_info.get("subject"))
        return bound

    def leave(self, request: web.Request) -> None:
        self._login.leave(request)


def caller_of(request: web.Request, request_id: str, address: str, principal: str = ANONYMOUS.principal) -> Caller:
    """Who asks, as far as the connection, the headers and the login say."""
    headers = request.headers
    return Caller(
        client_id=printable((headers.get(_CLIENT_ID) or headers.get("User-Agent") or "")[:_CLIENT_ID_CHARS_MAX]),
        address=address,
        principal=principal,
        protocol="http",
        trace=printable(headers.get("traceparent", "")[:_TRACE_CHARS_MAX]),
        request_id=request_id,
    )
