"""Stories of messages, and traces: recent ones, one by id, a search, numbers."""

from __future__ import annotations

from msgspec import structs

from goqueue.errors import InvalidRequest
from goqueue.servers.http.bodies.durations import parse_duration_ms
from goqueue.servers.http.bodies.times import format_time, query_time_ms
from goqueue.servers.http.route import Call, Route
from goqueue.servers.http.routes.topics import partition_index
from goqueue.servers.http.types.traces import (
    ExporterOut,
    FoundTraces,
    SpanOut,
    StoryEvent,
    StoryOut,
    TraceList,
    TraceListQuery,
    TraceOut,
    TraceRow,
    TraceSearchQuery,
    TraceStatistics,
)
from goqueue.servers.services import Services
from goqueue.tracing.spans import spans_of
from goqueue.tracing.story import Status, Story
from goqueue.tracing.traces import TraceFilter

_OFFSET_DIGITS_MAX = 19
_LONGEST_MS = 366 * 24 * 3600 * 1000


async def story(services: Services, call: Call) -> StoryOut:
    """All that happened to one message."""
    text = call.path["offset"]
    if not (text.isascii() and text.isdigit() and len(text) <= _OFFSET_DIGITS_MAX):
        raise InvalidRequest(f"{text[:64]!r} is not an offset", field="offset", hint="use a number from 0 on")
    found = await services.tracing.reader.story(call.path["topic"], partition_index(call), int(text))
    return story_out(found)


async def list_traces(services: Services, call: Call) -> TraceList:
    """The messages with the most recent events."""
    query: TraceListQuery = call.query
    rows = [_row(one) for one in await services.tracing.traces.recent(query.limit)]
    return TraceList(traces=rows, total=len(rows))


async def search_traces(services: Services, call: Call) -> FoundTraces:
    """Messages by topic, time, status, group, client, duration, key or trace id."""
    query: TraceSearchQuery = call.query
    wanted = TraceFilter(
        topic=query.topic,
        partition=query.partition,
        start_ms=None if query.start is None else query_time_ms(query.start, "start"),
        end_ms=None if query.end is None else query_time_ms(query.end, "end"),
        status=None if query.status is None else Status(query.status),
        group=query.consumer_group,
        client=query.client,
        longer_than_ms=None
        if query.longer_than is None
        else parse_duration_ms(query.longer_than, "longer_than", maximum_ms=_LONGEST_MS),
        key=None if query.key is None else query.key.encode(),
        trace_id=query.trace_id,
    )
    found = await services.tracing.traces.search(wanted, query.limit, query.cursor)
    rows = [_row(one) for one in found.stories]
    echo = {name: str(value) for name, value in structs.asdict(query).items() if value is not None}
    return FoundTraces(traces=rows, total=len(rows), query=echo, scanned=found.scanned, cursor=found.cursor)


async def get_trace(services: Services, call: Call) -> TraceOut:
    """One trace with its spans."""
    found = await services.tracing.traces.get(call.path["trace_id"])
    row = _row(found)
    return TraceOut(
        **structs.asdict(row),
        spans=[
            SpanOut(
                span_id=one.span_id,
                parent_span_id=one.parent_span_id,
                event=one.event,
                name=one.name,
                time=format_time(one.start_ms),
                status="error" if one.failed else "ok",
                attributes=one.attributes,
            )
            for one in spans_of(found)
        ],
    )


async def trace_stats(services: Services, _call: Call) -> TraceStatistics:
    """Numbers of the tracer."""
    found = services.tracing.stats()
    return TraceStatistics(
        **{name: value for name, value in structs.asdict(found).items() if name != "exporters"},
        exporters_enabled=[one.name for one in found.exporters],
        exporters=[ExporterOut(**structs.asdict(one)) for one in found.exporters],
    )


def story_out(found: Story) -> StoryOut:
    """A story as JSON has it."""
    return StoryOut(
        trace_id=found.trace_id,
        parent_span_id=found.parent_span_id,
        topic=found.topic,
        partition=found.partition,
        offset=found.offset,
        status=found.status.value,
        start_time=format_time(found.start_ms),
        end_time=format_time(found.end_ms),
        duration_ms=found.duration_ms,
        places=list(found.places),
        stored=found.stored,
        events=[
            StoryEvent(
                event=line.kind.text,
                time=format_time(line.at_ms),
                at=line.at_ms,
                after_ms=line.at_ms - found.start_ms,
                topic=line.topic,
                partition=line.partition,
                offset=line.offset,
                source=line.source,
                target=line.target,
                attributes=line.attributes,
            )
            for line in found.lines
        ],
    )


def _row(found: Story) -> TraceRow:
    return TraceRow(
        trace_id=found.trace_id,
        topic=found.topic,
        partition=found.partition,
        offset=found.offset,
        start_time=format_time(found.start_ms),
        end_time=format_time(found.end_ms),
        duration_ms=found.duration_ms,
        status=found.status.value,
        span_count=len(found.lines),
    )


ROUTES = (
    Route(
        "GET",
        "/topics/{topic}/partitions/{partition}/messages/{offset}/story",
        story,
        "Show the story of a message",
        {200: StoryOut},
        errors=(400, 403, 404, 416),
    ),
    Route("GET", "/traces", list_traces, "Recent traces", {200: TraceList}, query=TraceListQuery),
    # Before the route with an id, which would take these for one.
    Route(
        "GET",
        "/traces/search",
        search_traces,
        "Search traces",
        {200: FoundTraces},
        query=TraceSearchQuery,
        errors=(400, 404),
    ),
    Route("GET", "/traces/stats", trace_stats, "Tracing statistics", {200: TraceStatistics}, errors=()),
    Route("GET", "/traces/{trace_id}", get_trace, "Show a trace with its spans", {200: TraceOut}, errors=(400, 404)),
)
