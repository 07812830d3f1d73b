"""The reader: puts the story of one message together, from its record, its events and the places it went to.

A message may lie in several places one after the other: held back in a delay log, in its topic, among the dead letters,
and in its topic again. Events say where it went, and the headers of a dead letter where it came from. All places of one
message have one trace id.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple
from uuid import UUID

from goqueue.broker.replicas.partitions import Partitions
from goqueue.broker.topics import TopicService
from goqueue.codec.batch import parse_batch_header
from goqueue.codec.batch_decode import decode_record_at
from goqueue.codec.frame import HEADER_BYTES, parse_frame_header
from goqueue.errors import GoQueueError, InternalTopic, OffsetOutOfRange
from goqueue.log.partition_log import PartitionLog
from goqueue.ports import Offload
from goqueue.records import Header, LogKind, Record
from goqueue.tracing.context import Places, TraceContext, context_of
from goqueue.tracing.events import At, Happened, Kind, Subject
from goqueue.tracing.recorder import Recorder
from goqueue.tracing.slots import name_of, slots_id, slots_topic, topic_of_slots
from goqueue.tracing.store import Store
from goqueue.tracing.story import Line, Status, Story, in_order, line_of, place_text, status_of, with_waits

# A message that died and was sent back so often is shown up to there.
_PLACES_MAX = 64

# Where a dead letter, or what was made of one, says that it came from: topic, partition, offset.
OriginOf = Callable[[Sequence[Header]], tuple[str, int, int] | None]


class Spot(NamedTuple):
    """One place of a message."""

    topic_id: UUID
    topic: str
    partition: int
    offset: int

    @property
    def text(self) -> str:
        """As users write it."""
        return place_text(self.topic, self.partition, self.offset)


class Stored(NamedTuple):
    """What a log says of one record."""

    record: Record | None
    appended_ms: int
    first: int
    last: int
    producer_id: int
    producer_epoch: int
    leader_epoch: int


class Found(NamedTuple):
    """One place with all that is known of it."""

    spot: Spot
    stored: Stored | None
    events: list[Happened]

    @property
    def headers(self) -> Sequence[Header]:
        """Of its record."""
        return self.stored.record.headers if self.stored is not None and self.stored.record is not None else ()


class Reader:
    """Stories of single messages."""

    def __init__(
        self,
        recorder: Recorder,
        store: Store,
        places: Places,
        *,
        topics: TopicService,
        partitions: Partitions,
        offload: Offload,
        origin_of: OriginOf,
        internal_groups: Sequence[str],
    ) -> None:
        self._recorder = recorder
        # Lets other nodes hand on what they have noted; set where there are others.
        self.gather: Callable[[], Awaitable[None]] | None = None
        self._store = store
        self._places = places
        self._topics = topics
        self._partitions = partitions
        self._offload = offload
        self._origin_of = origin_of
        self._internal_groups = internal_groups

    async def story(self, topic: str, partition: int, offset: int) -> Story:
        """The story of the message at a place; `OffsetOutOfRange` where no message was ever written."""
        held_for = topic_of_slots(topic)
        if held_for is not None:
            return await self._story_of_slot(held_for, partition, offset)
        place = self._partitions.replica(topic, partition)
        if place.internal:
            raise InternalTopic(topic)
        if not 0 <= offset < place.log.end_offset:
            raise OffsetOutOfRange(offset, place.log.start_offset, place.log.end_offset)
        return await self.story_of(Spot(place.topic_id, topic, partition, offset))

    async def _story_of_slot(self, topic: str, partition: int, slot: int) -> Story:
        # Stories are told where their topic is led, which need not be where this partition is.
        place = self._partitions.replica(topic, partition)
        if not self._partitions.has_member(place.key, LogKind.DELAY):
            raise OffsetOutOfRange(slot, 0, 0)
        log = (await self._partitions.follow_member(place.key, LogKind.DELAY)).log
        if not 0 <= slot < log.end_offset:
            raise OffsetOutOfRange(slot, log.start_offset, log.end_offset)
        return await self.story_of(Spot(slots_id(place.topic_id), slots_topic(topic), partition, slot))

    async def story_of(self, spot: Spot) -> Story:
        """The same for a place that is known to exist."""
        await self.catch_up()
        life = await self._life(spot)
        numbered = ((number, line) for number, found in enumerate(life) for line in self._lines(found))
        lines = with_waits(_told_once(in_order(numbered)))
        trace_id, parent = self._trace(life)
        asked = next(found for found in life if found.spot == spot)
        return Story(
            trace_id=trace_id,
            topic=spot.topic,
            partition=spot.partition,
            offset=spot.offset,
            status=status_of(lines, internal_groups=self._internal_groups) if lines else Status.PENDING,
            start_ms=lines[0].at_ms if lines else 0,
            end_ms=lines[-1].at_ms if lines else 0,
            lines=tuple(lines),
            places=tuple(found.spot.text for found in life),
            parent_span_id=parent,
            stored=asked.stored is not None and asked.stored.record is not None,
        )

    async def catch_up(self) -> None:
        """Let everything that happened until now be found."""
        self._recorder.flush()
        if self._recorder.waiting:
            # The store was not open yet.
            await self._store.opened()
            self._recorder.flush()
        if self.gather is not None:
            await self.gather()

    async def trace_of(self, spot: Spot) -> tuple[str, str | None]:
        """The trace id of a message and the span of its producer, if its record has one."""
        first = await self._find(spot)
        seen = {spot}
        chain = [first]
        while (before := self._before(chain[0])) is not None and before not in seen and len(seen) < _PLACES_MAX:
            seen.add(before)
            chain.insert(0, await self._find(before))
        return self._trace(chain)

    async def place_of_trace(self, trace_id: str) -> Spot | None:
        """Where the message of a trace lies: by the id itself, or by what the index knows of records' own ids."""
        for chunk in reversed(await self._store.chunks_of_trace(trace_id)):
            name = self._name(chunk.subject.topic_id)
            if name is None or trace_id not in chunk.names:
                continue
            number = chunk.names.index(trace_id)
            for run in chunk.runs:
                if any(
                    run.attributes[at] == At.TRACE and run.attributes[at + 1] == number
                    for at in range(0, len(run.attributes), 2)
                ):
                    return Spot(chunk.subject.topic_id, name, chunk.partition, run.pieces[0])
        place = self._places.place_of(trace_id, [one.topic_id for one in self._topics.list()])
        if place is None:
            return None
        name = self._name(place[0])
        if name is None or place[1] >= self._topics.get(name).partition_count:
            return None
        end = self._partitions.replica(name, place[1]).log.end_offset
        return Spot(place[0], name, place[1], place[2]) if place[2] < end else None

    # --- a life --------------------------------------------------------------------------

    async def _life(self, spot: Spot) -> list[Found]:
        """All places of a message, from the first on."""
        first = await self._find(spot)
        known = {spot: first}
        for _ in range(_PLACES_MAX):
            before = self._before(first)
            if before is None or before in known:
                break
            first = known[before] = await self._find(before)
        life: list[Found] = []
        waiting = [first]
        while waiting and len(life) < _PLACES_MAX:
            found = waiting.pop(0)
            life.append(found)
            for after in self._after(found):
                if all(after != one.spot for one in (*life, *waiting)):
                    waiting.append(known.get(after) or await self._find(after))
        if all(one.spot != spot for one in life):
            # Its origin does not know of it: what led here was not recorded.
            life.append(known[spot])
        return life

    def _before(self, found: Found) -> Spot | None:
        origin = self._origin_of(found.headers)
        if origin is not None:
            return self._spot(*origin)
        for event in found.events:
            if event.kind is Kind.DELAY_READY and event.get(At.FROM_TOPIC) is not None:
                further = found.spot.offset - event.first
                slot = int(event.get(At.FROM_OFFSET) or 0) + further
                return self._spot(str(event.get(At.FROM_TOPIC)), int(event.get(At.FROM_PARTITION) or 0), slot)
        return None

    def _after(self, found: Found) -> Iterator[Spot]:
        for event in found.events:
            topic, partition, first = event.get(At.TO_TOPIC), event.get(At.TO_PARTITION), event.get(At.TO_OFFSET)
            if topic is not None and partition is not None and first is not None:
                spot = self._spot(str(topic), int(partition), int(first) + found.spot.offset - event.first)
                if spot is not None:
                    yield spot

    def _spot(self, topic: str, partition: int, offset: int) -> Spot | None:
        held_for = topic_of_slots(topic)
        found = self._topics.find(topic if held_for is None else held_for)
        if found is None or not 0 <= partition < found.partition_count:
            return None
        topic_id = found.topic_id if held_for is None else slots_id(found.topic_id)
        return Spot(topic_id, topic, partition, offset)

    async def _find(self, spot: Spot) -> Found:
        events = await self._store.events(Subject(spot.topic_id, spot.partition), spot.offset)
        return Found(spot, await self._record(spot), events)

    async def _record(self, spot: Spot) -> Stored | None:
        if topic_of_slots(spot.topic) is not None:
            return None
        try:
            # Opened here: a partition belongs to the event loop.
            log = self._partitions.replica(spot.topic, spot.partition).log
            return await self._offload(partial(_read, log, spot.offset))
        except GoQueueError:
            # Removed, or damaged: its events are still worth showing.
            return None

    # --- lines ---------------------------------------------------------------------------

    def _lines(self, found: Found) -> Iterator[Line]:
        _, topic, partition, offset = found.spot
        is_gone = found.stored is None or found.stored.record is None
        for event in found.events:
            if event.kind is Kind.LOG_REMOVED and not is_gone:
                # Compaction tells of a range in which some records stay.
                continue
            yield line_of(event, topic, partition, offset)
            if event.kind is Kind.PUBLISH_RECEIVED and event.get(At.PROTOCOL) != "internal":
                chosen = "client" if event.get(At.PROTOCOL) == "kafka" else "broker"
                yield Line(event.at_ms, Kind.PUBLISH_PARTITIONED, topic, partition, offset, {"chosen_by": chosen})
        stored = found.stored
        if stored is not None and stored.record is not None:
            attributes: dict[str, int | str] = {"batch": f"{stored.first}-{stored.last}"}
            if stored.producer_id >= 0:
                attributes |= {"producer_id": stored.producer_id, "producer_epoch": stored.producer_epoch}
            attributes["leader_epoch"] = stored.leader_epoch
            yield Line(stored.appended_ms, Kind.PUBLISH_PERSISTED, topic, partition, offset, attributes)

    def _trace(self, life: Sequence[Found]) -> tuple[str, str | None]:
        for found in life:
            context = context_of(found.headers) or _noted_context(found.events)
            if context is not None:
                return context.trace_id, context.span_id
        spot = life[0].spot
        return self._places.trace_id(spot.topic_id, spot.partition, spot.offset), None

    def _name(self, topic_id: UUID) -> str | None:
        return name_of(topic_id, self._topics)


