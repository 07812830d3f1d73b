"""Arrow columns to the records of Kafka batches, many at once.

All lengths and numbers of all rows are written as varints by passes over whole arrays; keys
and values are put between them by Arrow. The cost of Python is paid per batch, and per row
only where a row has headers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_GROUP_BITS = 7
_VARINT_BYTES_MAX = 10
# What a record has besides key, value and headers, at most.
RECORD_OVERHEAD_BYTES = 36
# Whoever reads many batches walks them in step, so those of small records shall not become long.
_BATCH_RECORDS_MAX = 2000


class Section(NamedTuple):
    """Records back to back, ready for a batch."""

    records: memoryview
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody asks a section for
    base_timestamp_ms: int
    max_timestamp_ms: int


def encode_sections(
    key: pa.Array, value: pa.Array, stamps: np.ndarray, headers: pa.Array | None, batch_bytes: int
) -> Iterator[Section]:
    """The rows as records, cut into sections of at most `batch_bytes` and 2000 records. `headers` are whole blocks.

    A row that is larger than that is a section of its own.
    """
    count = len(value)
    if not count:
        return
    key_bytes, value_bytes = _lengths(key), _lengths(value)
    header_bytes = np.ones(count, np.int64) if headers is None else _lengths(headers)
    sizes = np.maximum(key_bytes, 0) + np.maximum(value_bytes, 0) + header_bytes + RECORD_OVERHEAD_BYTES
    edges = _cut(sizes, batch_bytes)
    first = np.repeat(edges[:-1], np.diff(edges))
    numbers = np.arange(count) - first
    stamp_varint = _zigzag(stamps - stamps[first])
    number_varint, key_varint, value_varint = _zigzag(numbers), _zigzag(key_bytes), _zigzag(value_bytes)
    body_bytes = (
        1
        + _sizes(stamp_varint)
        + _sizes(number_varint)
        + _sizes(key_varint)
        + np.maximum(key_bytes, 0)
        + _sizes(value_varint)
        + np.maximum(value_bytes, 0)
        + header_bytes
    )
    head = _varints([_zigzag(body_bytes), np.zeros(count, np.uint64), stamp_varint, number_varint, key_varint])
    middle = _varints([value_varint])
    tail = pa.repeat(pa.scalar(b"\0"), count) if headers is None else headers
    joined = pc.binary_join_element_wise(
        head, key, middle, value, tail, b"", null_handling="replace", null_replacement=b""
    )
    for piece in joined.chunks if isinstance(joined, pa.ChunkedArray) else [joined]:
        yield from _sections(piece, edges, stamps)


def header_block(pairs: list[tuple[str, bytes | None]]) -> bytes:
    """The headers of one record: their number, then names and values."""
    out = bytearray(_varint(len(pairs) << 1))
    for name, value in pairs:
        text = name.encode()
        out += _varint(len(text) << 1) + text
        if value is None:
            out += b"\x01"
        else:
            out += _varint(len(value) << 1) + value
    return bytes(out)


def _sections(joined: pa.Array, edges: np.ndarray, stamps: np.ndarray) -> Iterator[Section]:
    _, offsets_buffer, data = joined.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[joined.offset : joined.offset + len(joined) + 1]
    view = memoryview(data)
    for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        section = view[int(offsets[low]) : int(offsets[high])]
        yield Section(section, high - low, int(stamps[low]), int(stamps[low:high].max()))


def _cut(sizes: np.ndarray, batch_bytes: int) -> np.ndarray:
    """Row numbers at which batches begin, and the end: each batch is as large as it may be."""
    ends = np.cumsum(sizes)
    edges, before = [0], 0
    while edges[-1] < len(sizes):
        upper = int(np.searchsorted(ends, before + batch_bytes, side="right"))
        edges.append(max(min(upper, edges[-1] + _BATCH_RECORDS_MAX), edges[-1] + 1))
        before = int(ends[edges[-1] - 1])
    return np.array(edges)


def _lengths(column: pa.Array) -> np.ndarray:
    """Bytes of each, -1 for null."""
    lengths = pc.fill_null(pc.binary_length(column), -1)
    return np.asarray(lengths, np.int64)


def _zigzag(values: np.ndarray) -> np.ndarray:
    return ((values << 1) ^ (values >> 63)).astype(np.uint64)


def _sizes(varints: np.ndarray) -> np.ndarray:
    sizes = np.ones(len(varints), np.int64)
    for group in range(1, _VARINT_BYTES_MAX):
        longer = varints >= np.uint64(1 << (_GROUP_BITS * group))
        if not longer.any():
            break
        sizes += longer
    return sizes


def _varints(columns: list[np.ndarray]) -> pa.Array:
    """For each row the varints of all columns, back to back, as one binary column."""
    sizes = [_sizes(column) for column in columns]
    totals = np.sum(sizes, axis=0)
    offsets = np.concatenate(([0], np.cumsum(totals))).astype(np.int32)
    data = np.zeros(int(offsets[-1]), np.uint8)
    at = offsets[:-1].astype(np.int64)
    for column, size in zip(columns, sizes, strict=True):
        for group in range(int(size.max())):
            rows = size > group
            byte = (column[rows] >> np.uint64(_GROUP_BITS * group)) & np.uint64(0x7F)
            more = np.where(size[rows] > group + 1, 0x80, 0).astype(np.uint64)
            data[at[rows] + group] = byte | more
        at += size
    return pa.BinaryArray.from_buffers(
        pa.binary(), len(totals), [None, pa.py_buffer(offsets), pa.py_buffer(data)], null_count=0
    )


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= _GROUP_BITS
    out.append(number)
    return bytes(out)
