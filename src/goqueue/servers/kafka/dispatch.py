"""From the bytes of one request to the bytes of its answer. No sockets: testable with bytes alone.

`take` answers at once when the handler does, and otherwise gives a coroutine. What
cannot be answered at all (no such API, a version we never advertised, bytes that are no
request) raises MalformedRequest, and the connection that sent it must be closed.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from goqueue.codec.kafka.decode import RequestHeader, decoder, read_header, skip_tags
from goqueue.codec.kafka.encode import API_VERSIONS_KEY, encoder
from goqueue.codec.kafka.schema import message_shape
from goqueue.errors import GoQueueError, MalformedRequest
from goqueue.histogram import Histogram
from goqueue.ports import Buffer
from goqueue.servers.access.doors import KAFKA_NEEDS, require
from goqueue.servers.kafka import registry
from goqueue.servers.kafka.api import (
    UNKNOWN_SERVER_ERROR,
    UNSUPPORTED_VERSION,
    Api,
    Context,
    Handler,
    Message,
    Order,
    Reply,
    error_code,
    error_message,
)
from goqueue.servers.kafka.reading.fetch_sessions import FetchSessions
from goqueue.servers.kafka.reading.share_sessions import ShareSessions
from goqueue.servers.request_times import RequestTimes

if TYPE_CHECKING:
    from goqueue.servers.kafka.connections.peer import Peer
    from goqueue.servers.services import Services

logger = logging.getLogger(__name__)

Frame = list[Buffer]


class Later(NamedTuple):
    """An answer that takes time. With `ends_with_client`, nothing is lost by cancelling it."""

    frame: Coroutine[Any, Any, Frame | None]
    ends_with_client: bool
    order: Order = Order.READ


Answered = Frame | Later | None


@dataclass(frozen=True, slots=True)
class _Route:
    """All that one version of one API needs, looked up once."""

    handler: Handler
    api: Api
    is_flexible: bool
    decode: Callable[[memoryview, int], Message]
    histogram: Histogram
    # Whether the API needs something by itself, or says nothing of it and is refused.
    is_guarded: bool


class Dispatcher:
    """Knows the handlers and what they need."""

    def __init__(
        self,
        services: Services,
        handlers: Mapping[int, Handler] = registry.HANDLERS,
        *,
        times: RequestTimes | None = None,
        timer: Callable[[], float] = perf_counter,
        share_sessions: ShareSessions | None = None,
        fetch_sessions: FetchSessions | None = None,
    ) -> None:
        self._services = services
        self._handlers = handlers
        self._times = times or RequestTimes()
        self._timer = timer
        self._orders = {key: handler.API.order for key, handler in handlers.items()}
        # By number and version, so that a request finds its own with one look.
        self._routes: dict[tuple[int, int], _Route] = {}
        self.share_sessions = ShareSessions() if share_sessions is None else share_sessions
        self._fetch_sessions = FetchSessions() if fetch_sessions is None else fetch_sessions

    def order(self, frame: Buffer) -> Order:
        """When this request may start; what is no request of ours may, since it is refused at once."""
        return self._orders.get(int.from_bytes(frame[:2], "big"), Order.READ)

    def take(self, frame: Buffer, peer: Peer) -> Answered:
        """Answer one request: buffers to send, None for silence, or later."""
        started = self._timer()
        data = memoryview(frame)
        header = read_header(data)
        route = self._routes.get(header[:2]) or self._route(header)
        if route is None:
            return _unknown_version(self._handlers[header.api_key].API, header)
        api, histogram = route.api, route.histogram
        request = route.decode(data, skip_tags(data, header.end) if route.is_flexible else header.end)
        try:
            context = peer.context(header.api_version, header.client_id) or self._new_context(header, peer)
            if route.is_guarded and peer.gate is not None:
                require(context.services, KAFKA_NEEDS.get(api.key))
            answer = route.handler.handle(context, request)
        except Exception as error:  # noqa: BLE001 - a failing handler costs its request, never the broker
            framed: Frame | None = _failure(api, header, error)
        else:
            # A dict first: to ask whether something is any kind of mapping takes ten times as long.
            if answer is not None and type(answer) is not dict and not isinstance(answer, Mapping):
                return Later(self._await(api, header, answer, histogram, started), api.ends_with_client, api.order)
            framed = None if answer is None else _encoded(api, header, answer)
        histogram.add(self._timer() - started)
        return framed

    async def _await(
        self, api: Api, header: RequestHeader, answer: Awaitable[Reply | None], histogram: Histogram, started: float
    ) -> Frame | None:
        try:
            reply = await answer
        except Exception as error:  # noqa: BLE001 - a failing handler costs its request, never the broker
            framed: Frame | None = _failure(api, header, error)
        else:
            framed = None if reply is None else _encoded(api, header, reply)
        histogram.add(self._timer() - started)
        return framed

    def _route(self, header: RequestHeader) -> _Route | None:
        """The way of a request that comes for the first time; None if we do not speak its version."""
        key, version = header.api_key, header.api_version
        handler = self._handlers.get(key)
        if handler is None:
            raise MalformedRequest(f"API key {key} is not supported")
        api = handler.API
        low, high = api.versions
        if not low <= version <= high:
            return None
        is_flexible = message_shape(key, "request").is_flexible(version)
        need = KAFKA_NEEDS.get(key)
        is_guarded = need is None or need.operation is not None
        times = self._times.of("kafka", api.name)
        route = _Route(handler, api, is_flexible, decoder(key, version), times, is_guarded)
        self._routes[key, version] = route
        return route

    async def connection_lost(self, peer: Peer) -> None:
        """What consumers of that connection hold is given to others at once."""
        for member in self.share_sessions.connection_lost(peer):
            try:
                await self._services.delivery.release_consumer(*member)
            except GoQueueError:
                # The locks run out by themselves, only later.
                continue

    def _new_context(self, header: RequestHeader, peer: Peer) -> Context:
        caller = peer.named(header.client_id)
        context = Context(
            self._services.for_caller(caller),
            header.api_version,
            header.client_id,
            self.share_sessions,
            self._fetch_sessions,
            peer,
        )
        peer.remember(context)
        return context


def _encoded(api: Api, header: RequestHeader, reply: Reply) -> Frame:
    try:
        return encoder(header.api_key, header.api_version)(header.correlation_id, reply)
    except Exception as error:
        logger.exception("the answer of %s v%d cannot be written", api.name, header.api_version)
        raise MalformedRequest(f"{api.name} v{header.api_version} cannot be answered") from error


def _failure(api: Api, header: RequestHeader, error: Exception) -> Frame:
    """The answer to a request whose handler raised: its error where the response has room for one."""
    if not isinstance(error, GoQueueError):
        logger.error("%s v%d failed", api.name, header.api_version, exc_info=error)
    fields = {one.name for one in message_shape(api.key, "response").fields if header.api_version in one.versions}
    if "error_code" not in fields:
        raise MalformedRequest(f"{api.name} v{header.api_version} cannot be answered: {error}") from error
    reply: dict[str, object] = {
        "error_code": error_code(error) if isinstance(error, GoQueueError) else UNKNOWN_SERVER_ERROR
    }
    if "error_message" in fields:
        reply["error_message"] = error_message(error)
    return _encoded(api, header, reply)


def _unknown_version(api: Api, header: RequestHeader) -> Frame:
    """Kafka's way: ApiVersions answers in version 0, which every client reads; all else is cut off."""
    low, high = api.versions
    if api.key != API_VERSIONS_KEY:
        raise MalformedRequest(
            f"{api.name} v{header.api_version} is not supported; supported versions are {low} to {high}"
        )
    reply = {
        "error_code": UNSUPPORTED_VERSION,
        "api_keys": [{"api_key": api.key, "min_version": low, "max_version": high}],
    }
    return encoder(api.key, 0)(header.correlation_id, reply)
