"""The feed: chooses whose spans are exported, and makes them of events.

Head-based: the trace id decides, so all events of a message are exported or none. A message whose own trace id
is not known without opening it is chosen by the id that follows from its place, and then opened once. What
failed or was slow is exported whole, from its stored story, when it settles. How many messages are looked at in
each flush is bounded.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from goqueue.broker.partitions import Partitions
from goqueue.broker.topics import TopicService
from goqueue.errors import GoQueueError, TopicIdNotFound
from goqueue.ports import Offload
from goqueue.tracing.context import Places
from goqueue.tracing.events import At, Happened, Kind, Noted
from goqueue.tracing.export.lanes import Lane
from goqueue.tracing.reader import Reader, Spot
from goqueue.tracing.sampling import Sampler
from goqueue.tracing.spans import span_of, spans_of
from goqueue.tracing.story import line_of

# Of one flush: messages whose id is worked out, records that are opened, and whole stories that are read.
_LOOKS_MAX = 1_000
_OPENED_MAX = 100
_STORIES_MAX = 20
_KNOWN_MAX = 10_000
_FLUSHES_MAX = 50
_FAILURES = frozenset({Kind.CONSUME_REJECTED, Kind.DLQ_ROUTED, Kind.DELAY_EXPIRED})


class Chosen(NamedTuple):
    """The trace of a message that is exported."""

    trace_id: str
    producer_span_id: str | None


class Feed:
    """Takes events from the recorder and puts spans into the lanes."""

    def __init__(
        self,
        lanes: Sequence[Lane],
        sampler: Sampler,
        places: Places,
        reader: Reader,
        *,
        topics: TopicService,
        partitions: Partitions,
        offload: Offload,
        failed: bool,
        slow_ms: int,
    ) -> None:
        self.lanes = lanes
        self.sampler = sampler
        # Messages that were not looked at because a flush had too many.
        self.passed_over = 0
        self._places = places
        self._reader = reader
        self._topics = topics
        self._partitions = partitions
        self._offload = offload
        self._failed = failed
        self._slow_ms = slow_ms
        self._flushes: deque[list[Noted]] = deque()
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        # None: not exported. Only for those whose id does not follow from their place.
        self._known: OrderedDict[tuple[UUID, int, int], Chosen | None] = OrderedDict()
        self._names: dict[UUID, str] = {}

    def sink(self, events: list[Noted]) -> None:
        """Take what a flush brought; the oldest flush makes room."""
        self._flushes.append(events)
        if len(self._flushes) > _FLUSHES_MAX:
            self.passed_over += sum(one.last - one.first + 1 for one in self._flushes.popleft())
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        self._woken.set()

    async def close(self) -> None:
        """Export what is there, and stop."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            while self._flushes:
                await self._take(self._flushes.popleft())
        for lane in self.lanes:
            await self._offload(lane.close)

    async def _run(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            while self._flushes:
                await self._take(self._flushes.popleft())

    async def _take(self, events: Sequence[Noted]) -> None:
        looks = opened = stories = 0
        for event in events:
            topic = self._name(event.topic_id)
            if topic is None or event.kind is Kind.NOT_KEPT:
                continue
            rate = self.sampler.rate_for(event.topic_id)
            is_settled = (self._failed and event.kind in _FAILURES) or (
                self._slow_ms > 0 and event.kind is Kind.CONSUME_ACKED
            )
            if rate <= 0 and not is_settled:
                continue
            for offset in range(event.first, event.last + 1):
                looks += 1
                if looks > _LOOKS_MAX or opened > _OPENED_MAX:
                    self.passed_over += event.last - offset + 1
                    break
                spot = Spot(event.topic_id, topic, event.partition, offset)
                chosen, was_opened = await self._chosen(event, spot)
                opened += was_opened
                if chosen is not None:
                    self._put(event, spot, chosen)
                elif is_settled and stories < _STORIES_MAX and await self._is_worth(event, spot):
                    stories += 1
                    spans = spans_of(await self._reader.story_of(spot))
                    for lane in self.lanes:
                        lane.put(spans)

    async def _chosen(self, event: Noted, spot: Spot) -> tuple[Chosen | None, bool]:
        """The trace of a message if it is exported, and whether a record was opened to find out."""
        key = (spot.topic_id, spot.partition, spot.offset)
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key], False
        noted = _noted(event)
        if noted is not None:
            found = noted if self.sampler.takes(spot.topic_id, noted.trace_id) else None
            self._remember(key, found)
            return found, False
        is_of_broker = event.kind is Kind.PUBLISH_RECEIVED and "internal" in event.attributes
        derived = self._places.trace_id(*key)
        if not is_of_broker and not self.sampler.takes(spot.topic_id, derived):
            return None, False
        trace_id, producer_span_id = await self._reader.trace_of(spot)
        # Of what the broker publishes itself, and of what began elsewhere, the first place decides.
        root = trace_id if producer_span_id is None else derived
        found = Chosen(trace_id, producer_span_id) if self.sampler.takes(spot.topic_id, root) else None
        self._remember(key, found)
        return found, True

    def _remember(self, key: tuple[UUID, int, int], chosen: Chosen | None) -> None:
        self._known[key] = chosen
        if len(self._known) > _KNOWN_MAX:
            self._known.popitem(last=False)

    def _put(self, event: Noted, spot: Spot, chosen: Chosen) -> None:
        happened = Happened(event.at_ms, event.kind, event.first, event.last, event.attributes)
        line = line_of(happened, spot.topic, spot.partition, spot.offset)
        spans = [span_of(line, chosen.trace_id, chosen.producer_span_id)]
        for lane in self.lanes:
            lane.put(spans)

    async def _is_worth(self, event: Noted, spot: Spot) -> bool:
        """Whether a message that was not chosen is exported all the same."""
        if event.kind in _FAILURES:
            return True
        try:
            log = self._partitions.get(spot.topic, spot.partition).log
            stored_ms = await self._offload(lambda: log.append_time_ms(spot.offset))
        except GoQueueError:
            return False
        return stored_ms >= 0 and event.at_ms - stored_ms > self._slow_ms

    def _name(self, topic_id: UUID) -> str | None:
        name = self._names.get(topic_id)
        if name is None:
            try:
                name = self._names[topic_id] = self._topics.by_id(topic_id).name
            except TopicIdNotFound:
                return None
        return name


def _noted(event: Noted) -> Chosen | None:
    attributes = event.attributes
    if At.TRACE not in attributes[::2]:
        return None
    pairs = {attributes[at]: attributes[at + 1] for at in range(0, len(attributes), 2)}
    return Chosen(str(pairs[At.TRACE]), str(pairs[At.PARENT]))