def _read(log: PartitionLog, offset: int) -> Stored | None:
    if not log.start_offset <= offset < log.end_offset:
        return None
    for frame in log.read_frames(offset, max_bytes=1, upper=log.end_offset).batches:
        head = parse_frame_header(frame)
        batch = frame[HEADER_BYTES : HEADER_BYTES + head.value_bytes]
        header = parse_batch_header(batch)
        if not header.base_offset <= offset <= header.last_offset:
            continue
        return Stored(
            None if header.is_control else decode_record_at(batch, offset),
            head.timestamp_ns // 1_000_000,
            header.base_offset,
            header.last_offset,
            header.producer_id,
            header.producer_epoch,
            header.leader_epoch,
        )
    return None


def _told_once(lines: Sequence[Line]) -> list[Line]:
    """Without what another line says better: a move that was noted at both ends, or a sync that a restart repeats."""
    known = {(line.kind, line.attributes.get("group")) for line in lines if "@" in (line.target or "")}
    synced: set[tuple[str, int, int]] = set()
    told: list[Line] = []
    for line in lines:
        if line.kind in {Kind.DLQ_ROUTED, Kind.DELAY_READY} and "@" not in (line.target or ""):
            if (line.kind, line.attributes.get("group")) in known:
                continue
        elif line.kind is Kind.PUBLISH_SYNCED:
            place = (line.topic, line.partition, line.offset)
            if place in synced:
                continue
            synced.add(place)
        told.append(line)
    return told


def _noted_context(events: Sequence[Happened]) -> TraceContext | None:
    """The context of a record that is gone, as it was noted when it came."""
    for event in events:
        trace_id, span_id = event.get(At.TRACE), event.get(At.PARENT)
        if trace_id is not None and span_id is not None:
            return TraceContext(str(trace_id), str(span_id))
    return None
