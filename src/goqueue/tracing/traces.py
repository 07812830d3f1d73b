"""Questions about traces: the recent ones, one by its id, a search, and numbers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from uuid import UUID

import msgspec

from goqueue.broker.replicas.partitions import Partitions
from goqueue.broker.topics import TopicService
from goqueue.codec.batch import parse_batch_header
from goqueue.codec.batch_decode import decode_records
from goqueue.errors import GoQueueError, InvalidRequest, TraceNotFound
from goqueue.log.partition_log import PartitionLog
from goqueue.ports import Offload
from goqueue.records import Record
from goqueue.tracing.context import context_of, is_trace_id
from goqueue.tracing.events import At, Noted
from goqueue.tracing.reader import Reader, Spot
from goqueue.tracing.recorder import Ring
from goqueue.tracing.slots import name_of
from goqueue.tracing.story import Status, Story

# Messages of the ring that one question looks at, and records that one step of a scan opens.
_LOOKS_MAX = 2_000
SCAN_RECORDS = 20_000
_SCAN_BYTES = 4 * 1024 * 1024


class TraceFilter(msgspec.Struct, frozen=True):
    """Which traces are meant; what is None does not matter."""

    topic: str | None = None
    partition: int | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    status: Status | None = None
    group: str | None = None
    client: str | None = None
    longer_than_ms: int | None = None
    key: bytes | None = None
    trace_id: str | None = None

    @property
    def needs_records(self) -> bool:
        """Whether records must be opened to find them."""
        return self.key is not None or self.trace_id is not None

    def takes(self, story: Story) -> bool:
        """Whether a story is meant, as far as stories tell."""
        if self.status is not None and story.status is not self.status:
            return False
        if self.longer_than_ms is not None and story.duration_ms <= self.longer_than_ms:
            return False
        for name, value in (("group", self.group), ("client", self.client)):
            if value is not None and all(line.attributes.get(name) != value for line in story.lines):
                return False
        if self.start_ms is not None and story.end_ms < self.start_ms:
            return False
        return self.end_ms is None or story.start_ms < self.end_ms


class Searched(msgspec.Struct, frozen=True):
    """What a search found. With a cursor there is more to look at: ask again with it."""

    stories: list[Story]
    scanned: int
    cursor: str | None = None


class Traces:
    """Answers about many messages."""

    def __init__(
        self,
        ring: Ring,
        reader: Reader,
        *,
        topics: TopicService,
        partitions: Partitions,
        offload: Offload,
    ) -> None:
        self.ring = ring
        self._reader = reader
        self._topics = topics
        self._partitions = partitions
        self._offload = offload

    async def recent(self, limit: int) -> list[Story]:
        """The messages of the newest events, newest first."""
        return (await self._from_ring(TraceFilter(), limit)).stories

    async def get(self, trace_id: str) -> Story:
        """One trace; `TraceNotFound` if no message is known by that id."""
        if not is_trace_id(trace_id):
            raise InvalidRequest(f"{trace_id[:64]!r} is not a trace id", field="trace_id", hint="use 32 hex digits")
        await self._reader.catch_up()
        spot = await self._reader.place_of_trace(trace_id)
        if spot is None:
            raise TraceNotFound(trace_id)
        return await self._reader.story_of(spot)

    async def search(self, wanted: TraceFilter, limit: int, cursor: str | None = None) -> Searched:
        """Messages that fit: of the recent ones, or, within a topic and a time or by key, of all."""
        if wanted.topic is not None:
            self._topics.get(wanted.topic)
        if wanted.needs_records or wanted.start_ms is not None:
            if wanted.topic is None and wanted.needs_records:
                raise InvalidRequest("a search by key or trace id needs a topic", field="topic")
            if wanted.topic is not None:
                return await self._scan(wanted, limit, cursor)
        return await self._from_ring(wanted, limit)

    # --- the ring ------------------------------------------------------------------------

    async def _from_ring(self, wanted: TraceFilter, limit: int) -> Searched:
        await self._reader.catch_up()
        found: list[Story] = []
        looked = 0
        for spot in self._recent_spots(wanted):
            if len(found) >= limit or looked >= _LOOKS_MAX:
                break
            looked += 1
            story = await self._reader.story_of(spot)
            if any(story.trace_id == one.trace_id for one in found):
                # Another place of a message that is listed already.
                continue
            if wanted.takes(story):
                found.append(story)
        return Searched(found, looked)

    def _recent_spots(self, wanted: TraceFilter) -> Iterator[Spot]:
        topic_id = None if wanted.topic is None else self._topics.get(wanted.topic).topic_id
        names: dict[UUID, str | None] = {}
        seen: set[tuple[UUID, int, int]] = set()
        for event in self.ring.recent(self.ring.capacity):
            if not _may_be(event, wanted, topic_id):
                continue
            name = names.setdefault(event.topic_id, self._name(event.topic_id))
            if name is None:
                continue
            for offset in range(event.last, event.first - 1, -1):
                place = (event.topic_id, event.partition, offset)
                if place not in seen:
                    seen.add(place)
                    yield Spot(event.topic_id, name, event.partition, offset)
                if len(seen) > _LOOKS_MAX:
                    return

    def _name(self, topic_id: UUID) -> str | None:
        return name_of(topic_id, self._topics)

    # --- the log -------------------------------------------------------------------------

    async def _scan(self, wanted: TraceFilter, limit: int, cursor: str | None) -> Searched:
        """Go through a topic's records of a time, a bounded number for each call."""
        topic = wanted.topic or ""
        count = self._topics.get(topic).partition_count
        chosen = list(range(count)) if wanted.partition is None else [wanted.partition]
        at, offset = _parse_cursor(cursor)
        found: list[Story] = []
        scanned = 0
        for partition in (one for one in chosen if one >= at):
            log = self._partitions.replica(topic, partition).log
            if partition != at or offset < 0:
                first = log.offset_for_timestamp(wanted.start_ms or 0, upper=log.high_watermark)
                offset = log.high_watermark if first is None else first.offset
            offset = max(offset, log.start_offset)
            while offset < log.high_watermark:
                if scanned >= SCAN_RECORDS or len(found) >= limit:
                    return Searched(found, scanned, f"{partition}:{offset}")
                step = await self._offload(
                    partial(_step, log, wanted, offset, _LOOKS_MAX if not wanted.needs_records else 0)
                )
                matches, opened, following, is_over = step
                scanned += opened
                for number, one in enumerate(matches):
                    story = await self._reader.story(topic, partition, one)
                    if wanted.takes(story):
                        found.append(story)
                    if len(found) >= limit and number + 1 < len(matches):
                        return Searched(found, scanned, f"{partition}:{one + 1}")
                offset = following
                await asyncio.sleep(0)
                if is_over:
                    break
            offset = -1
        return Searched(found, scanned)


