"""The sink: tasks stage their rows, and the driver's commit publishes all of them at once.

Exactly once rests on the broker's prepared transactions. A stream's writer is named by its
query, and the epoch is the batch's number: a batch that runs again after its commit opens
nothing and writes nothing, one that runs again before it takes the place of the first try.
A batch write is a writer of its own with the single epoch 0, unless it is given a name and an epoch.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from goqueue.client.wire import BrokerRefused, WireClient
from goqueue.client.wire.errors import KafkaUnreachable
from goqueue.client.wire.prepared import Participant, decide, open_participant
from goqueue.client.wire.producer import BatchProducer, Identity, new_identity
from goqueue.pipeline.errors import PipelineError, RowRefused, in_one_line
from goqueue.pipeline.sink.rows import RowWriter
from goqueue.pipeline.sink.sink_options import SinkOptions
from goqueue.pipeline.sink.targets import first_turn
from goqueue.pipeline.spark.api import HAS_ARROW_STREAM_WRITER, DataSourceStreamArrowWriter, as_arrow
from goqueue.pipeline.spark.worker_heap import settle
from goqueue.pipeline.steps import reached

_LOG = logging.getLogger("goqueue.pipeline")
_COMMITTED_ALREADY = 48


@dataclass
class Written(WriterCommitMessage):
    """What a task tells the driver. `participant` is None when it wrote nothing that needs a commit."""

    writer: str
    participant: Participant | None
    rows: int
    dead_letters: int


def open_sink_client(options: SinkOptions) -> WireClient:
    """A client of the brokers that the options name."""
    return WireClient(
        options.servers, client_id=options.kafka.get("client.id", "goqueue-spark"), security=options.kafka
    )


def write_rows(options: SinkOptions, writer: str, epoch: int, batches: Iterator[pa.RecordBatch]) -> Written:
    """One task's part: stage its rows, or write them at once if at-least-once is enough."""
    settle()
    context = TaskContext.get()
    number = context.partitionId() if context is not None else 0
    attempt = context.taskAttemptId() if context is not None else os.getpid()
    task = f"{number}-{attempt}-{uuid.uuid4().hex[:8]}"
    with open_sink_client(options) as client:
        identity: Identity | None = (
            open_participant(client, writer, epoch, task) if options.is_exactly_once else new_identity(client)
        )
        if identity is None:
            # The epoch is committed: this is the replay of a batch that Spark did not know to be done.
            return Written(writer, None, 0, 0)
        reached("opened", epoch)
        producer = BatchProducer(client, identity)
        rows = RowWriter(options, client, producer, first_turn(writer, epoch, number))
        try:
            for batch in batches:
                rows.write(batch)
                reached("sending", epoch)
        except RowRefused:
            # Opened again, the participant has staged nothing: what it sent before would hold readers back.
            if options.is_exactly_once:
                producer.flush()
                open_participant(client, writer, epoch, task)
            raise
        producer.flush()
        reached("staged", epoch)
        participant = Participant(task, identity.producer_id, identity.producer_epoch)
        return Written(writer, participant if options.is_exactly_once else None, rows.rows, rows.dead_letters)


def publish(options: SinkOptions, messages: list[WriterCommitMessage | None], epoch: int) -> None:
    """The driver's part: everything that the tasks staged, at once and once."""
    written = [one for one in messages if isinstance(one, Written)]
    if not options.is_exactly_once or not written:
        return
    reached("committing", epoch)
    if any(one.participant is None for one in written):
        # Some task found the epoch committed, so it was: what others may have staged since is not its part.
        return
    participants = [one.participant for one in written if one.participant is not None]
    with open_sink_client(options) as client:
        decide(client, written[0].writer, epoch, participants, commit=True)
    reached("committed", epoch)


def drop(options: SinkOptions, writer: str | None, epoch: int) -> None:
    """A task failed: what all tasks staged is aborted. Whoever opens the epoch again starts afresh."""
    if writer is not None and options.is_exactly_once:
        with open_sink_client(options) as client:
            try:
                decide(client, writer, epoch, (), commit=False)
            except BrokerRefused as error:
                # The failure came after the commit: there is nothing to drop.
                if error.code != _COMMITTED_ALREADY:
                    raise


def close_for_good(options: SinkOptions, writer: str, epoch: int) -> None:
    """A write that nobody will repeat has failed: what was staged is aborted, and nothing can be staged any more.

    Spark does not wait for the other tasks of a write that fails. One that is still at work would open a participant
    behind an abort, and hold back committed readers of the topic for a day. An epoch that is committed, with nothing in
    it, is closed to it.
    """
    if options.is_exactly_once:
        with open_sink_client(options) as client:
            decide(client, writer, epoch, (), commit=True)


@contextmanager
def unless_unreachable() -> Iterator[None]:
    """Clear up behind a failure, unless no broker answers: an error here would hide what the write failed with."""
    try:
        yield
    except KafkaUnreachable as error:
        _LOG.warning("what a failed write has staged is left to the transactions' timeout: %s", error)


class BatchWriter(DataSourceArrowWriter):
    """For `df.write`: all rows or none."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options
        self.name = options.writer or f"spark-batch-{uuid.uuid4().hex}"

    @in_one_line
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """One task's rows."""
        return write_rows(self.options, self.name, self.options.epoch, iterator)

    @in_one_line
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All tasks have staged."""
        publish(self.options, messages, self.options.epoch)

    @in_one_line
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - Spark's
        """Some task failed, or the commit did."""
        with unless_unreachable():
            if self.options.writer is None:
                close_for_good(self.options, self.name, self.options.epoch)
            else:
                drop(self.options, self.name, self.options.epoch)


class StreamWriter(DataSourceStreamArrowWriter):
    """For `writeStream`: every micro-batch once, over restarts and crashes."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self.options = options
        self.schema = schema

    @in_one_line
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """One task's rows of one micro-batch, named by the query and the batch."""
        batches = iterator if HAS_ARROW_STREAM_WRITER else as_arrow(iterator, self.schema)
        context = TaskContext.get()
        query = context.getLocalProperty("sql.streaming.queryId") if context is not None else None
        batch = context.getLocalProperty("streaming.sql.batchId") if context is not None else None
        if query is None or batch is None:
            raise PipelineError("Spark does not tell this task which query and batch it belongs to")
        return write_rows(self.options, self.options.writer or f"spark-{query}", int(batch), batches)

    @in_one_line
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's
        """The micro-batch is whole."""
        publish(self.options, messages, batchId)

    @in_one_line
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's
        """The micro-batch failed. Tasks that are done tell who wrote it; what is left of others the next try drops."""
        written = next((one.writer for one in messages if isinstance(one, Written)), self.options.writer)
        with unless_unreachable():
            drop(self.options, written, batchId)
