"""Requests that no route takes, answered like any other refusal: 404, or 405 naming what is allowed.

A browser's preflight is one of them: it asks with OPTIONS what a page from elsewhere may do.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web

from goqueue.servers.http.types.common import ErrorDetail, ErrorReply

_SESSIONS = "nodes keep sessions in the metadata store (etcd), which elects the controller too"
# Requests by which nodes of other brokers find each other, and what is asked instead.
_GONE = {
    "/cluster/heartbeat": f"{_SESSIONS}: GET /cluster/nodes shows who is alive",
    "/cluster/join": f"{_SESSIONS}: a node joins when it is started with cluster.peers",
    "/cluster/leave": f"{_SESSIONS}: a node leaves by a clean stop (SIGTERM)",
    "/cluster/vote": f"{_SESSIONS}: GET /cluster/state shows the controller and its epoch",
}


def answer_unmatched(cors_origin: str) -> Callable[[web.Request], Awaitable[web.Response]]:
    """The handler behind all others. Without an origin to allow, a preflight is refused like any stranger."""

    async def unmatched(request: web.Request) -> web.Response:
        allowed = await _allowed(request)
        if cors_origin and allowed and request.method == "OPTIONS":
            return _preflight(cors_origin, allowed)
        return _refusal(request, allowed)

    return unmatched


async def _allowed(request: web.Request) -> set[str]:
    allowed: set[str] = set()
    for resource in request.app.router.resources():
        _, methods = await resource.resolve(request)
        if "*" not in methods:
            allowed |= methods
    return allowed


def _preflight(cors_origin: str, allowed: set[str]) -> web.Response:
    headers = {
        "Access-Control-Allow-Origin": cors_origin,
        "Access-Control-Allow-Methods": ", ".join(sorted(allowed)),
        "Access-Control-Allow-Headers": "Content-Type, Authorization, X-Request-Id, Last-Event-ID",
        "Access-Control-Max-Age": "300",
    }
    return web.Response(status=204, headers=headers)


def _refusal(request: web.Request, allowed: set[str]) -> web.Response:
    if allowed:
        names = ", ".join(sorted(allowed))
        detail = ErrorDetail(
            code="method_not_allowed", message=f"{request.method} is not for {request.path}", hint=f"it takes {names}"
        )
        return _refuse(405, detail, {"Allow": names})
    hint = _GONE.get(request.path, "GET /docs lists all")
    detail = ErrorDetail(code="route_not_found", message=f"there is no route {request.path}", hint=hint)
    return _refuse(404, detail, {})


def _refuse(status: int, detail: ErrorDetail, headers: dict[str, str]) -> web.Response:
    body = msgspec.json.encode(ErrorReply(error=detail, status=status))
    return web.Response(status=status, body=body, content_type="application/json", headers=headers)
