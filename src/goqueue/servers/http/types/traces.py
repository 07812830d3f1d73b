"""The JSON of stories and traces."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from goqueue.servers.http.types.common import PartitionIndex, Reply, TimeText

Word = Annotated[str, Meta(max_length=1024)]


class StoryEvent(Reply):
    """One event of a message: what, when, where the message lay, and what is known about it."""

    event: str
    time: str
    # Milliseconds since 1970, and since the message's first event.
    at: int
    after_ms: int
    topic: str
    partition: int
    offset: int
    source: str | None = msgspec.field(default=None, name="from")
    target: str | None = msgspec.field(default=None, name="to")
    attributes: dict[str, int | str] = msgspec.field(default_factory=dict)


class StoryOut(Reply):
    """Everything that is known of one message."""

    trace_id: str
    topic: str
    partition: int
    offset: int
    status: Literal["completed", "pending", "error"]
    start_time: str
    end_time: str
    duration_ms: int
    # Every place where the message lay, in order, as topic/partition@offset.
    places: list[str]
    events: list[StoryEvent]
    # The span of its producer, from the record's traceparent header.
    parent_span_id: str | None = None
    # False once the record has left its log.
    stored: bool = True


class TraceRow(Reply):
    """One trace of a list."""

    trace_id: str
    topic: str
    partition: int
    offset: int
    start_time: str
    end_time: str
    duration_ms: int
    status: Literal["completed", "pending", "error"]
    span_count: int


class TraceList(Reply):
    """Recent traces, newest first."""

    traces: list[TraceRow]
    total: int


class FoundTraces(Reply):
    """What a search found; with `cursor`, ask on."""

    traces: list[TraceRow]
    total: int
    query: dict[str, str]
    scanned: int
    cursor: str | None = None


class SpanOut(Reply):
    """One event of a trace, as exporters send it."""

    span_id: str
    event: str
    name: str
    time: str
    status: Literal["ok", "error"]
    attributes: dict[str, int | str]
    parent_span_id: str | None = None


class TraceOut(TraceRow):
    """One trace with its spans, by time."""

    spans: list[SpanOut]


class ExporterOut(Reply):
    """One exporter since the start."""

    name: str
    exported: int
    dropped: int
    failures: int
    waiting: int


class TraceStatistics(Reply):
    """What the tracer did since the start, and what it holds."""

    enabled: bool
    spans_in_buffer: int
    buffer_capacity: int
    events: int
    events_waiting: int
    events_dropped: int
    write_failures: int
    log_bytes: int
    index_bytes: int
    sampling_rate: float
    messages_passed_over: int
    # The exporters look at one offset in so many, as far as load allows.
    export_stride: int
    exporters_enabled: list[str]
    exporters: list[ExporterOut]


class TraceListQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How many traces."""

    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class TraceSearchQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which traces; times are milliseconds since 1970 or RFC 3339, `longer_than` is a duration such as 5s.

    With a topic and a start the stored messages are searched, without them the recent ones. `key` and `trace_id` need
    a topic.
    """

    topic: Word | None = None
    partition: PartitionIndex | None = None
    consumer_group: Word | None = None
    client: Word | None = None
    start: TimeText | None = None
    end: TimeText | None = None
    status: Literal["completed", "pending", "error"] | None = None
    longer_than: Annotated[str, Meta(max_length=32)] | None = None
    key: Word | None = None
    trace_id: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")] | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    cursor: Annotated[str, Meta(max_length=64)] | None = None
