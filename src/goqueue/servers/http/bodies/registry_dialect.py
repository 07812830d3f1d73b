"""How the schema registry answers: its media type, and errors by its numbers."""

from __future__ import annotations

import msgspec
from aiohttp import web

from goqueue.errors import GoQueueError, wire_of
from goqueue.servers.http.types.schemas import RegistryError

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
_encode = msgspec.json.Encoder().encode


def media_type_for(request: web.Request) -> str:
    """The registry's own type, for those that ask for it; plain JSON for all others."""
    return MEDIA_TYPE if "schemaregistry" in request.headers.get("Accept", "") else "application/json"


def refuse_as_registry(error: GoQueueError, field: str | None, media_type: str) -> web.Response:
    """An error as a response of the registry."""
    wire = wire_of(error)
    headers = {"Retry-After": "1"} if wire.http in {429, 503} else None
    body = RegistryError(
        error_code=wire.registry or wire.http, message=str(error), code=wire.code, field=field, hint=error.hint
    )
    return web.Response(status=wire.http, body=_encode(body), content_type=media_type, headers=headers)
