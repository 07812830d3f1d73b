"""The HTTP server: an application on a socket that is bound already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from aiohttp import web

from goqueue.servers.doors import Door, OpenDoor
from goqueue.servers.http.admission.browser_guard import BrowserGuard
from goqueue.servers.http.admission.entrance import Entrances
from goqueue.servers.http.admission.guard import ConnectionGuard
from goqueue.servers.http.admission.malformed import request_logger
from goqueue.servers.http.app import ROUTES, make_app
from goqueue.servers.operations import Route
from goqueue.servers.services import Services

if TYPE_CHECKING:
    from goqueue.security.service import Security

# Requests under way at a stop get this long; long polls are cut short after it.
STOP_SECONDS_MAX = 2.0


class HttpServer:
    """Serves HTTP from `start` until `stop`; a second stop does no harm."""

    def __init__(
        self,
        services: Services,
        doors: Sequence[Door],
        routes: Sequence[Route] = ROUTES,
        *,
        security: Security | None = None,
    ) -> None:
        self._doors = doors
        self._config = services.config
        self._guard: ConnectionGuard | None = None
        self._open: list[OpenDoor] = []
        self._runner = web.AppRunner(
            make_app(services, self._heard, _entrances(services, doors, security), routes),
            access_log=None,
            logger=request_logger(),
            keepalive_timeout=services.config.http.idle_ms / 1000,
            shutdown_timeout=STOP_SECONDS_MAX,
            handler_cancellation=True,
        )

    async def start(self) -> None:
        """Accept connections."""
        await self._runner.setup()
        self._guard = ConnectionGuard(
            cast("web.Server", self._runner.server),
            connections_max=self._config.limits.connections_max,
            first_request_ms=self._config.http.first_request_ms,
            per_address_max=self._config.limits.connections_per_address_max,
        )
        for door in self._doors:
            accepting = OpenDoor(door, self._guard)
            await accepting.open()
            self._open.append(accepting)

    async def stop(self) -> None:
        """Let the requests under way finish, then close every connection."""
        for accepting in self._open:
            accepting.close()
        await self._runner.cleanup()

    @property
    def connection_count(self) -> int:
        """How many clients are connected."""
        server = self._runner.server
        return 0 if server is None else len(server.connections)

    def _heard(self, protocol: object) -> None:
        if self._guard is not None:
            self._guard.spoke(protocol)


def _entrances(services: Services, doors: Sequence[Door], security: Security | None) -> Entrances:
    config = services.config.http
    guard = BrowserGuard(
        names=[door.host for door in doors], allowed_hosts=config.allowed_hosts, cors_origin=config.cors_origin
    )
    if security is None:
        return Entrances(guard)
    from goqueue.servers.http.admission.login import HttpLogin

    return Entrances(guard, HttpLogin(security))
