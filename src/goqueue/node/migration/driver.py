"""Takes over former internal topics, each in the same four steps.

1. Begin anew: whatever an attempt before has left of the new logs is removed.
2. Write: the state is read from the former topic and written to the logs of the partitions that it is about. Open and
   decided transactions get these partitions as participants, in the place of those of the former topic.
3. Mark: when all of that is synced, the feature level of the new logs is finalised, so that no version that does not
   know them starts here again, and the layout mark is written. It separates "begin anew" from "done".
4. Remove the former topic.

A crash before the mark leaves the former topic as it was; one after it leaves only the removal to be done. Nothing is
served in between, so neither side can change meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from goqueue.broker.replicas.partitions import Partitions
from goqueue.clock import Clock
from goqueue.metadata.events import FeatureFinalised, TopicDeleted
from goqueue.metadata.features import DELAY_VERSION, SCHEDULE_HOMES_LEVEL
from goqueue.metadata.store import MetadataStore
from goqueue.node.migration.layout import mark_taken_over, read_layout
from goqueue.node.migration.participants import rewrite_participants
from goqueue.node.migration.progress import Progress
from goqueue.ports import Files, Offload
from goqueue.records import TopicPartition

_log = logging.getLogger("goqueue.migration")

# By producer, the partitions in which something waits for the end of its transaction.
Waiting = Mapping[int, frozenset[TopicPartition]]


class Step(Protocol):
    """Takes over one former internal topic."""

    # The topic's name.
    topic: str

    def begin_anew(self) -> Awaitable[None]:
        """Remove what an attempt before has left."""
        ...

    def write(self, progress: Progress) -> Awaitable[Waiting]:
        """Write the new logs, synced; returns where transactions have something waiting in them."""
        ...

    def finish(self) -> Awaitable[None]:
        """Remove what belonged to the former topic beside its logs. May be called again after a crash."""
        ...


class Migration:
    """Runs the steps that a data directory needs; costs one look at the metadata if it needs none."""

    def __init__(
        self,
        steps: Sequence[Step],
        *,
        files: Files,
        metadata: MetadataStore,
        partitions: Partitions,
        offload: Offload,
        clock: Clock,
        at_step: Callable[[str], None] = lambda _step: None,
    ) -> None:
        self._steps = steps
        self._files = files
        self._metadata = metadata
        self._partitions = partitions
        self._offload = offload
        self._clock = clock
        # For tests that end the process here.
        self._at_step = at_step

    async def run(self) -> None:
        """Bring the directory to the present layout."""
        for step in self._steps:
            topic = self._metadata.image.topic(step.topic)
            if topic is None:
                continue
            layout = await self._offload(lambda: read_layout(self._files))
            if step.topic not in layout.taken_over:
                await self._take_over(step)
            await step.finish()
            await self._metadata.commit([TopicDeleted(topic.name, topic.topic_id)])
            self._at_step(f"{step.topic}: removed")
        await self._finalise()

    async def _take_over(self, step: Step) -> None:
        _log.info("taking over %s into the logs of partitions", step.topic)
        progress = Progress(self._clock, step.topic)
        progress.begin()
        try:
            await self._take_over_in_steps(step, progress)
        finally:
            progress.end()
        _log.info("%s was taken over in %d ms", step.topic, progress.took_ms)

    async def _take_over_in_steps(self, step: Step, progress: Progress) -> None:
        await step.begin_anew()
        self._at_step(f"{step.topic}: begun anew")
        waiting = await step.write(progress)
        self._at_step(f"{step.topic}: written")
        await rewrite_participants(
            self._partitions, former=step.topic, waiting=waiting, offload=self._offload, now_ms=self._clock.now_ms()
        )
        self._at_step(f"{step.topic}: participants rewritten")
        # Not before: should this fail, the version that wrote the directory can still be started on it.
        await self._finalise()
        await self._offload(lambda: mark_taken_over(self._files, step.topic))
        self._at_step(f"{step.topic}: marked")

    async def _finalise(self) -> None:
        """Versions that do not know the logs of queues and delayed messages do not start on this directory any more."""
        if self._metadata.image.feature_levels().get(DELAY_VERSION, 0) < SCHEDULE_HOMES_LEVEL:
            await self._metadata.commit([FeatureFinalised(DELAY_VERSION, SCHEDULE_HOMES_LEVEL)])
