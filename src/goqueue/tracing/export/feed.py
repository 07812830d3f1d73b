"""The feed: makes spans of events, for the messages that were chosen, and puts them into the lanes.

Choosing is done in a thread, flush by flush, within a bound of processor time. Where a flush takes longer than that,
the next ones look only at every second, fourth or eighth offset and so on, the same ones for every event of a message,
until there is time for more again. What failed or was slow is exported whole, from its stored story, when it settles.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from functools import partial
from uuid import UUID

from goqueue.broker.replicas.partitions import Partitions
from goqueue.broker.topics import TopicService
from goqueue.errors import GoQueueError, TopicIdNotFound
from goqueue.log.partition_log import PartitionLog
from goqueue.ports import Offload
from goqueue.tracing.events import Noted, Subject
from goqueue.tracing.export.choice import Choice, Picked
from goqueue.tracing.export.lanes import Lane
from goqueue.tracing.reader import Reader, Spot
from goqueue.tracing.spans import Span, spans_of

# Of one flush: messages whose first place must be looked for, and whole stories that are read.
_WALKS_MAX = 10
_STORIES_MAX = 20
_FLUSHES_MAX = 50


class Feed:
    """Takes events from the recorder and puts spans into the lanes."""

    def __init__(
        self,
        lanes: Sequence[Lane],
        choice: Choice,
        reader: Reader,
        *,
        topics: TopicService,
        partitions: Partitions,
        offload: Offload,
    ) -> None:
        self.lanes = lanes
        self.choice = choice
        # Messages that were not looked at because there were too many.
        self.passed_over = 0
        self._reader = reader
        self._topics = topics
        self._partitions = partitions
        self._offload = offload
        self._flushes: deque[list[Noted]] = deque()
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

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
        places = self._places(events)
        found: Picked = await self._offload(partial(self.choice.pick, events, places))
        self.passed_over += found.passed_over
        self._put(found.spans)
        for event, spot in found.to_walk[:_WALKS_MAX]:
            trace_id, producer_span_id = await self._reader.trace_of(spot)
            self._put(self.choice.walked(event, spot, trace_id, producer_span_id))
        for event, spot in found.settled[:_STORIES_MAX]:
            if self.choice.is_worth(event, await self._stored_ms(spot)):
                self._put(spans_of(await self._reader.story_of(spot)))
        self.passed_over += max(0, len(found.to_walk) - _WALKS_MAX) + max(0, len(found.settled) - _STORIES_MAX)

    def _put(self, spans: Sequence[Span]) -> None:
        if spans:
            for lane in self.lanes:
                lane.put(spans)

    def _places(self, events: Sequence[Noted]) -> dict[Subject, tuple[str, PartitionLog]]:
        """The name and log of each partition, found here because a partition belongs to the event loop."""
        found: dict[Subject, tuple[str, PartitionLog]] = {}
        for subject in {Subject(one.topic_id, one.partition) for one in events}:
            name = self._name(subject.topic_id)
            if name is None:
                continue
            try:
                found[subject] = name, self._partitions.leader(name, subject.partition).log
            except GoQueueError:
                continue
        return found

    def _name(self, topic_id: UUID) -> str | None:
        try:
            return self._topics.by_id(topic_id).name
        except TopicIdNotFound:
            return None

    async def _stored_ms(self, spot: Spot) -> int:
        try:
            log = self._partitions.leader(spot.topic, spot.partition).log
            return await self._offload(lambda: log.append_time_ms(spot.offset))
        except GoQueueError:
            return -1
