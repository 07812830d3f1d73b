"""The way into a queue connection: a WebSocket on which many receives and settlements travel as frames."""

from __future__ import annotations

import asyncio
from weakref import WeakSet

from aiohttp import WSCloseCode, web

from goqueue.errors import InvalidRequest
from goqueue.servers.http.queue_frames.frames import PROTOCOL
from goqueue.servers.http.queue_frames.session import QueueSession
from goqueue.servers.http.route import Call, Route
from goqueue.servers.services import Services

# A client that answers no ping for this long is gone.
_HEARTBEAT_SECONDS = 30.0
# A client that does not answer a close is not waited for any longer: a stop must not depend on it.
_CLOSE_SECONDS_MAX = 1.0
OPEN: web.AppKey[WeakSet[web.WebSocketResponse]] = web.AppKey("queue_connections", WeakSet)


async def connection(services: Services, call: Call) -> web.StreamResponse:
    """Serve frames until either side closes the connection."""
    socket = web.WebSocketResponse(
        protocols=(PROTOCOL,),
        heartbeat=_HEARTBEAT_SECONDS,
        max_msg_size=services.config.http.body_bytes_max,
        compress=False,
        timeout=_CLOSE_SECONDS_MAX,
    )
    if not socket.can_prepare(call.request):
        raise InvalidRequest(
            "the request is not a WebSocket handshake",
            field="Upgrade",
            hint="open a WebSocket, or use POST /topics/{topic}/receive",
        )
    await socket.prepare(call.request)
    call.request.app[OPEN].add(socket)
    await QueueSession(services, call.request, socket).serve()
    return socket


async def close_connections(app: web.Application) -> None:
    """Let clients know that the broker is stopping."""
    opened: WeakSet[web.WebSocketResponse] = app[OPEN]
    going = [one.close(code=WSCloseCode.GOING_AWAY, message=b"the broker is stopping", drain=False) for one in opened]
    await asyncio.gather(*going, return_exceptions=True)


ROUTES = (
    Route(
        "GET",
        "/queue/connection",
        connection,
        "Receive and settle over a WebSocket, as MessagePack frames",
        {101: "application/msgpack"},
    ),
)
