"""A queue as a stream: a micro-batch is what was taken for it, and is acknowledged when Spark has committed it.

At least once: a batch that takes longer than the leases can be kept, or a planner that is away for longer, lets other
readers of the group have its messages too. A batch that runs again reads the same messages, so sinks that know a
batch by its number write each of them once.
"""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader

from goqueue.pipeline.errors import BadOption, in_one_line
from goqueue.pipeline.queue.keeper import Keeper
from goqueue.pipeline.queue.leases import NEVER_GIVEN, Lease, QueueOffset
from goqueue.pipeline.queue.options import QueueOptions
from goqueue.pipeline.queue.reading import QueueTask, read_leases
from goqueue.pipeline.spark.api import (
    HAS_ADMISSION_CONTROL,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from goqueue.pipeline.steps import reached

if TYPE_CHECKING:
    from goqueue.pipeline.queue.queue_broker import QueueBroker

_LOG = logging.getLogger("goqueue.pipeline")
# An idle query asks eighty times a second; the broker is asked as often as this.
_IDLE_S = 0.1
_TASK_MESSAGES_MIN = 500
_UNSETTLED_MAX = 100_000


class QueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Takes messages in the planner process, and reads them in tasks."""

    def __init__(self, options: QueueOptions) -> None:
        if not HAS_ADMISSION_CONTROL:
            raise BadOption("mode", "a queue as a source needs PySpark 4.2 or newer")
        self.options = options
        self._broker: QueueBroker | None = None
        self._keeper: Keeper | None = None
        self._acknowledged = 0
        self._looked_at = 0.0
        # Messages that are done and could not be acknowledged, with their receipts.
        self._unsettled: dict[tuple[int, int], str] = {}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - the name is Spark's
        """Before the first batch."""
        return QueueOffset().encode()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - the name is Spark's
        """What Spark shows."""
        return ReadMaxRows(self.options.batch_max)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - the name is Spark's
        """Nothing to prepare: the run ends when the queue has nothing to give."""

    @in_one_line
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802 - Spark's
        """Take what the next batch is made of."""
        done = QueueOffset.decode(start)
        # Spark begins a batch where the last one that is done ended.
        self.commit(start)
        if time.monotonic() - self._looked_at < _IDLE_S:
            return start
        broker = self._connected()
        taken = broker.receive(self.options.batch_max, self.options.visibility_ms)
        again = self._done_before(taken)
        known = {one.receipt for one in again}
        fresh = tuple(one for one in taken if one.receipt not in known)
        if not fresh:
            self._looked_at = time.monotonic()
            return start
        self._kept().keep(fresh)
        reached("queue-taken", done.number + 1)
        return QueueOffset(done.number + 1, fresh).encode()

    @in_one_line
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[QueueTask]:  # noqa: ARG002 - Spark's
        """The tasks of one micro-batch; a batch that runs again gets the same."""
        batch = QueueOffset.decode(end)
        self._kept().keep(batch.leases)
        self._kept().renew()
        count = max(1, min(os.cpu_count() or 1, -(-len(batch.leases) // _TASK_MESSAGES_MIN)))
        each = max(1, -(-len(batch.leases) // count))
        ordered = sorted(batch.leases)
        return [QueueTask(tuple(ordered[first : first + each])) for first in range(0, len(ordered), each)]

    @in_one_line
    def read(self, partition: QueueTask) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        if isinstance(partition, QueueTask):
            yield from read_leases(self.options, partition)

    @in_one_line
    def commit(self, end: dict[str, Any]) -> None:
        """A batch is done: acknowledge its messages."""
        done = QueueOffset.decode(end)
        if done.number <= self._acknowledged or not done.leases:
            return
        self._kept().keep(())
        reached("queue-done", done.number)
        failed = self._connected().ack([one.receipt for one in done.leases])
        if failed:
            _LOG.info("%d of %d messages were settled before, or their lease had ended", len(failed), len(done.leases))
            # Those come back, perhaps not with the next batch.
            self._unsettled |= {one.place: one.receipt for one in done.leases if one.receipt in failed}
            for place in list(self._unsettled)[:-_UNSETTLED_MAX]:
                del self._unsettled[place]
        self._acknowledged = done.number
        reached("queue-acknowledged", done.number)

    def _done_before(self, taken: Sequence[Lease]) -> list[Lease]:
        """Acknowledge those of which the lease ended between the commit of their batch and its acknowledgement.

        How often they were delivered does not tell: a broker that crashes forgets a lease that it has just given. Their
        earlier receipts do, for they are refused in another way where a topic was made anew.
        """
        met = [one for one in taken if one.place in self._unsettled]
        if not met:
            return []
        refused = self._connected().ack([self._unsettled[one.place] for one in met])
        again = [one for one in met if refused.get(self._unsettled[one.place]) != NEVER_GIVEN]
        refused = self._connected().ack([one.receipt for one in again])
        for one in met:
            del self._unsettled[one.place]
        self._unsettled |= {one.place: one.receipt for one in again if one.receipt in refused}
        return again

    def stop(self) -> None:
        """The query ends; what is taken and not done is delivered to others when its lease ends."""
        if self._keeper is not None:
            self._keeper.close()
        if self._broker is not None:
            self._broker.close()

    def __getstate__(self) -> dict[str, Any]:
        # Tasks get a copy of the reader: connections and threads are the planner's own.
        return {**self.__dict__, "_broker": None, "_keeper": None, "_unsettled": {}}

    def _connected(self) -> QueueBroker:
        if self._broker is None:
            # Not at the top: executors load this module too, and an HTTP library takes them half a second.
            from goqueue.pipeline.queue.queue_broker import QueueBroker

            options = self.options
            self._broker = QueueBroker(options.http, options.topic, options.group, f"spark-{uuid.uuid4().hex[:8]}")
        return self._broker

    def _kept(self) -> Keeper:
        if self._keeper is None:
            self._keeper = Keeper(self._connected(), self.options.visibility_ms)
        return self._keeper
