"""A topic as a stream: micro-batches between offsets that Spark keeps in its checkpoint."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader

from goqueue.client.wire.offsets import commit_offsets
from goqueue.errors import GoQueueError
from goqueue.pipeline.decoding.columns import Bounds
from goqueue.pipeline.errors import DataLost, TopicRecreated, in_one_line
from goqueue.pipeline.source.admission import share_out
from goqueue.pipeline.source.catalogue import BrokerCatalogue, Catalogue, Offsets, open_catalogue, subscribed
from goqueue.pipeline.source.option_rules import check_stream
from goqueue.pipeline.source.options import LATEST, SourceOptions
from goqueue.pipeline.source.plan import Range, Task, start_offsets, tasks_for
from goqueue.pipeline.source.reading import read_task
from goqueue.pipeline.source.stream_offset import StreamOffset
from goqueue.pipeline.spark.api import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from goqueue.records import TopicPartition

if TYPE_CHECKING:
    from goqueue.pipeline.typed.pinned import Pinned

_LOG = logging.getLogger("goqueue.pipeline")
# An idle query asks for the latest offset eighty times a second.
_LATEST_CACHE_S = 0.05


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches in the driver's planner process, and reads them in tasks."""

    def __init__(self, options: SourceOptions, columns: Sequence[str], pinned: Pinned | None = None) -> None:
        check_stream(options)
        self.options = options
        self.columns = tuple(columns)
        self.pinned = pinned
        self._catalogue: Catalogue | None = None
        self._initial: dict[str, Any] | None = None
        # Where the next batch begins, for a Spark that does not say so.
        self._position: dict[str, Any] | None = None
        # With availableNow the first look at the topics says where the run ends; no look comes after it.
        self._is_available_now = False
        self._last_stop: Offsets | None = None
        self._remade: set[str] = set()
        self._told: dict[str, Any] | None = None
        self._seen: tuple[float, Offsets] = (0.0, {})
        self._waiting_since = time.monotonic()

    @in_one_line
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - the name is Spark's
        """Where the stream begins. Spark may ask again before its first batch is done: the answer stays."""
        if self._initial is None:
            places = subscribed(self.options, self._world())
            starts = start_offsets(self.options, self._world(), places, LATEST)
            self._initial = StreamOffset(starts, self._new_group(), self._world().topic_ids()).encode()
        self._position = self._initial
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - the name is Spark's
        """What Spark shows; all limits of the options together are applied in `latestOffset`."""
        options = self.options
        if options.max_offsets is not None:
            return ReadMaxRows(options.max_offsets)
        if options.max_bytes is not None:
            return ReadMaxBytes(options.max_bytes)
        if options.min_offsets is not None:
            return ReadMinRows(options.min_offsets)
        return ReadAllAvailable()

    @in_one_line
    def latestOffset(  # noqa: N802 - the name is Spark's
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Where the next micro-batch ends: pinned here, whatever is written meanwhile.

        Before 4.2, Spark does not say where it begins: that is where the last one ended. The first batch of a run, of
        which only Spark's checkpoint knows the beginning, reads all that is there, whatever limit the options set.
        """
        ends = self._latest()
        start = start or self._position
        if start is None:
            return StreamOffset(ends, self._new_group(), self._world().topic_ids()).encode()
        known = StreamOffset.decode(start)
        ends = self._at_least_begun(known, ends)
        begin = self._reachable(known, ends)
        # Spark begins a batch where the last one that is done ended.
        self.commit(start)
        ends = {place: max(end, begin[place]) for place, end in ends.items()}
        options = self.options
        available = sum(ends[place] - begin[place] for place in ends)
        fell_back = any(begin[place] < known.places.get(place, 0) for place in begin if place.topic not in self._remade)
        if not available and not fell_back:
            return start
        may_wait = not self._is_available_now and (
            (time.monotonic() - self._waiting_since) * 1000 < options.max_delay_ms
        )
        if may_wait and options.min_offsets is not None and available < options.min_offsets:
            return start
        self._waiting_since = time.monotonic()
        if not (isinstance(limit, ReadAllAvailable) and self._has_limit()):
            ends = self._admit(begin, ends)
        return StreamOffset(ends, known.group, self._world().topic_ids()).encode()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - the name is Spark's
        """The end of the log, for the lag in a query's progress."""
        return StreamOffset(self._seen[1]).encode() if self._seen[1] else None

    @in_one_line
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - the name is Spark's
        """What is there at the first look is all that this run reads."""
        self._is_available_now = True

    @in_one_line
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Task]:
        """The tasks of one micro-batch; a batch that runs again gets the same."""
        self._position = end
        begun, ended = StreamOffset.decode(start), StreamOffset.decode(end)
        remade = begun.recreated(ended.topic_ids)
        begin = {place: offset for place, offset in begun.places.items() if place.topic not in remade}
        new = [place for place in ended.places if place not in begin]
        begin |= self._first_of(new, begun, remade)
        ranges = [Range(place, begin[place], offset) for place, offset in ended.places.items()]
        return tasks_for(self.options, ranges, Bounds(), ended.topic_ids)

    @in_one_line
    def read(self, partition: Task) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        yield from read_task(self.options, partition, self.columns, self.pinned)

    def commit(self, end: dict[str, Any]) -> None:
        """A batch is done: write its end to the group, so that lag can be seen. A failure to do so loses nothing."""
        if end == self._told:
            return
        done = StreamOffset.decode(end)
        world = self._world()
        # The broker takes no offsets of partitions that are gone, and the client would ask it again for a minute.
        places = {
            place: offset
            for place, offset in done.places.items()
            if place in self._seen[1] and place.topic not in self._remade
        }
        if done.group and places and isinstance(world, BrokerCatalogue):
            try:
                commit_offsets(world.client, done.group, places, "written by Spark")
                self._told = end
            except GoQueueError as error:
                _LOG.warning("progress of group %s could not be written: %s", done.group, error)

    def stop(self) -> None:
        """The query ends."""
        if self._catalogue is not None:
            self._catalogue.close()

    def __getstate__(self) -> dict[str, Any]:
        # Tasks get a copy of the reader: the planner's connections are its own.
        return {**self.__dict__, "_catalogue": None}

    def _world(self) -> Catalogue:
        if self._catalogue is None:
            self._catalogue = open_catalogue(self.options)
        return self._catalogue

    def _latest(self) -> Offsets:
        if self._last_stop is not None:
            return self._last_stop
        when, offsets = self._seen
        if not offsets or time.monotonic() - when > _LATEST_CACHE_S:
            offsets = self._world().latest(subscribed(self.options, self._world()))
            self._seen = (time.monotonic(), offsets)
        if self._is_available_now:
            self._last_stop = offsets
        return dict(offsets)

    def _has_limit(self) -> bool:
        # Trigger.Once asks for everything although the options set a limit.
        return self.options.max_offsets is not None or self.options.max_bytes is not None

    def _admit(self, begin: Offsets, ends: Offsets) -> Offsets:
        options = self.options
        if options.max_offsets is not None:
            ends = share_out(begin, ends, options.max_offsets)
        if options.max_bytes is not None:
            each = self._bytes_per_offset(list(ends))
            ends = share_out(begin, ends, max(1, int(options.max_bytes / each)))
        return ends

    def _bytes_per_offset(self, places: list[TopicPartition]) -> float:
        world = self._world()
        earliest, latest = world.earliest(places), world.latest(places)
        offsets = sum(latest[place] - earliest[place] for place in places)
        return max(1.0, sum(world.bytes_of(places).values()) / max(1, offsets))

    def _at_least_begun(self, known: StreamOffset, ends: Offsets) -> Offsets:
        """The ends, none of them before its log begins: that may lie behind what a committed reader can see."""
        behind = [place for place, start in known.places.items() if ends.get(place, start) < start]
        first = self._world().earliest(behind) if behind else {}
        return {place: max(end, first.get(place, end)) for place, end in ends.items()}

    def _reachable(self, known: StreamOffset, ends: Offsets) -> Offsets:
        """Where to read on, in every partition there is. What was lost since is an error, or passed over."""
        self._remade = known.recreated(self._world().topic_ids())
        if self.options.fail_on_data_loss:
            self._check_loss(known, ends)
        # Passed over: a log that became shorter is read on from its new end, a topic created anew from its beginning.
        begin = {
            place: min(offset, ends[place])
            for place, offset in known.places.items()
            if place in ends and place.topic not in self._remade
        }
        new = [place for place in ends if place not in begin]
        return begin | self._first_of(new, known, self._remade)

    def _first_of(self, new: list[TopicPartition], known: StreamOffset, remade: set[str]) -> Offsets:
        """Where to begin in partitions that the stream has not read; those that were added to a topic were empty."""
        found = self._world().earliest(new) if new else {}
        if self.options.fail_on_data_loss and not self.options.assign:
            topics = {place.topic for place in known.places} - remade
            for place, first in found.items():
                if place.topic in topics and first > 0:
                    raise DataLost(f"{place}, which was added to the topic", 0, first)
        return found

    def _check_loss(self, known: StreamOffset, ends: Offsets) -> None:
        for topic in sorted(self._remade):
            raise TopicRecreated(topic)
        for place, start in known.places.items():
            if place not in ends:
                raise DataLost(f"{place}, which does not exist any more", 0, max(1, start))
            if ends[place] < start:
                raise DataLost(str(place), ends[place], start)

    def _new_group(self) -> str:
        options = self.options
        if options.group:
            return options.group
        named = options.subscribe or tuple(sorted({one.topic for one in options.assign})) or ("pattern",)
        return f"{options.group_prefix}-{'-'.join(named)[:80]}-{uuid.uuid4().hex[:8]}"
