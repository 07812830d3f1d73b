"""Spans: lines of stories in the form in which other systems take them.

Names and attributes follow OpenTelemetry's semantic conventions for messaging, version 1.37. An event takes no
time, so a span ends when it starts. Span ids follow from the event, so that the same event exported twice is
one span.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from goqueue.tracing.context import root_span_id, span_id_of
from goqueue.tracing.events import Kind
from goqueue.tracing.story import Line, Story

CONVENTIONS = "1.37.0"
CONVENTIONS_URL = f"https://opentelemetry.io/schemas/{CONVENTIONS}"

_OPERATIONS: Mapping[Kind, tuple[str, str]] = {
    Kind.PUBLISH_RECEIVED: ("send", "send"),
    Kind.CONSUME_FETCHED: ("receive", "receive"),
    Kind.CONSUME_ACKED: ("settle", "ack"),
    Kind.CONSUME_NACKED: ("settle", "nack"),
    Kind.CONSUME_REJECTED: ("settle", "reject"),
    Kind.CONSUME_RELEASED: ("settle", "release"),
    Kind.GROUP_COMMITTED: ("settle", "commit"),
}
_ROLES = {Kind.PUBLISH_RECEIVED: "producer", Kind.DELAY_SCHEDULED: "producer", Kind.CONSUME_FETCHED: "consumer"}
_FAILED = frozenset(
    {
        Kind.CONSUME_NACKED,
        Kind.CONSUME_REJECTED,
        Kind.VISIBILITY_TIMEOUT,
        Kind.DLQ_ROUTED,
        Kind.DELAY_EXPIRED,
        Kind.SCHEMA_REJECTED,
        Kind.TRANSACTION_ABORTED,
    }
)
_NAMES = {
    "group": "messaging.consumer.group.name",
    "client": "messaging.client.id",
    "address": "network.peer.address",
    "protocol": "network.protocol.name",
    "principal": "enduser.id",
}


class Span(msgspec.Struct, frozen=True):
    """One event of one message."""

    trace_id: str
    span_id: str
    parent_span_id: str | None
    name: str
    event: str
    start_ms: int
    end_ms: int
    # "producer", "consumer" or "internal".
    role: str
    failed: bool
    attributes: dict[str, Any]


def spans_of(story: Story) -> list[Span]:
    """All spans of a message, in order."""
    return [span_of(line, story.trace_id, story.parent_span_id) for line in story.lines]


def is_root(line: Line) -> bool:
    """Whether the message came into being by this event. What the broker itself publishes came into being before."""
    if line.kind is Kind.DELAY_SCHEDULED:
        return True
    return line.kind is Kind.PUBLISH_RECEIVED and line.attributes.get("protocol") != "internal"


def span_of(line: Line, trace_id: str, producer_span_id: str | None) -> Span:
    """The span of one line: a child of the message's root, whose parent is the producer's own span."""
    root_id = root_span_id(trace_id, producer_span_id)
    if is_root(line):
        span_id, parent = root_id, producer_span_id
    else:
        span_id, parent = span_id_of(trace_id, line.kind, line.at_ms, line.offset), root_id
    attributes: dict[str, Any] = {
        "messaging.system": "goqueue",
        "messaging.destination.name": line.topic,
        "messaging.destination.partition.id": str(line.partition),
        "messaging.goqueue.offset": line.offset,
        "messaging.goqueue.event": line.kind.text,
    }
    operation = _OPERATIONS.get(line.kind)
    if operation is not None:
        attributes["messaging.operation.type"], attributes["messaging.operation.name"] = operation
    for name, value in line.attributes.items():
        attributes[_NAMES.get(name, f"messaging.goqueue.{name}")] = value
    if line.source is not None:
        attributes["messaging.goqueue.from"] = line.source
    if line.target is not None:
        attributes["messaging.goqueue.to"] = line.target
    failed = line.kind in _FAILED
    if failed:
        attributes["error.type"] = str(line.attributes.get("reason") or line.kind.text)
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_span_id=parent,
        name=f"{operation[1] if operation else line.kind.text} {line.topic}",
        event=line.kind.text,
        start_ms=line.at_ms,
        end_ms=line.at_ms,
        role=_ROLES.get(line.kind, "internal"),
        failed=failed,
        attributes=attributes,
    )
