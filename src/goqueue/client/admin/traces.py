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


class Trace(Reply):
    """One trace; in a list without its spans."""

    trace_id: str
    topic: str
    partition: int
    offset: int
    start_time: str
    end_time: str
    duration_ms: int
    status: str
    span_count: int
    spans: list[dict[str, Any]]


class FoundTraces(Reply):
    """What a search found; with a cursor there is more to look at: pass it on."""

    _nested: ClassVar[Mapping[str, type[Reply]]] = {"traces": Trace}
    _defaults: ClassVar[Mapping[str, Any]] = {"cursor": None}
    traces: list[Trace]
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
        """The messages to which something happened last, newest first."""
        answer = await self._call("GET", "/traces", params={"limit": str(limit)})
        return [Trace(one) for one in answer["traces"]]

    async def trace(self, trace_id: str) -> Trace:
        """One trace with its spans."""
        return Trace(await self._call("GET", f"/traces/{quoted(trace_id)}"))

    async def search_traces(self, **params: Unpack[TraceSearch]) -> FoundTraces:
        """Traces by topic, time, status, group, client, duration, key or trace id."""
        return FoundTraces(await self._call("GET", "/traces/search", params=text_params(params)))

    async def trace_stats(self) -> TraceStats:
        """Numbers of the tracer."""
        return TraceStats(await self._call("GET", "/traces/stats"))
