"""A route: what it takes, what it answers, and how a request becomes a call.

Everything a caller can get wrong about a request's form is answered here, so a handler
only ever sees typed, checked values.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiohttp import web

from goqueue.errors import InvalidRequest
from goqueue.servers.services import Services


@dataclass(frozen=True, slots=True)
class Call:
    """One request, decoded: `path` holds the parts in braces, `query` and `body` are of the route's types."""

    path: Mapping[str, str]
    query: Any
    body: Any
    request: web.Request


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply with a status of its own. A handler that means 200 returns the reply alone."""

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[Services, Call], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Route:
    """One method on one path. `replies` maps the statuses of success to their types."""

    method: str
    path: str
    handle: Handler
    summary: str
    replies: Mapping[int, Any]
    body: Any = None
    query: Any = None
    body_optional: bool = False
    errors: tuple[int, ...] = (400,)


async def decode(route: Route, request: web.Request, decoder: msgspec.json.Decoder[Any] | None) -> Call:
    """The typed call that a request makes, or InvalidRequest naming the field."""
    query = _decode_query(route.query, request) if route.query is not None else None
    body = None
    if decoder is not None:
        raw = await request.read()
        if raw or not route.body_optional:
            try:
                body = decoder.decode(raw)
            except msgspec.ValidationError as problem:
                raise _naming_the_field(problem) from problem
            except msgspec.DecodeError as problem:
                raise InvalidRequest(f"the body is not valid JSON: {problem}", field="body") from problem
            except UnicodeDecodeError as problem:
                raise InvalidRequest("the body is not valid UTF-8", field="body") from problem
        else:
            body = route.body()
    return Call(request.match_info, query, body, request)


def _decode_query(kind: Any, request: web.Request) -> Any:
    given = request.query
    for name in given:
        if len(given.getall(name)) > 1:
            raise InvalidRequest(f"query parameter {name!r} is given more than once", field=name)
    try:
        return msgspec.convert(dict(given), kind, strict=False)
    except msgspec.ValidationError as problem:
        raise _naming_the_field(problem) from problem


def _naming_the_field(problem: msgspec.ValidationError) -> InvalidRequest:
    # msgspec ends its messages with " - at `$.messages[3].key`"; that path is the field.
    text = str(problem)
    message, _, path = text.partition(" - at `")
    found = path.rstrip("`").removeprefix("$").removeprefix(".")
    if not found and "unknown field" in message:
        found = message.rpartition("unknown field ")[2].strip("`")
    if not found and "required field" in message:
        found = message.rpartition("required field ")[2].strip("`")
    return InvalidRequest(message, field=found or None)
