"""What Spark's transfer to and from Python costs by itself: sources and sinks that do nothing else."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from tests.bench.kafka_load import TOPIC

from goqueue.client.wire import WireClient
from goqueue.client.wire.producer import BatchProducer, Identity
from goqueue.codec.batch_encode import encode_batch
from goqueue.pipeline.decoding.batches import Batches
from goqueue.pipeline.decoding.columns import RECORD_COLUMNS, Bounds, record_batches
from goqueue.pipeline.sink.rows import RowWriter
from goqueue.pipeline.sink.sink_options import parse_sink_options
from goqueue.pipeline.sink.writers import open_sink_client
from goqueue.ports import Buffer
from goqueue.records import NewRecord, TopicPartition

BATCH_BYTES = 64_000
COLUMNS = [name for name in RECORD_COLUMNS if name != "headers"]


def records(size: int, count: int) -> list[NewRecord]:
    """What topic and ceiling are made of alike: a key of eleven bytes and a value."""
    return [NewRecord(b"key-%07d" % one, bytes(size)) for one in range(count)]


def fill(servers: str, size: int, count: int) -> None:
    """Put `count` records into the benchmark's topic, in batches of about 64 KB."""
    each = BATCH_BYTES // (size + 30)
    with WireClient(servers) as client:
        # Without a producer id there is nothing to number: the same batch goes out over and over.
        producer = BatchProducer(client, Identity(-1, -1))
        partitions = len(client.topic(TOPIC).leaders)
        sent = 0
        while sent < count:
            now = min(each, count - sent)
            if not sent or now < each:
                # Of today: retention takes what is old.
                batch = encode_batch(records(size, now), now_ms=int(time.time() * 1000))
            producer.send(TopicPartition(TOPIC, sent // each % partitions), [batch], now)
            sent += now
        producer.flush()


def constant_batch(size: int, rows: int) -> pa.RecordBatch:
    """One decoded batch, as the real source yields it."""
    batch = encode_batch(records(size, rows), now_ms=1_700_000_000_000)
    batches = Batches(memoryview(batch), [0])
    return next(record_batches(TopicPartition("bench", 0), batches, COLUMNS, Bounds(), piece_bytes=1 << 30))


class CeilingReader(DataSourceReader):
    """Yields the same batch over and over."""

    def __init__(self, options: dict[str, str]) -> None:
        self.size, self.rows = int(options["size"]), int(options["rows"])
        self.batch_rows, self.tasks = int(options["batchrows"]), int(options["tasks"])

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(self.rows // self.tasks)] * self.tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        batch = constant_batch(self.size, self.batch_rows)
        left = partition.value
        while left > 0:
            yield batch.slice(0, min(left, self.batch_rows))
            left -= self.batch_rows


class ConstantStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream of constant batches that asks nobody for anything."""

    def __init__(self, options: dict[str, str]) -> None:
        self.rows, self.each = int(options["rows"]), int(options["each"])

    def initialOffset(self) -> dict[str, Any]:
        return {"at": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self.each)

    def prepareForTriggerAvailableNow(self) -> None:
        pass

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return {"at": min(self.rows, start["at"] + self.each)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return [InputPartition(end["at"] - start["at"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield constant_batch(100, partition.value)


class Ceiling(DataSource):
    """`format("ceiling")`."""

    @classmethod
    def name(cls) -> str:
        return "ceiling"

    def schema(self) -> str:
        return ", ".join(f"{name} {RECORD_COLUMNS[name]}" for name in COLUMNS)

    def reader(self, schema: Any) -> CeilingReader:
        return CeilingReader(self.options)

    def streamReader(self, schema: Any) -> ConstantStream:
        return ConstantStream(self.options)


class _Discarded:
    """A producer that forgets."""

    identity = Identity(1, 0, "t")

    def next_sequence(self, place: TopicPartition) -> int:
        return 0

    def send(self, place: TopicPartition, batch: Sequence[Buffer], count: int) -> None:
        pass


class EncodingWriter(DataSourceArrowWriter):
    """Encodes as the sink does, and sends nothing."""

    def __init__(self, options: dict[str, str]) -> None:
        self.options = parse_sink_options(options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        with open_sink_client(self.options) as client:
            rows = RowWriter(self.options, client, _Discarded(), 0)
            for batch in iterator:
                rows.write(batch)
        return WriterCommitMessage()


class EncodeOnly(DataSource):
    """`format("encode_only")`."""

    @classmethod
    def name(cls) -> str:
        return "encode_only"

    def writer(self, schema: Any, overwrite: bool) -> EncodingWriter:
        return EncodingWriter(dict(self.options))
