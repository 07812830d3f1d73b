"""OpenTelemetry's context on its way through messages: into headers when sending, back as a parent when handling.

Nothing here imports OpenTelemetry: a program that uses it has imported it already. `GOQUEUE_TRACE_CONTEXT=link` leaves
the context of handlers as it is, for programs that make their own span with `link_of(message)`; `off` does neither.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from goqueue.records import TRACEPARENT

if TYPE_CHECKING:
    from goqueue.client.types import Message

TRACESTATE = "tracestate"
MODE = "GOQUEUE_TRACE_CONTEXT"


def with_context(headers: Mapping[str, bytes | None]) -> Mapping[str, bytes | None]:
    """The headers and, if a span is current and they name none, its context."""
    if "opentelemetry.trace" not in sys.modules or TRACEPARENT in headers or os.environ.get(MODE) == "off":
        return headers
    carrier: dict[str, str] = {}
    _propagator().inject(carrier)
    return {**headers, **{name: value.encode() for name, value in carrier.items()}} if carrier else headers


def context_of(message: Message) -> Any:
    """OpenTelemetry's context with the span of the message's sender as the current one; None if it has none."""
    carrier = {
        name: value.decode("ascii", "replace")
        for name, value in message.headers
        if name in {TRACEPARENT, TRACESTATE} and value is not None
    }
    return _propagator().extract(carrier) if TRACEPARENT in carrier else None


def link_of(message: Message) -> Any:
    """A link to the span of the message's sender, for a span of one's own; None if it has none."""
    context = context_of(message)
    if context is None:
        return None
    from opentelemetry.trace import Link, get_current_span

    return Link(get_current_span(context).get_span_context())


def call_in_context(handler: Callable[[Any], Any], message: Message) -> Any:
    """Call a handler with the message's sender as the parent of whatever spans it makes."""
    context = _parent(message)
    if context is None:
        return handler(message)
    from opentelemetry.context import attach, detach

    token = attach(context)
    try:
        outcome = handler(message)
    finally:
        detach(token)
    return _awaited(outcome, context) if isinstance(outcome, Awaitable) else outcome


class Following:
    """Keeps the context of the message that a loop is at: of `async for` the body runs where the iterator does."""

    def __init__(self) -> None:
        self._token: Any = None

    def enter(self, message: Message) -> None:
        """The loop goes on to this message."""
        self.leave()
        context = _parent(message)
        if context is not None:
            from opentelemetry.context import attach

            self._token = attach(context)

    def leave(self) -> None:
        """The loop is done with its message."""
        if self._token is not None:
            from opentelemetry.context import detach

            token, self._token = self._token, None
            detach(token)


def _parent(message: Message) -> Any:
    if not message.headers or "opentelemetry.trace" not in sys.modules or os.environ.get(MODE) in {"off", "link"}:
        return None
    return context_of(message)


async def _awaited(outcome: Awaitable[Any], context: Any) -> Any:
    from opentelemetry.context import attach, detach

    token = attach(context)
    try:
        return await outcome
    finally:
        detach(token)


def _propagator() -> Any:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator()
