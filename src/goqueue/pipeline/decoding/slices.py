"""Parts of one buffer as a binary column of Arrow."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

# Slices of a smaller mean size are cheaper copied twice than taken in greater number.
_SPARE_FROM_BYTES = 256


def slices(data: np.ndarray, starts: np.ndarray, sizes: np.ndarray) -> pa.Array:
    """Bytes of `data` as a binary column; size -1 is null. Starts rise and slices do not overlap."""
    count = len(starts)
    if not count:
        return pa.array([], pa.binary())
    has_null = sizes.min() < 0
    if has_null and sizes.max() < 0:
        return pa.nulls(count, pa.binary())
    # Slices and what lies between them in turns, of which every second one is wanted; behind them, one without bytes.
    edges = np.empty(2 * count + 1, np.int32)
    edges[0:-1:2] = starts
    np.add(starts, np.maximum(sizes, 0) if has_null else sizes, edges[1::2], casting="same_kind")
    edges[-1] = edges[-2]
    laid = pa.BinaryArray.from_buffers(
        pa.binary(), 2 * count, [None, pa.py_buffer(edges), pa.py_buffer(data)], null_count=0
    )
    wanted = np.full(count + _spare(edges, sizes), 2 * count - 1)
    wanted[:count] = np.arange(0, 2 * count, 2)
    if not has_null:
        return laid.take(pa.array(wanted))[:count]
    is_null = np.zeros(len(wanted), np.bool_)
    is_null[:count] = sizes < 0
    return laid.take(pa.array(wanted, mask=is_null))[:count]


def _spare(edges: np.ndarray, sizes: np.ndarray) -> int:
    """How many slices without bytes to take as well, so that Arrow has enough memory from the beginning.

    It gets as much as so many slices of the mean size need. What lies between ours makes the mean smaller than they
    are, and memory that has to grow is copied once more.
    """
    count, wanted_bytes = len(sizes), int(sizes.sum())
    if wanted_bytes < _SPARE_FROM_BYTES * count:
        return 0
    span = int(edges[-1]) - int(edges[0])
    return max(0, -(-wanted_bytes * 2 * count // span) - count)
