"""Where the records of many batches lie: one buffer of bytes, and a table of positions in it.

Nothing is copied but packed batches, which are unpacked side by side. Every field of every
record is found with a few passes over whole arrays; the cost of Python is paid per chunk.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from goqueue.codec.batch import HEADER_BYTES
from goqueue.codec.batch_decode import RECORDS_BYTES_MAX
from goqueue.codec.compression import decompress
from goqueue.errors import CorruptBatch
from goqueue.pipeline.decoding.batches import Batches
from goqueue.pipeline.decoding.record_starts import record_starts
from goqueue.pipeline.decoding.varints import ROOM_BYTES, TooLong, Varints, read_in_words

_ATTRIBUTES_BITS = np.uint64(8)
_WORD_BITS = 64


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

    def of(self, rows: np.ndarray | slice) -> Layout:
        """Some of the records."""
        return Layout(self.data, *(field[rows] for field in self[1:]))


class _Heads(NamedTuple):
    """The fields of every record up to its key."""

    stamp_delta: np.ndarray
    offset_delta: np.ndarray
    key_bytes: np.ndarray
    key_start: np.ndarray


def lay_out(batches: Batches) -> Layout:
    """The records of these batches; CorruptBatch or TooLong if they do not add up."""
    data, starts, ends = _sections(batches)
    counts = batches.count
    varints = Varints(data)
    try:
        begins, words = record_starts(data, varints, starts, ends, counts)
        stops = _stops(begins, ends, counts)
        heads = _heads(varints, begins, words)
        value_bytes, value_start = varints.read(heads.key_start + np.maximum(heads.key_bytes, 0))
        value_stop = value_start + np.maximum(value_bytes, 0)
        header_count, header_start = _header_counts(data, varints, value_stop, stops)
    except IndexError as error:
        raise CorruptBatch("the records of a batch end outside it") from error
    is_append_time = batches.is_append_time
    stamps = np.repeat(batches.base_timestamp_ms, counts) + heads.stamp_delta
    if is_append_time.any():
        stamps = np.where(np.repeat(is_append_time, counts), np.repeat(batches.max_timestamp_ms, counts), stamps)
    return Layout(
        data,
        np.repeat(batches.base_offset, counts) + heads.offset_delta,
        stamps,
        np.repeat(is_append_time.astype(np.int32), counts),
        heads.key_start,
        heads.key_bytes,
        value_start,
        value_bytes,
        header_count,
        header_start,
    )


def _sections(batches: Batches) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One array of bytes with room behind it, and where each batch's records begin and end in it."""
    codecs = batches.codec
    starts, ends = batches.start + HEADER_BYTES, batches.start + batches.size
    if not codecs.any():
        return _with_room(batches.view), starts, ends
    pieces: list[bytes | memoryview] = []
    sizes = []
    for codec, start, end in zip(codecs.tolist(), starts.tolist(), ends.tolist(), strict=True):
        piece: bytes | memoryview = batches.view[start:end]
        if codec:
            piece = decompress(codec, piece, RECORDS_BYTES_MAX)
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
        return whole[first : first + len(inner) + ROOM_BYTES]
    return np.concatenate((inner, np.zeros(ROOM_BYTES, np.uint8)))


def _stops(begins: np.ndarray, ends: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Where each record ends: where the next one begins, or its batch ends."""
    stops = np.empty_like(begins)
    stops[:-1] = begins[1:]
    stops[np.cumsum(counts) - 1] = ends
    return stops


def _heads(varints: Varints, begins: np.ndarray, words: np.ndarray) -> _Heads:
    """Eight bytes hold all of them, as a rule. Else each is read by itself."""
    try:
        _, shift = read_in_words(words, np.zeros_like(words))
        stamp_delta, shift = read_in_words(words, shift + _ATTRIBUTES_BITS)
        offset_delta, shift = read_in_words(words, shift)
        key_bytes, shift = read_in_words(words, shift)
        if shift.max() <= _WORD_BITS:
            return _Heads(stamp_delta, offset_delta, key_bytes, begins + (shift >> np.uint64(3)).view(np.int64))
    except TooLong:
        pass
    _, at = varints.read(begins)
    stamp_delta, at = varints.read(at + 1)
    offset_delta, at = varints.read(at)
    key_bytes, key_start = varints.read(at)
    return _Heads(stamp_delta, offset_delta, key_bytes, key_start)


def _header_counts(
    data: np.ndarray, varints: Varints, at: np.ndarray, stops: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """How many headers each record has, and where they begin."""
    # The last byte of a record without headers is their number, 0.
    behind = at + 1
    if np.array_equal(behind, stops) and not data.take(at).any():
        return np.zeros_like(at), behind
    count, start = varints.read(at)
    has_none = count == 0
    if (start > stops).any() or (start[has_none] != stops[has_none]).any():
        raise CorruptBatch("the fields of a record do not fill its length")
    return count, start
