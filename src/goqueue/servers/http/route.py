"""How an HTTP request becomes the call of an operation.

Everything a caller can get wrong about a request's form is answered here, so a handler
only ever sees typed, checked values.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from aiohttp import web

from goqueue.errors import InvalidRequest, RequestTimedOut
from goqueue.forms import form_problem
from goqueue.servers.operations import Answer, Call, Handler, Route

__all__ = ["Answer", "Call", "Handler", "Route", "decode"]


_CHANGING = frozenset({"POST", "PUT", "PATCH"})
_NOTHING = frozenset({b"", b"{}"})


async def decode(
    route: Route, request: web.Request, decoder: msgspec.json.Decoder[Any] | None, body_seconds_max: float
) -> Call:
    """The typed call that a request makes, or InvalidRequest naming the field."""
    query = _decode_query(route.query, request) if route.query is not None else None
    body = None
    if decoder is not None:
        raw = await _read_body(request, body_seconds_max)
        if raw or not route.body_optional:
            try:
                body = decoder.decode(raw)
            except msgspec.ValidationError as problem:
                raise form_problem(problem, route.body) from problem
            except msgspec.DecodeError as problem:
                if not raw:
                    raise InvalidRequest("the request has no body", field="body", hint="send JSON") from problem
                raise InvalidRequest(f"the body is not valid JSON: {problem}", field="body") from problem
            except UnicodeDecodeError as problem:
                raise InvalidRequest("the body is not valid UTF-8", field="body") from problem
            except RecursionError as problem:
                hint = "send the inner part as text"
                raise InvalidRequest("the body is nested too deeply", field="body", hint=hint) from problem
        else:
            body = route.body()
    elif request.method in _CHANGING and await _read_body(request, body_seconds_max) not in _NOTHING:
        # Silence here would let a caller believe that what the body asked for was done.
        raise InvalidRequest(f"{route.method} {route.path} takes no body", field="body", hint=route.body_hint)
    return Call(request.match_info, query, body, request)


async def _read_body(request: web.Request, seconds_max: float) -> bytes:
    try:
        return await _read_within(request, seconds_max)
    except web.RequestPayloadError as problem:
        encoding = request.headers.get("Content-Encoding")
        reason = f"is not valid {encoding}" if encoding else "does not follow its Transfer-Encoding"
        hint = "send it as Content-Encoding and Transfer-Encoding say, or without them"
        raise InvalidRequest(f"the body {reason}", field="body", hint=hint) from problem


async def _read_within(request: web.Request, seconds_max: float) -> bytes:
    if request.content.is_eof():
        return await request.read()
    # Most bodies are there already; a timer is only for those that trickle in.
    try:
        async with asyncio.timeout(seconds_max):
            return await request.read()
    except TimeoutError:
        raise RequestTimedOut(f"the body did not arrive within {seconds_max:g} s") from None


def _decode_query(kind: Any, request: web.Request) -> Any:
    given = request.query
    for name in given:
        if len(given.getall(name)) > 1:
            raise InvalidRequest(f"query parameter {name!r} is given more than once", field=name)
    try:
        return msgspec.convert(dict(given), kind, strict=False)
    except msgspec.ValidationError as problem:
        raise form_problem(problem, kind) from problem
