"""Stateless reads: from an offset or a time, once or as a stream.

They keep nothing, so two readers see the same messages; for sharing work there are groups.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Literal

import msgspec
from aiohttp import web
from msgspec import Meta

from goqueue.broker.reading.queries import EARLIEST, LATEST, OffsetSpec
from goqueue.broker.reading.record_reads import RecordsRead
from goqueue.errors import GoQueueError, InvalidRequest
from goqueue.records import Isolation, Record, TopicPartition
from goqueue.servers.http.bodies.decoding import decode_records, with_decoded
from goqueue.servers.http.bodies.durations import parse_duration_ms
from goqueue.servers.http.bodies.large_answers import MessagesReply, Sending, size_of
from goqueue.servers.http.bodies.message_json import message_of, unreadable_ranges
from goqueue.servers.http.bodies.times import query_time_ms
from goqueue.servers.http.route import Call, Route
from goqueue.servers.http.routes.topics import partition_index
from goqueue.servers.http.types.common import (
    MessageOut,
    OffsetNumber,
    PartitionIndex,
    ReadPartition,
    ReadTopic,
    Reply,
    TimeText,
)
from goqueue.servers.named_partitions import places_of
from goqueue.servers.services import Services

_MAX_BYTES = 4 * 1024 * 1024
_HEARTBEAT_MS = 15_000
_STREAM_READ = 1000
_STREAM_BYTES = 1024 * 1024
_encode = msgspec.json.Encoder().encode
# As many digits as partitions and offsets can have; anything else is no event of ours.
_OFFSET_PAIRS = re.compile('"?([0-9]{1,10})"? *: *([0-9]{1,19})')
_OFFSETS = re.compile(rf"({{ *)?{_OFFSET_PAIRS.pattern}( *, *{_OFFSET_PAIRS.pattern})*( *}})?")
_OFFSET_MAX = 2**63 - 1
_EVENT_ID = re.compile("([0-9]{1,10}):([0-9]{1,19})")


class Start(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, rename={"start": "from"}):
    """Where to begin: `offset`, `timestamp` (ms, or RFC 3339), or `from` earliest or latest."""

    offset: OffsetNumber | None = None
    timestamp: TimeText | None = None
    start: Literal["earliest", "latest"] | None = None
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    encoding: Literal["text", "base64"] = "text"


class ReadQuery(Start, kw_only=True):
    """How much to read, and how long to wait for the first message."""

    limit: Annotated[int, Meta(ge=1, le=10_000)] = 100
    max_bytes: Annotated[int, Meta(ge=1, le=52_428_800)] = _MAX_BYTES
    wait: Annotated[str, Meta(max_length=20)] = "0"
    # Show what values say by the schemas that they name.
    decode: bool = False


class TopicReadQuery(ReadQuery, kw_only=True):
    """A read over all partitions, or the one named.

    `offsets` begins each partition at its own: `next_offsets` of the answer before, as it is or as `0:5,1:7`.
    Partitions that it does not name begin where `from` or `timestamp` says.
    """

    partition: PartitionIndex | None = None
    offsets: Annotated[str, Meta(max_length=200_000)] | None = None


class FindQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, rename={"start": "from"}):
    """A point in a partition: a time (ms, or RFC 3339), or an end."""

    timestamp: TimeText | None = None
    start: Literal["earliest", "latest"] | None = None


class FoundOffset(Reply):
    """The offset of the first message at or after that point; the end when there is none."""

    offset: int
    timestamp: int | None = None


class StreamQuery(Start, kw_only=True):
    """What to follow, and when to end."""

    partition: PartitionIndex | None = None
    format: Literal["ndjson", "sse"] | None = None
    limit: Annotated[int, Meta(ge=1)] | None = None
    to_timestamp: TimeText | None = None


async def read_partition(services: Services, call: Call) -> MessagesReply:
    """Read one partition."""
    at = TopicPartition(call.path["topic"], partition_index(call))
    found = (await _read(services, [at], call.query))[at]
    reply = ReadPartition(
        messages=[],
        next_offset=found.next_offset,
        high_watermark=found.high_watermark,
        unreadable=unreadable_ranges(at, found.unreadable),
    )
    messages = await _shown(services, at, found.records, call.query)
    return MessagesReply(reply, messages, size_of(found.records))


async def read_topic(services: Services, call: Call) -> MessagesReply:
    """Read all partitions of a topic, by time."""
    query: TopicReadQuery = call.query
    if query.offset is not None and query.partition is None:
        raise InvalidRequest("an offset counts within one partition", field="offset", hint="name the partition too")
    partitions = places_of(services, call.path["topic"], query.partition)
    found = await _read(services, partitions, query, _given_offsets(partitions, query))
    shown = [await _shown(services, at, one.records, query) for at, one in found.items()]
    merged = heapq.merge(*shown, key=lambda message: message.timestamp)
    reply = ReadTopic(
        messages=[],
        next_offsets={str(at.partition): one.next_offset for at, one in found.items()},
        unreadable=[row for at, one in found.items() for row in unreadable_ranges(at, one.unreadable)],
    )
    return MessagesReply(reply, merged, sum(size_of(one.records) for one in found.values()))


async def find_offset(services: Services, call: Call) -> FoundOffset:
    """The offset that a time, or an end of the log, stands for."""
    at = TopicPartition(call.path["topic"], partition_index(call))
    query: FindQuery = call.query
    return FoundOffset(
        offset=await _start(services, at, Start(timestamp=query.timestamp, start=query.start)),
        timestamp=None if query.timestamp is None else query_time_ms(query.timestamp, "timestamp"),
    )


async def stream(services: Services, call: Call) -> web.StreamResponse:
    """Follow a topic as it grows."""
    query: StreamQuery = call.query
    wants_events = "text/event-stream" in call.request.headers.get("Accept", "")
    as_events = query.format == "sse" or (query.format is None and wants_events)
    to_ms = None if query.to_timestamp is None else query_time_ms(query.to_timestamp, "to_timestamp")
    positions = await start_positions(services, places_of(services, call.path["topic"], query.partition), query)
    _resume(positions, call.request.headers.get("Last-Event-ID"))
    response = web.StreamResponse(
        headers={
            "Content-Type": "text/event-stream" if as_events else "application/x-ndjson",
            "Cache-Control": "no-store",
            "X-Accel-Buffering": "no",
        }
    )
    await response.prepare(call.request)
    seen: dict[int, int] = {}
    try:
        async for messages in _follow(services, positions, query, to_ms):
            piece = _as_events(messages, seen) if as_events else _as_lines(messages)
            with Sending(call.request, services.answers, len(piece)) as sending:
                await sending.write(response, piece)
        await response.write_eof()
    except GoQueueError:
        # The status is sent, so an answer with another one would be taken for messages. A stream that is
        # cut off is not complete; whoever asks again is told why.
        if call.request.transport is not None:
            call.request.transport.close()
    return response


async def _follow(
    services: Services, positions: dict[TopicPartition, int], query: StreamQuery, to_ms: int | None
) -> AsyncIterator[list[MessageOut]]:
    """Batches of messages until the limit or the end time; an empty one every while, to show that we live."""
    left = query.limit
    while left is None or left > 0:
        await services.answers.room()
        found = await services.reads.read(
            positions,
            limit=_STREAM_READ if left is None else min(left, _STREAM_READ),
            max_bytes=_STREAM_BYTES,
            wait_ms=_HEARTBEAT_MS,
            isolation=isolation_of(query),
        )
        messages: list[MessageOut] = []
        for at, one in found.items():
            if one.error is not None:
                raise one.error
            positions[at] = one.next_offset
            messages += messages_of(at, one.records, query)
        if to_ms is not None:
            inside = [message for message in messages if message.timestamp <= to_ms]
            if len(inside) < len(messages) or services.clock.now_ms() > to_ms:
                yield inside
                return
        if left is not None:
            left -= len(messages)
        yield messages


async def _read(
    services: Services,
    partitions: list[TopicPartition],
    query: ReadQuery,
    offsets: Mapping[TopicPartition, int] = MappingProxyType({}),
) -> dict[TopicPartition, RecordsRead]:
    wait_ms = parse_duration_ms(query.wait, "wait", maximum_ms=services.config.http.wait_ms_max)
    rest = [at for at in partitions if at not in offsets]
    positions = {**await start_positions(services, rest, query), **offsets}
    await services.answers.room()
    found = await services.reads.read(
        positions,
        limit=query.limit,
        max_bytes=query.max_bytes,
        wait_ms=wait_ms,
        isolation=isolation_of(query),
    )
    for one in found.values():
        if one.error is not None:
            raise one.error
    return found


def _given_offsets(partitions: list[TopicPartition], query: TopicReadQuery) -> dict[TopicPartition, int]:
    """The offsets that a reader hands back, by partition: a JSON object, or `0:5,1:7`."""
    if query.offsets is None:
        return {}
    if query.offset is not None:
        raise InvalidRequest("offset and offsets exclude each other", field="offsets", hint="send offsets alone")
    pairs = _OFFSET_PAIRS.findall(query.offsets) if _OFFSETS.fullmatch(query.offsets) else []
    if not pairs:
        raise InvalidRequest(
            f"offsets={query.offsets[:64]!r} is not a list of partitions and their offsets",
            field="offsets",
            hint='send next_offsets of the last answer, {"0":5,"1":7}, or 0:5,1:7',
        )
    known = {at.partition: at for at in partitions}
    given: dict[TopicPartition, int] = {}
    for partition, offset in pairs:
        at = known.get(int(partition))
        if at is None:
            raise InvalidRequest(
                f"offsets names partition {partition}, which is not read here",
                field="offsets",
                hint=f"the partitions are {', '.join(str(one) for one in list(known)[:20])}",
            )
        if at in given:
            raise InvalidRequest(f"offsets names partition {partition} twice", field="offsets")
        if int(offset) > _OFFSET_MAX:
            raise InvalidRequest(f"offset {offset} of partition {partition} is too large", field="offsets")
        given[at] = int(offset)
    return given


async def start_positions(
    services: Services, partitions: list[TopicPartition], query: Start
) -> dict[TopicPartition, int]:
    """The offset at which each partition begins, by what the query says."""
    given = [name for name in ("offset", "timestamp", "start") if getattr(query, name) is not None]
    if len(given) > 1:
        raise InvalidRequest("offset, timestamp and from exclude each other", field=given[1].replace("start", "from"))
    if query.offset is not None:
        return dict.fromkeys(partitions, query.offset)
    return {at: await _start(services, at, query) for at in partitions}


async def _start(services: Services, at: TopicPartition, query: Start) -> int:
    async def look(spec: OffsetSpec) -> int | None:
        found = await services.partitions.offset_at(at, spec, isolation_of(query))
        return None if found is None else found.offset

    if query.timestamp is not None:
        found = await look(query_time_ms(query.timestamp, "timestamp"))
        # Nothing is that young: begin with what comes next.
        return found if found is not None else await look(LATEST) or 0
    return await look(LATEST if query.start == "latest" else EARLIEST) or 0


def _resume(positions: dict[TopicPartition, int], last_event_id: str | None) -> None:
    """A browser that lost its connection names the last event it saw, as partition:offset pairs."""
    for part in (last_event_id or "").split(","):
        found = _EVENT_ID.fullmatch(part)
        if found is not None:
            for at in positions:
                if at.partition == int(found[1]):
                    positions[at] = int(found[2]) + 1


def isolation_of(query: Start) -> Isolation:
    """Whether records of open transactions are read."""
    return Isolation.READ_COMMITTED if query.isolation == "read_committed" else Isolation.READ_UNCOMMITTED


async def _shown(
    services: Services, at: TopicPartition, records: Sequence[Record], query: ReadQuery
) -> Iterable[MessageOut]:
    messages = messages_of(at, records, query)
    return with_decoded(messages, await decode_records(services, records)) if query.decode else messages


def messages_of(at: TopicPartition, records: Sequence[Record], query: Start) -> Iterator[MessageOut]:
    """Each message is made when it is asked for: all of them together take twice what the records do."""
    always = query.encoding == "base64"
    return (message_of(at.topic, at.partition, record, base64_always=always) for record in records)


def _as_lines(messages: list[MessageOut]) -> bytes:
    # An empty line is no record to a reader of NDJSON, and keeps proxies from closing.
    return b"".join([_encode(message) + b"\n" for message in messages]) or b"\n"


def _as_events(messages: list[MessageOut], seen: dict[int, int]) -> bytes:
    """Events whose id says how far every partition was read, so that a lost connection resumes exactly."""
    events = []
    for message in messages:
        seen[message.partition] = message.offset
        at = ",".join([f"{partition}:{offset}" for partition, offset in seen.items()])
        events.append(b"id: %s\ndata: %s\n\n" % (at.encode(), _encode(message)))
    return b"".join(events) or b": alive\n\n"


ROUTES = (
    Route(
        "GET",
        "/topics/{topic}/messages",
        read_topic,
        "Read a topic",
        {200: ReadTopic},
        query=TopicReadQuery,
        errors=(400, 404, 416),
    ),
    Route(
        "GET",
        "/topics/{topic}/partitions/{partition}/messages",
        read_partition,
        "Read a partition",
        {200: ReadPartition},
        query=ReadQuery,
        errors=(400, 404, 416),
    ),
    Route(
        "GET",
        "/topics/{topic}/partitions/{partition}/offset",
        find_offset,
        "Find an offset",
        {200: FoundOffset},
        query=FindQuery,
        errors=(400, 404),
    ),
    Route(
        "GET",
        "/topics/{topic}/messages/stream",
        stream,
        "Stream a topic",
        {200: "application/x-ndjson"},
        query=StreamQuery,
        errors=(400, 404, 416),
    ),
)
