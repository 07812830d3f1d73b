"""Turns a `Route` into an aiohttp handler: decode, call, encode, and answer errors as values.

One wrapper does what a chain of middlewares would do, because this runs for every message
that is published one at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec
from aiohttp import web

from goqueue.broker.reading.answer_budget import AnswerBudget
from goqueue.caller import printable
from goqueue.errors import GoQueueError, InvalidRequest, wire_of
from goqueue.servers.http.admission.entrance import Entrances
from goqueue.servers.http.bodies.large_answers import LargeAnswer, large_or_bytes, send_large
from goqueue.servers.http.bodies.registry_dialect import media_type_for, refuse_as_registry
from goqueue.servers.http.fields import field_in, names_of
from goqueue.servers.http.route import Answer, Route, decode
from goqueue.servers.http.types.common import ErrorDetail, ErrorReply
from goqueue.servers.operations import TextReply
from goqueue.servers.services import Services

_log = logging.getLogger("goqueue.http")
_access = logging.getLogger("goqueue.http.access")
_encode = msgspec.json.Encoder().encode
_REQUEST_ID = "X-Request-Id"
_REQUEST_ID_CHARS_MAX = 128

# Told with these statuses: when to come again, and how to say who one is.
_HEADERS = {
    429: {"Retry-After": "1"},
    503: {"Retry-After": "1"},
    401: {"WWW-Authenticate": 'Bearer realm="goqueue", Basic realm="goqueue"'},
}

AioHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def adapt(
    route: Route,
    services: Services,
    heard: Callable[[object], None],
    new_request_id: Callable[[], str],
    entrances: Entrances,
) -> AioHandler:
    """The aiohttp handler of a route."""
    access_log, cors_origin = services.config.http.access_log, services.config.http.cors_origin
    times = services.request_times.of("http", f"{route.method} {route.path}")
    body_seconds_max = services.config.http.body_ms_max / 1000
    loop_time = asyncio.get_running_loop().time
    decoder = msgspec.json.Decoder(route.body) if route.body is not None else None
    names = names_of(route)
    entrance = entrances.of(route, services)

    async def handle(request: web.Request) -> web.StreamResponse:
        started = loop_time()
        heard(request.protocol)
        request_id = printable(request.headers.get(_REQUEST_ID, "")[:_REQUEST_ID_CHARS_MAX]) or new_request_id()
        media = media_type_for(request) if route.is_registry else "application/json"
        answer: Any = None
        large: LargeAnswer | None = None
        call = None
        try:
            bound = await entrance.services_for(request, request_id)
            call = await decode(route, request, decoder, body_seconds_max)
            answer = await route.handle(bound, call)
            response, large = respond(answer, media)
        except GoQueueError as error:
            # What is wrong with the form of a request is named as it was sent, be there such a field or not.
            field = error.field if call is None else field_in(names, error)
            response = refuse_as_registry(error, field, media) if route.is_registry else refuse(error, field)
        except web.HTTPRequestEntityTooLarge:
            response = _too_large(services.config.http.body_bytes_max)
        except web.HTTPException:
            raise
        except Exception:  # noqa: BLE001 - the last line of defence of a request
            # Our own mistake: the caller learns the request id, the log has the rest.
            _log.exception("request failed", extra={"request_id": request_id, "path": request.path})
            response = refuse(GoQueueError(f"internal error; see the broker's log for request {request_id}"))
        finally:
            entrance.leave(request)
        if not response.prepared:
            _add_headers(response, request_id, cors_origin)
        sent = answer.sent if isinstance(answer, Answer) else None
        if large is not None or sent is not None:
            await _send(request, response, large, sent, services.answers)
        seconds = loop_time() - started
        times.add(seconds)
        if access_log:
            _access.info(
                "%s %s %d %d ms %s",
                request.method,
                request.path,
                response.status,
                round(seconds * 1000),
                request_id,
            )
        return response

    return handle


async def _send(
    request: web.Request,
    response: web.StreamResponse,
    large: LargeAnswer | None,
    sent: Callable[[], None] | None,
    answers: AnswerBudget,
) -> None:
    """Send an answer that is made in pieces, or whose arrival somebody wants to be told of."""
    # Whoever asked may be gone: that is no mistake of ours, and nothing was sent.
    with suppress(ConnectionError):
        if large is not None:
            await send_large(request, response, large, answers)
        else:
            await response.prepare(request)
            await response.write_eof()
        if sent is not None:
            sent()


def _add_headers(response: web.StreamResponse, request_id: str, cors_origin: str) -> None:
    """What goes with every answer. No browser is to guess that an answer is a page."""
    response.headers[_REQUEST_ID] = request_id
    response.headers["X-Content-Type-Options"] = "nosniff"
    if cors_origin:
        response.headers["Access-Control-Allow-Origin"] = cors_origin


def respond(answer: Any, media_type: str = "application/json") -> tuple[web.StreamResponse, LargeAnswer | None]:
    """A handler's answer as a response, and what is to be sent with it in pieces.

    One that streamed has its response already.
    """
    if isinstance(answer, web.StreamResponse):
        return answer, None
    if isinstance(answer, TextReply):
        return web.Response(text=answer.text, content_type=answer.media_type), None
    status, body, headers = 200, answer, None
    if isinstance(answer, Answer):
        status, body, headers = answer.status, answer.body, answer.headers
    content = large_or_bytes(body)
    if isinstance(content, bytes):
        return web.Response(status=status, body=content, content_type=media_type, headers=headers), None
    response = web.StreamResponse(status=status, headers=headers)
    response.content_type = media_type
    return response, content


def refuse(error: GoQueueError, field: str | None = None) -> web.Response:
    """An error as a response; `field` is the one to blame, as the request has it."""
    wire = wire_of(error)
    headers = _HEADERS.get(wire.http)
    body = ErrorReply(error=detail_of(error, field), status=wire.http)
    return web.Response(status=wire.http, body=_encode(body), content_type="application/json", headers=headers)


def detail_of(error: GoQueueError, field: str | None) -> ErrorDetail:
    """What a caller is told of an error."""
    return ErrorDetail(code=wire_of(error).code, message=str(error), field=field, hint=error.hint)


def _too_large(limit: int) -> web.Response:
    error = InvalidRequest(f"the body is larger than {limit} bytes", field="body", hint="send fewer messages at once")
    body = ErrorReply(error=detail_of(error, error.field), status=413)
    return web.Response(status=413, body=_encode(body), content_type="application/json")
