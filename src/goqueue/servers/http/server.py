"""The HTTP server: an application on a socket that is bound already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from aiohttp import web

from goqueue.servers.doors import Door, OpenDoor
from goqueue.servers.http.app import make_app
from goqueue.servers.http.guard import ConnectionGuard
from goqueue.servers.http.malformed import request_logger
from goqueue.servers.services import Services

# Requests under way at a stop get this long; long polls are cut short after it.
STOP_SECONDS_MAX = 2.0


class HttpServer:
    """Serves HTTP from `start` until `stop`; a second stop does no harm."""

    def __init__(self, services: Services, doors: Sequence[Door]) -> None:
        self._doors = doors
        self._config = services.config
        self._guard: ConnectionGuard | None = None
        self._open: list[OpenDoor] = []
        self._runner = web.AppRunner(
            make_app(services, self._heard),
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

    def _heard(self, protocol: object) -> None:
        if self._guard is not None:
            self._guard.spoke(protocol)
