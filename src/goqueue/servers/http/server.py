"""The HTTP server: an application on a socket that is bound already."""

from __future__ import annotations

import socket

from aiohttp import web

from goqueue.servers.http.app import make_app
from goqueue.servers.services import Services

# Requests under way at a stop get this long; long polls are cut short after it.
STOP_SECONDS_MAX = 2.0


class HttpServer:
    """Serves HTTP from `start` until `stop`; a second stop does no harm."""

    def __init__(self, services: Services, listener: socket.socket) -> None:
        self._listener = listener
        self._runner = web.AppRunner(
            make_app(services),
            access_log=None,
            keepalive_timeout=services.config.http.idle_ms / 1000,
            shutdown_timeout=STOP_SECONDS_MAX,
            handler_cancellation=True,
        )

    async def start(self) -> None:
        """Accept connections."""
        await self._runner.setup()
        await web.SockSite(self._runner, self._listener).start()

    async def stop(self) -> None:
        """Let the requests under way finish, then close every connection."""
        await self._runner.cleanup()
