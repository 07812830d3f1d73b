"""The columns a topic has in Spark, and how a chunk of batches becomes one Arrow batch of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from goqueue.codec.batch_decode import decode_records
from goqueue.codec.compression import Codec
from goqueue.errors import CorruptBatch
from goqueue.pipeline.decoding.batches import Batches
from goqueue.pipeline.decoding.header_columns import (
    LANES,
    NORMAL,
    HeaderTable,
    header_table,
    headers_column,
    priority_column,
)
from goqueue.pipeline.decoding.layout import Layout, lay_out
from goqueue.pipeline.decoding.slices import slices
from goqueue.pipeline.decoding.varints import TooLong
from goqueue.records import Record, TopicPartition

# Names and types as Spark's SQL writes them; those of Kafka's connector first, in its order.
RECORD_COLUMNS: Mapping[str, str] = MappingProxyType(
    {
        "key": "binary",
        "value": "binary",
        "topic": "string",
        "partition": "int",
        "offset": "bigint",
        "timestamp": "timestamp",
        "timestampType": "int",
        "headers": "array<struct<key:string,value:binary>>",
        "priority": "int",
    }
)
FRAME_COLUMNS: Mapping[str, str] = MappingProxyType(
    {
        "topic": "string",
        "partition": "int",
        "offset": "bigint",
        "lastOffset": "bigint",
        "records": "int",
        "bytes": "bigint",
        "timestamp": "timestamp",
        "codec": "string",
        "isTransactional": "boolean",
        "isControl": "boolean",
        "producerId": "bigint",
        "producerEpoch": "int",
        "baseSequence": "int",
        "leaderEpoch": "int",
    }
)
_HEADERS = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]), nullable=True)
)
_TIMESTAMP = pa.timestamp("us", "UTC")
ARROW_TYPES: Mapping[str, pa.DataType] = MappingProxyType(
    {
        "binary": pa.binary(),
        "string": pa.string(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "boolean": pa.bool_(),
        "timestamp": _TIMESTAMP,
        RECORD_COLUMNS["headers"]: _HEADERS,
    }
)
_FAR = 2**62
# A chunk of a file is one piece, a fetched answer two. Pieces of 3 MB cost workers a tenth more.
PIECE_BYTES = 9 * 1024 * 1024


class Bounds(NamedTuple):
    """What of a partition is wanted: offsets from `start` to before `end`, and times likewise."""

    start: int = -_FAR
    end: int = _FAR
    start_us: int = -_FAR
    end_us: int = _FAR

    @property
    def has_times(self) -> bool:
        """Whether records must be asked for their time."""
        return self.start_us > -_FAR or self.end_us < _FAR


def arrow_schema(columns: Sequence[str], kinds: Mapping[str, str]) -> pa.Schema:
    """The Arrow schema of these columns, exactly as Spark expects it."""
    return pa.schema([pa.field(name, ARROW_TYPES[kinds[name]]) for name in columns])


def record_batches(
    place: TopicPartition, batches: Batches, columns: Sequence[str], bounds: Bounds, piece_bytes: int = PIECE_BYTES
) -> Iterator[pa.RecordBatch]:
    """The records of these batches that lie in the bounds, as columns, in pieces made of about so many bytes."""
    batches = batches.where(batches.count != 0)
    if not len(batches):
        return
    first = 0
    try:
        layout = lay_out(batches)
        if layout.header_count.min() < 0:
            raise CorruptBatch("a record has a negative number of headers")
        layout = _wanted(layout, bounds)
        rows = -(-layout.count // -(-len(layout.data) // piece_bytes))
        while first < layout.count:
            yield _from_layout(place, layout.of(slice(first, first + rows)), columns)
            first += rows
    except (CorruptBatch, TooLong, pa.ArrowInvalid):
        # The record codec reads what is merely unusual, and says what is wrong with the rest.
        careful = _from_records(place, batches, columns, bounds)
        if careful is not None:
            yield careful[first:]


def frame_batch(
    place: TopicPartition, batches: Batches, columns: Sequence[str], bounds: Bounds
) -> pa.RecordBatch | None:
    """One row for each batch that begins in the bounds."""
    headers = [one for one in batches.headers() if bounds.start <= one.base_offset < bounds.end]
    headers = [one for one in headers if bounds.start_us <= one.max_timestamp_ms * 1000 < bounds.end_us]
    if not headers:
        return None
    make: dict[str, Callable[[], list[Any]]] = {
        "topic": lambda: [place.topic] * len(headers),
        "partition": lambda: [place.partition] * len(headers),
        "offset": lambda: [one.base_offset for one in headers],
        "lastOffset": lambda: [one.last_offset for one in headers],
        "records": lambda: [one.count for one in headers],
        "bytes": lambda: [one.size for one in headers],
        "timestamp": lambda: [one.max_timestamp_ms * 1000 for one in headers],
        "codec": lambda: [Codec(one.codec).name.lower() for one in headers],
        "isTransactional": lambda: [one.is_transactional for one in headers],
        "isControl": lambda: [one.is_control for one in headers],
        "producerId": lambda: [one.producer_id for one in headers],
        "producerEpoch": lambda: [one.producer_epoch for one in headers],
        "baseSequence": lambda: [one.base_sequence for one in headers],
        "leaderEpoch": lambda: [one.leader_epoch for one in headers],
    }
    schema = arrow_schema(columns, FRAME_COLUMNS)
    arrays = [pa.array(make[name](), schema.field(name).type) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _wanted(layout: Layout, bounds: Bounds) -> Layout:
    offset = layout.offset
    if offset.min() >= bounds.start and offset.max() < bounds.end and not bounds.has_times:
        return layout
    keep = (offset >= bounds.start) & (offset < bounds.end)
    if bounds.has_times:
        stamps = layout.timestamp_ms * 1000
        keep &= (stamps >= bounds.start_us) & (stamps < bounds.end_us)
    return layout if keep.all() else layout.of(np.nonzero(keep)[0])


def _from_layout(place: TopicPartition, layout: Layout, columns: Sequence[str]) -> pa.RecordBatch:
    table: HeaderTable | None = None
    if "headers" in columns or "priority" in columns:
        table = header_table(layout)
    arrays = []
    for name in columns:
        if name == "key":
            array = slices(layout.data, layout.key_start, layout.key_bytes)
        elif name == "value":
            array = slices(layout.data, layout.value_start, layout.value_bytes)
        elif name == "offset":
            array = pa.array(layout.offset)
        elif name == "timestamp":
            array = pa.array(layout.timestamp_ms * 1000).view(_TIMESTAMP)
        elif name == "timestampType":
            array = pa.array(layout.timestamp_type)
        elif name == "headers" and table is not None:
            array = headers_column(layout, table, _HEADERS)
        elif name == "priority" and table is not None:
            array = priority_column(layout, table)
        else:
            array = _constant(place, name, layout.count)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(columns, RECORD_COLUMNS))


def _constant(place: TopicPartition, name: str, count: int) -> pa.Array:
    if name == "topic":
        return _topic(place.topic, 1 << (count - 1).bit_length())[:count]
    return pa.array(np.full(count, place.partition, np.int32))


@functools.lru_cache(maxsize=4)
def _topic(name: str, count: int) -> pa.Array:
    """One array for all chunks of a size."""
    return pa.repeat(pa.scalar(name), count)


def _from_records(
    place: TopicPartition, batches: Batches, columns: Sequence[str], bounds: Bounds
) -> pa.RecordBatch | None:
    rows: list[tuple[Record, int]] = []
    for start, header in zip(batches.start.tolist(), batches.headers(), strict=True):
        kind = int(header.timestamp_type)
        for record in decode_records(batches.view[start : start + header.size]):
            stamp_us = record.timestamp_ms * 1000
            if bounds.start <= record.offset < bounds.end and bounds.start_us <= stamp_us < bounds.end_us:
                rows.append((record, kind))
    if not rows:
        return None
    make: dict[str, Callable[[Record, int], Any]] = {
        "key": lambda record, _: record.key,
        "value": lambda record, _: record.value,
        "topic": lambda _, __: place.topic,
        "partition": lambda _, __: place.partition,
        "offset": lambda record, _: record.offset,
        "timestamp": lambda record, _: record.timestamp_ms * 1000,
        "timestampType": lambda _, kind: kind,
        "headers": lambda record, _: [{"key": k, "value": v} for k, v in record.headers] or None,
        "priority": lambda record, _: _priority(record),
    }
    schema = arrow_schema(columns, RECORD_COLUMNS)
    arrays = [pa.array([make[name](*row) for row in rows], schema.field(name).type) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _priority(record: Record) -> int:
    for name, value in reversed(record.headers):
        if name == "goqueue-priority":
            return LANES.get((value or b"").lower(), NORMAL)
    return NORMAL
