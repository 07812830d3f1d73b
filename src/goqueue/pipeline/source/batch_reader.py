"""A topic as a table: everything between two positions that are fixed when the query is planned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader

from goqueue.pipeline.errors import in_one_line
from goqueue.pipeline.source.catalogue import Catalogue, open_catalogue, subscribed
from goqueue.pipeline.source.filters import Pushed
from goqueue.pipeline.source.option_rules import check_batch, check_order
from goqueue.pipeline.source.options import EARLIEST, SourceOptions
from goqueue.pipeline.source.plan import Range, Task, checked_start, end_offsets, start_offsets, tasks_for
from goqueue.pipeline.source.reading import read_task
from goqueue.pipeline.spark.api import Filter

if TYPE_CHECKING:
    from goqueue.pipeline.typed.pinned import Pinned


class BatchReader(DataSourceReader):
    """Reads once."""

    def __init__(self, options: SourceOptions, columns: Sequence[str], pinned: Pinned | None = None) -> None:
        check_batch(options)
        self.options = options
        self.columns = tuple(columns)
        self.pinned = pinned
        self.pushed = Pushed()

    @in_one_line
    def partitions(self) -> list[Task]:
        """Plan: this is the moment at which `latest` is what it is."""
        with closing(open_catalogue(self.options)) as catalogue:
            return self._plan(catalogue)

    @in_one_line
    def read(self, partition: Task) -> Iterator[pa.RecordBatch]:
        """The rows of one task. A topic without records is planned as a task without a range."""
        if isinstance(partition, Task):
            yield from read_task(self.options, partition, self.columns, self.pinned)

    def _plan(self, catalogue: Catalogue) -> list[Task]:
        return tasks_for(self.options, self._ranges(catalogue), self.pushed.bounds, catalogue.topic_ids())

    def _ranges(self, catalogue: Catalogue) -> list[Range]:
        """What is read of every partition."""
        options, wanted = self.options, self.pushed
        places = subscribed(options, catalogue)
        # Once: of a directory it is told by a look at all files.
        latest = catalogue.latest(places)
        ends = end_offsets(options, catalogue, places, latest)
        starts = start_offsets(options, catalogue, places, EARLIEST)
        check_order(options, starts, ends)
        starts = checked_start(options, starts, catalogue.earliest(places), latest)
        return [
            Range(place, max(starts[place], wanted.bounds.start), min(ends[place], wanted.bounds.end))
            for place in places
            if wanted.wants(place)
        ]


class FilteringBatchReader(BatchReader):
    """The same, for Spark's planner that hands filters down.

    A class of its own, since Spark refuses a reader that offers this while the session has
    `spark.sql.python.filterPushdown.enabled` off.

    Asked for by an option, for nothing here can make it safe: up to Spark 4.3 the JVM keeps the tasks
    of the last plan in the object behind `load()` (`PythonDataSourceV2.setReadInfo`), not in the scan
    they were planned for. Of two queries over one DataFrame the second may get the tasks of the first
    without Python being asked, and in `df.where(a).union(df.where(b))` both sides get those of `b`.
    """

    @in_one_line
    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - the name is Spark's
        """Take what can be kept exactly. The view of frames is left to Spark."""
        return list(filters) if self.options.view == "frames" else self.pushed.take(filters)
