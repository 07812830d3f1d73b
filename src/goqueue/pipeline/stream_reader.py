"""A topic as a stream: micro-batches between offsets that Spark keeps in its checkpoint.

An offset is `{"topic": {"0": 17}, "@group": "spark-topic-1f2e3d4c"}`. The group is drawn once,
when the stream begins, and travels in the checkpoint with the offsets: so a query keeps its
group over restarts, and its progress is the group's lag, for every tool that shows lag.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from goqueue.client.wire.offsets import commit_offsets
from goqueue.errors import GoQueueError
from goqueue.pipeline.admission import share_out
from goqueue.pipeline.catalogue import BrokerCatalogue, Catalogue, Offsets, open_catalogue, subscribed
from goqueue.pipeline.columns import Bounds
from goqueue.pipeline.errors import DataLost, in_one_line
from goqueue.pipeline.options import LATEST, SourceOptions
from goqueue.pipeline.plan import Range, Task, start_offsets, tasks_for
from goqueue.pipeline.reading import read_task
from goqueue.records import TopicPartition

_LOG = logging.getLogger("goqueue.pipeline")
_GROUP = "@group"
# An idle query asks for the latest offset eighty times a second.
_LATEST_CACHE_S = 0.05


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches in the driver's planner process, and reads them in tasks."""

    def __init__(self, options: SourceOptions, columns: Sequence[str]) -> None:
        self.options = options
        self.columns = tuple(columns)
        self._catalogue: Catalogue | None = None
        self._initial: dict[str, Any] | None = None
        self._last_stop: Offsets | None = None
        self._told: dict[str, Any] | None = None
        self._seen: tuple[float, Offsets] = (0.0, {})
        self._waiting_since = time.monotonic()

    @in_one_line
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - the name is Spark's
        """Where the stream begins. Spark may ask again before its first batch is done: the answer stays."""
        if self._initial is None:
            places = subscribed(self.options, self._world())
            self._initial = _encode(start_offsets(self.options, self._world(), places, LATEST), self._new_group())
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
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's
        """Where the next micro-batch ends: pinned here, whatever is written meanwhile."""
        # Spark begins a batch where the last one that is done ended.
        self.commit(start)
        begin, group = _decode(start)
        ends = self._latest()
        self._check_loss(begin, ends)
        new = [place for place in ends if place not in begin]
        begin |= self._world().earliest(new) if new else {}
        # A partition that fell behind our position (failOnDataLoss off) is not read backwards.
        ends = {place: max(end, begin[place]) for place, end in ends.items()}
        options = self.options
        available = sum(ends[place] - begin[place] for place in ends)
        if not available:
            return start
        may_wait = self._last_stop is None and (time.monotonic() - self._waiting_since) * 1000 < options.max_delay_ms
        if may_wait and options.min_offsets is not None and available < options.min_offsets:
            return start
        self._waiting_since = time.monotonic()
        if not (isinstance(limit, ReadAllAvailable) and self._has_limit()):
            ends = self._admit(begin, ends)
        return _encode(ends, group)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - the name is Spark's
        """The end of the log, for the lag in a query's progress."""
        return _encode(self._seen[1], None) if self._seen[1] else None

    @in_one_line
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - the name is Spark's
        """What is there now is all that this run reads."""
        self._last_stop = self._world().latest(subscribed(self.options, self._world()))
        self._seen = (time.monotonic(), self._last_stop)

    @in_one_line
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Task]:
        """The tasks of one micro-batch; a batch that runs again gets the same."""
        begin, _ = _decode(start)
        ends, _ = _decode(end)
        new = [place for place in ends if place not in begin]
        begin |= self._world().earliest(new) if new else {}
        ranges = [Range(place, begin[place], ends[place]) for place in ends]
        return tasks_for(self.options, ranges, Bounds())

    @in_one_line
    def read(self, partition: Task) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        yield from read_task(self.options, partition, self.columns)

    def commit(self, end: dict[str, Any]) -> None:
        """A batch is done: write its end to the group, so that lag can be seen. A failure to do so loses nothing."""
        if end == self._told:
            return
        offsets, group = _decode(end)
        world = self._world()
        if group and isinstance(world, BrokerCatalogue):
            try:
                commit_offsets(world.client, group, offsets, "written by Spark")
                self._told = end
            except GoQueueError as error:
                _LOG.warning("progress of group %s could not be written: %s", group, error)

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

    def _check_loss(self, begin: Offsets, ends: Offsets) -> None:
        if not self.options.fail_on_data_loss:
            return
        for place, start in begin.items():
            if place not in ends:
                raise DataLost(f"{place}, which does not exist any more", 0, max(1, start))
            if ends[place] < start and self._last_stop is None:
                raise DataLost(str(place), ends[place], start)

    def _new_group(self) -> str:
        options = self.options
        if options.group:
            return options.group
        named = options.subscribe or tuple(sorted({one.topic for one in options.assign})) or ("pattern",)
        return f"{options.group_prefix}-{'-'.join(named)[:80]}-{uuid.uuid4().hex[:8]}"


def _encode(offsets: Offsets, group: str | None) -> dict[str, Any]:
    encoded: dict[str, Any] = {}
    for place, offset in sorted(offsets.items()):
        encoded.setdefault(place.topic, {})[str(place.partition)] = offset
    return {**encoded, _GROUP: group} if group else encoded


def _decode(encoded: dict[str, Any]) -> tuple[Offsets, str | None]:
    offsets = {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in encoded.items()
        if topic != _GROUP
        for partition, offset in partitions.items()
    }
    return offsets, encoded.get(_GROUP)
