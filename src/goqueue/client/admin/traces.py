"""Stories of messages, and traces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypedDict, Unpack

from goqueue.client.admin.replies import Reply
from goqueue.client.admin.requests import text_params
from goqueue.client.calls import Calls
from goqueue.client.transport import quoted


class TraceSearch(TypedDict, total=False):
    """Which traces: times in milliseconds or RFC 3339; `key` and `trace_id` need a topic."""

    topic: str
    partition: int
    consumer_group: str
    client: str
    start: int | str
    end: int | str
    status: str
    longer_than: str
    key: str
    trace_id: str
    limit: int
    cursor: str


class StoryEvent(Reply):
    """One event of a message; `get("from")` and `get("to")` name other places of it."""

    _defaults: ClassVar[Mapping[str, Any]] = {"attributes": {}}
    event: str
    time: str
    at: int
    after_ms: int
    topic: str
    partition: int
    offset: int
    attributes: dict[str, int | str]


class Story(Reply):
    """All that happened to one message."""

    _nested: ClassVar[Mapping[str, type[Reply]]] = {"events": StoryEvent}
    _defaults: ClassVar[Mapping[str, Any]] = {"parent_span_id": None, "stored": True}
    trace_id: str
    topic: str
    partition: int
    offset: int
    status: str
    start_time: str
    end_time: str
    duration_ms: int
    places: list[str]
    events: list[StoryEvent]
    parent_span_id: str | None
    stored: bool


class Span(Reply):
    """One step of a trace; the first has no parent."""

    _defaults: ClassVar[Mapping[str, Any]] = {"parent_span_id": None, "attributes": {}}
    span_id: str
    parent_span_id: str | None
    event: str
    name: str
    time: str
    status: str
    attributes: dict[str, int | str]


class Trace(Reply):
    """One trace; in a list its spans are left out."""

    _nested: ClassVar[Mapping[str, type[Reply]]] = {"spans": Span}
    _defaults: ClassVar[Mapping[str, Any]] = {"spans": []}
    trace_id: str
    topic: str
    partition: int
    offset: int
    start_time: str
    end_time: str
    duration_ms: int
    status: str
    span_count: int
    spans: list[Span]


class FoundTraces(Reply):
    """What a search found; `cursor` is the argument for the next page, None at the end."""

    _nested: ClassVar[Mapping[str, type[Reply]]] = {"traces": Trace}
    _defaults: ClassVar[Mapping[str, Any]] = {"cursor": None}
    traces: list[Trace]
    total: int
    scanned: int
    cursor: str | None


class TraceStats(Reply):
    """What the tracer did since the start, and what it holds."""

    enabled: bool
    events: int
    events_dropped: int
    log_bytes: int
    index_bytes: int
    exporters: list[dict[str, Any]]


class TraceAdmin(Calls):
    """The part of a client that looks at stories."""

    async def story(self, topic: str, partition: int, offset: int) -> Story:
        """All that happened to one message: who sent it, every delivery, and where it went.

        for event in (await client.story("orders", 0, 17)).events:
            print(event.time, event.event, event.attributes)
        """
        path = f"/topics/{quoted(topic)}/partitions/{partition}/messages/{offset}/story"
        return Story(await self._call("GET", path))

    async def traces(self, *, limit: int = 100) -> list[Trace]:
        """The traces with the most recent events, newest first.

        for trace in await client.traces(limit=10):
            print(trace.topic, trace.offset, trace.status)
        """
        answer = await self._call("GET", "/traces", params={"limit": str(limit)})
        return [Trace(one) for one in answer["traces"]]

    async def trace(self, trace_id: str) -> Trace:
        """One trace with its spans.

        for span in (await client.trace("4bf92f3577b34da6a3ce929d0e0e4736")).spans:
            print(span.time, span.name)
        """
        return Trace(await self._call("GET", f"/traces/{quoted(trace_id)}"))

    async def search_traces(self, **params: Unpack[TraceSearch]) -> FoundTraces:
        """Traces by topic, time, status, group, client, duration, key or trace id.

        found = await client.search_traces(topic="orders", status="error", limit=10)
        """
        return FoundTraces(await self._call("GET", "/traces/search", params=text_params(params)))

    async def trace_stats(self) -> TraceStats:
        """What the tracer has recorded and dropped since the broker was started.

        print((await client.trace_stats()).events_dropped)
        """
        return TraceStats(await self._call("GET", "/traces/stats"))
