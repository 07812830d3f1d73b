"""The trace context of a request, put into the headers of the messages that it brings and that have none."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from goqueue.records import TRACEPARENT
from goqueue.servers.http.types.common import MessageIn, Publish
from goqueue.tracing.context import parse_traceparent


def add_trace(messages: Sequence[MessageIn | Publish], trace: str) -> None:
    """Let each message carry the request's traceparent. One that is not well formed is ignored, as W3C wants it."""
    context = parse_traceparent(trace)
    if context is None:
        return
    plain = str(context)
    encoded = base64.b64encode(plain.encode()).decode()
    for message in messages:
        headers = message.headers or {}
        if TRACEPARENT not in headers:
            message.headers = {**headers, TRACEPARENT: encoded if message.encoding == "base64" else plain}
