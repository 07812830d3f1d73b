"""Record headers as columns: the list of pairs, and the priority that one of them may name."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from goqueue.errors import CorruptBatch
from goqueue.pipeline.decoding.layout import Layout
from goqueue.pipeline.decoding.slices import slices
from goqueue.pipeline.decoding.varints import Varints
from goqueue.records import Priority

PRIORITY_HEADER = b"goqueue-priority"
NORMAL = int(Priority.NORMAL)
LANES = {lane.name.lower().encode(): int(lane) for lane in Priority} | {
    str(int(lane)).encode(): int(lane) for lane in Priority
}


class HeaderTable(NamedTuple):
    """All headers of some records, record by record: `record` says whose each one is."""

    record: np.ndarray
    name_start: np.ndarray
    name_bytes: np.ndarray
    value_start: np.ndarray
    value_bytes: np.ndarray


_NO_HEADERS = HeaderTable(*np.empty((5, 0), np.int64))


def header_table(layout: Layout) -> HeaderTable:
    """The headers of these records; the n-th header of all records is read at once."""
    counts = layout.header_count
    if not counts.any():
        return _NO_HEADERS
    varints = Varints(layout.data)
    at = layout.header_start.copy()
    first = np.concatenate(([0], np.cumsum(counts)))
    columns = np.empty((5, int(first[-1])), np.int64)
    try:
        for number in range(int(counts.max())):
            (have,) = np.nonzero(counts > number)
            name_bytes, name_start = varints.read(at[have])
            value_bytes, value_start = varints.read(name_start + name_bytes)
            at[have] = value_start + np.maximum(value_bytes, 0)
            slots = first[have] + number
            for column, values in zip(columns, (have, name_start, name_bytes, value_start, value_bytes), strict=True):
                column[slots] = values
    except IndexError as error:
        raise CorruptBatch("the headers of a record end outside it") from error
    if (columns[2] < 0).any():
        raise CorruptBatch("a record header has no name")
    return HeaderTable(*columns)


def headers_column(layout: Layout, table: HeaderTable, kind: pa.DataType) -> pa.Array:
    """The column `headers`: a list of (name, value), null for records that have none."""
    counts = layout.header_count
    if not len(table.record):
        return pa.nulls(layout.count, kind)
    names = slices(layout.data, table.name_start, table.name_bytes).cast(pa.string())
    values = slices(layout.data, table.value_start, table.value_bytes)
    pairs = pa.StructArray.from_arrays([names, values], fields=list(kind.value_type))
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pairs, type=kind, mask=pa.array(counts == 0))


def priority_column(layout: Layout, table: HeaderTable) -> pa.Array:
    """The column `priority`: 0 to 4, as the last header `goqueue-priority` says; without one, normal."""
    lanes = np.full(layout.count, NORMAL, np.int32)
    word = np.frombuffer(PRIORITY_HEADER, np.uint8)
    (named,) = np.nonzero(table.name_bytes == len(word))
    if len(named):
        spelled = layout.data[table.name_start[named][:, None] + np.arange(len(word))]
        named = named[(spelled == word).all(axis=1)]
    for number in named.tolist():
        start, size = int(table.value_start[number]), int(table.value_bytes[number])
        text = layout.data[start : start + max(size, 0)].tobytes().lower()
        lanes[table.record[number]] = LANES.get(text, NORMAL)
    return pa.array(lanes)
