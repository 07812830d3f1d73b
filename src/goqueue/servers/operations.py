"""Operations: what a caller can ask of a node, apart from how the request is written.

An operation is declared once, as a `Route` with its types and its handler. The HTTP server reaches it by method and
path, the gRPC server by the name of a method; both hand the handler a `Call`. No transport is imported here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import msgspec

from goqueue.servers.services import Services


class Call(msgspec.Struct, frozen=True):
    """One request, decoded: `path` holds the parts in braces, `query` and `body` are of the route's types.

    `request` is the transport's own; handlers of plain operations use nothing of it but `remote`, the peer's address.
    """

    path: Mapping[str, str]
    query: Any
    body: Any
    request: Any


class Answer(msgspec.Struct, frozen=True):
    """A reply with a status of its own. A handler that means 200 returns the reply alone."""

    status: int
    body: Any
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    # Called once the reply has been handed to a connection that was still there.
    sent: Callable[[], None] | None = None


class MessagesReply(msgspec.Struct, frozen=True):
    """A reply with a list `messages` that is made only while it is sent.

    `reply` is the whole reply with that list empty; `size_bytes` is what the messages hold, roughly.
    """

    reply: msgspec.Struct
    messages: Iterable[Any]
    size_bytes: int


class TextReply(msgspec.Struct, frozen=True):
    """A reply that is text of its own kind, and no JSON of ours."""

    text: str
    media_type: str


Handler = Callable[[Services, Call], Awaitable[Any]]


class Route(msgspec.Struct, frozen=True):
    """One method on one path. `replies` maps the statuses of success to their types.

    `body_hint` tells who sends a body to a route without one where to send it.
    """

    method: str
    path: str
    handle: Handler
    summary: str
    replies: Mapping[int, Any]
    body: Any = None
    query: Any = None
    body_optional: bool = False
    errors: tuple[int, ...] = (400,)
    body_hint: str | None = None
    # Where else the path is served, besides the root.
    bases: tuple[str, ...] = ()
    # Whether errors are answered as the schema registry's API has them.
    is_registry: bool = False
