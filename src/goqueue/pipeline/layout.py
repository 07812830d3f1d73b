"""Where the records of many batches lie: one buffer of bytes, and a table of positions in it.

Nothing is copied but packed batches, which are unpacked side by side. Every field of every
record is found with a few passes over whole arrays; the cost of Python is paid per batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from goqueue.codec.batch import HEADER_BYTES, BatchHeader
from goqueue.codec.batch_decode import RECORDS_BYTES_MAX
from goqueue.codec.compression import decompress
from goqueue.errors import CorruptBatch
from goqueue.pipeline.varints import ROOM_BYTES, STRIDES, TooLong, Varints

# With fewer batches than this, walking each by itself is faster than walking all in step.
_IN_STEP_MIN = 24
# A table of (longest batch) x (batches) positions may be this much larger than the records in it.
_TABLE_WASTE_MAX = 4


class Span(NamedTuple):
    """One batch in a buffer: where its header begins, and what it says."""

    start: int
    header: BatchHeader


class Layout(NamedTuple):
    """All records of a chunk, in order. `key_bytes` and `value_bytes` are -1 for null."""

    data: np.ndarray
    offset: np.ndarray
    timestamp_ms: np.ndarray
    timestamp_type: np.ndarray
    key_start: np.ndarray
    key_bytes: np.ndarray
    value_start: np.ndarray
    value_bytes: np.ndarray
    header_count: np.ndarray
    header_start: np.ndarray

    @property
    def count(self) -> int:  # type: ignore[override]  # hides tuple.count, which nobody asks a table for
        """How many records there are."""
        return len(self.offset)


def lay_out(view: memoryview, spans: Sequence[Span]) -> Layout:
    """The records of these batches; CorruptBatch or TooLong if they do not add up."""
    data, starts, ends = _sections(view, spans)
    headers = [span.header for span in spans]
    counts = np.array([header.count for header in headers], np.int64)
    base_offset = np.array([header.base_offset for header in headers], np.int64)
    base_ms = np.array([header.base_timestamp_ms for header in headers], np.int64)
    max_ms = np.array([header.max_timestamp_ms for header in headers], np.int64)
    kinds = np.array([header.timestamp_type for header in headers], np.int32)
    varints = Varints(data)
    try:
        begins = _record_starts(data, varints, starts, ends, counts)
        batch_of = np.repeat(np.arange(len(spans)), counts)
        length, at = varints.read(begins)
        stops = at + length
        stamp_delta, at = varints.read(at + 1)
        offset_delta, at = varints.read(at)
        key_bytes, key_start = varints.read(at)
        value_bytes, value_start = varints.read(key_start + np.maximum(key_bytes, 0))
        header_count, header_start = varints.read(value_start + np.maximum(value_bytes, 0))
    except IndexError as error:
        raise CorruptBatch("the records of a batch end outside it") from error
    _check(ends, begins, stops, counts)
    if (header_start > stops).any() or (header_start[header_count == 0] != stops[header_count == 0]).any():
        raise CorruptBatch("the fields of a record do not fill its length")
    kind = kinds[batch_of]
    stamps = np.where(kind == 1, max_ms[batch_of], base_ms[batch_of] + stamp_delta)
    return Layout(
        data,
        base_offset[batch_of] + offset_delta,
        stamps,
        kind,
        key_start,
        key_bytes,
        value_start,
        value_bytes,
        header_count,
        header_start,
    )


def _sections(view: memoryview, spans: Sequence[Span]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One array of bytes with room behind it, and where each batch's records begin and end in it."""
    if all(span.header.codec == 0 for span in spans):
        starts = np.array([span.start + HEADER_BYTES for span in spans], np.int64)
        ends = np.array([span.start + span.header.size for span in spans], np.int64)
        return _with_room(view), starts, ends
    pieces: list[bytes | memoryview] = []
    sizes = []
    for span in spans:
        piece: bytes | memoryview = view[span.start + HEADER_BYTES : span.start + span.header.size]
        if span.header.codec:
            piece = decompress(span.header.codec, piece, RECORDS_BYTES_MAX)
        pieces.append(piece)
        sizes.append(len(piece))
    ends = np.cumsum(np.array(sizes, np.int64))
    joined = b"".join((*pieces, bytes(ROOM_BYTES)))
    return np.frombuffer(joined, np.uint8), ends - np.array(sizes, np.int64), ends


def _with_room(view: memoryview) -> np.ndarray:
    """The bytes of `view` and those behind it in its buffer; a copy where there is no room."""
    inner = np.frombuffer(view, np.uint8)
    whole = np.frombuffer(view.obj, np.uint8)
    first = inner.ctypes.data - whole.ctypes.data
    if len(whole) - first - len(inner) >= ROOM_BYTES:
        return whole[first:]
    return np.concatenate((inner, np.zeros(ROOM_BYTES, np.uint8)))


def _record_starts(
    data: np.ndarray, varints: Varints, starts: np.ndarray, ends: np.ndarray, counts: np.ndarray
) -> np.ndarray:
    total, longest = int(counts.sum()), int(counts.max())
    # Every record has seven bytes at least, so a count that the bytes cannot hold costs no memory.
    if (counts * 7 > ends - starts).any() or (counts < 0).any():
        raise CorruptBatch("a batch claims more records than its bytes can hold")
    if len(starts) >= _IN_STEP_MIN and longest * len(starts) <= _TABLE_WASTE_MAX * total:
        return _in_step(varints, starts, counts, longest)
    return _one_by_one(data, starts, counts, total)


def _in_step(varints: Varints, starts: np.ndarray, counts: np.ndarray, longest: int) -> np.ndarray:
    """The first record of every batch, then the second of every batch that has one, and so on."""
    order = np.argsort(-counts, kind="stable")
    at = starts[order]
    left = np.searchsorted(-counts[order], -np.arange(longest), side="left")
    table = np.empty((longest, len(starts)), np.int64)
    pairs = varints.pairs
    for number, batches in enumerate(left.tolist()):
        here = at[:batches]
        table[number, :batches] = here
        strides = STRIDES[pairs[here]]
        if strides.all():
            here += strides
        else:
            length, behind = varints.read(here)
            here[:] = behind + np.maximum(length, 0)
    is_record = np.arange(longest)[:, None] < counts[order]
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return table.T[rank][is_record.T[rank]]


def _one_by_one(data: np.ndarray, starts: np.ndarray, counts: np.ndarray, total: int) -> np.ndarray:
    found = np.empty(total, np.int64)
    view = memoryview(data)
    filled = 0
    for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
        at = start
        places = []
        for _ in range(count):
            places.append(at)
            byte = view[at]
            at += 1
            length, shift = byte & 0x7F, 7
            while byte >= 0x80:
                byte = view[at]
                at += 1
                length |= (byte & 0x7F) << shift
                shift += 7
                if shift > 35:
                    raise TooLong
            at += length >> 1
        found[filled : filled + count] = places
        filled += count
    return found


def _check(ends: np.ndarray, begins: np.ndarray, stops: np.ndarray, counts: np.ndarray) -> None:
    """Records lie back to back and fill their batch."""
    last = np.cumsum(counts) - 1
    filled = counts > 0
    expected = np.empty(len(begins), np.int64)
    expected[:-1] = begins[1:]
    expected[last[filled]] = ends[filled]
    if not np.array_equal(expected, stops):
        raise CorruptBatch("the records of a batch do not fill it")
