"""Requests that no route takes, answered like any other refusal: 404, or 405 naming what is allowed."""

from __future__ import annotations

import msgspec
from aiohttp import web

from goqueue.servers.http.types import ErrorDetail, ErrorReply


async def unmatched(request: web.Request) -> web.Response:
    """The handler behind all others."""
    allowed: set[str] = set()
    for resource in request.app.router.resources():
        _, methods = await resource.resolve(request)
        if "*" not in methods:
            allowed |= methods
    if allowed:
        names = ", ".join(sorted(allowed))
        detail = ErrorDetail(
            code="method_not_allowed", message=f"{request.method} is not for {request.path}", hint=f"it takes {names}"
        )
        return _refuse(405, detail, {"Allow": names})
    detail = ErrorDetail(
        code="route_not_found", message=f"there is no route {request.path}", hint="GET /docs lists all"
    )
    return _refuse(404, detail, {})


def _refuse(status: int, detail: ErrorDetail, headers: dict[str, str]) -> web.Response:
    body = msgspec.json.encode(ErrorReply(error=detail, status=status))
    return web.Response(status=status, body=body, content_type="application/json", headers=headers)