def _step(log: PartitionLog, wanted: TraceFilter, offset: int, matches_max: int) -> tuple[list[int], int, int, bool]:
    """Offsets that fit in the next stretch, records opened, where to go on, and whether it is over."""
    read = log.read_batches(offset, max_bytes=_SCAN_BYTES, upper=log.high_watermark)
    matches: list[int] = []
    opened = 0
    is_over = not read.batches
    for batch in read.batches:
        header = parse_batch_header(batch)
        if header.is_control:
            continue
        try:
            records = decode_records(batch)
        except GoQueueError:
            # Nobody can read it; the rest can be searched.
            continue
        opened += len(records)
        for record in records:
            if record.offset >= offset and _fits(record, wanted):
                matches.append(record.offset)
                if matches_max and len(matches) >= matches_max:
                    return matches, opened, record.offset + 1, False
        is_over = wanted.end_ms is not None and header.base_timestamp_ms >= wanted.end_ms
        if is_over or opened >= SCAN_RECORDS:
            return matches, opened, header.last_offset + 1, is_over
    return matches, opened, read.next_offset, is_over


def _may_be(event: Noted, wanted: TraceFilter, topic_id: UUID | None) -> bool:
    if topic_id is not None and event.topic_id != topic_id:
        return False
    if wanted.partition is not None and event.partition != wanted.partition:
        return False
    if wanted.start_ms is not None and event.at_ms < wanted.start_ms:
        return False
    if wanted.end_ms is not None and event.at_ms >= wanted.end_ms:
        return False
    attributes = event.attributes
    pairs = {attributes[at]: attributes[at + 1] for at in range(0, len(attributes), 2)}
    if wanted.group is not None and pairs.get(At.GROUP) != wanted.group:
        return False
    return wanted.client is None or pairs.get(At.CLIENT) == wanted.client


def _fits(record: Record, wanted: TraceFilter) -> bool:
    if wanted.start_ms is not None and record.timestamp_ms < wanted.start_ms:
        return False
    if wanted.end_ms is not None and record.timestamp_ms >= wanted.end_ms:
        return False
    if wanted.key is not None and record.key != wanted.key:
        return False
    if wanted.trace_id is None:
        return True
    context = context_of(record.headers)
    return context is not None and context.trace_id == wanted.trace_id


def _parse_cursor(cursor: str | None) -> tuple[int, int]:
    if cursor is None:
        return 0, -1
    partition, colon, offset = cursor.partition(":")
    if not (colon and partition.isdecimal() and offset.isdecimal()):
        raise InvalidRequest(f"cursor {cursor[:64]!r} is not one of an earlier answer", field="cursor")
    return int(partition), int(offset)
