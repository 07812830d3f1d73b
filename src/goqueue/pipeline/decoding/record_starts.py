"""Where the records of many batches begin. Each says its own length, so that one leads to the next.

Records of a batch that are all of one size are found by arithmetic and then proven: every one of them
has to say that size. Others are followed one after the other, in all batches at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from goqueue.errors import CorruptBatch
from goqueue.pipeline.decoding.varints import STRIDES, TooLong, Varints

# With fewer batches than this, walking each by itself is faster than walking all in step.
IN_STEP_MIN = 24
# A table of (longest batch) x (batches) positions may be this much larger than the records in it.
_TABLE_WASTE_MAX = 4
# So many records have an offset delta of one, two and more bytes; records of one content grow with it.
_STRETCHES = (64, 8192 - 64, 2**31)


class Starts(NamedTuple):
    """The position of every record, and the eight bytes that lie there."""

    at: np.ndarray
    words: np.ndarray


def record_starts(
    data: np.ndarray, varints: Varints, starts: np.ndarray, ends: np.ndarray, counts: np.ndarray
) -> Starts:
    """Where every record begins. They lie back to back and fill their batch, or it is corrupt."""
    # Every record has seven bytes at least, so a count that the bytes cannot hold costs no memory.
    if (counts * 7 > ends - starts).any() or counts.min() < 0:
        raise CorruptBatch("a batch claims more records than its bytes can hold")
    found = _regular(varints, starts, ends, counts)
    if found is not None:
        return found
    total, longest = int(counts.sum()), int(counts.max())
    if len(starts) >= IN_STEP_MIN and longest * len(starts) <= _TABLE_WASTE_MAX * total:
        at = _in_step(varints, starts, ends, counts, longest)
    else:
        at = _one_by_one(data, starts, ends, counts, total)
    return Starts(at, varints.words[at])


def _regular(varints: Varints, starts: np.ndarray, ends: np.ndarray, counts: np.ndarray) -> Starts | None:
    """The records if all of a batch have one size, but for the growth of their offset delta."""
    pairs = varints.pairs
    at, left = starts, counts
    stretches = []
    for longest in _STRETCHES:
        count = np.minimum(left, longest)
        said = pairs[np.minimum(at, ends)]
        stride = STRIDES.take(said)
        stretches.append((at, count, stride, said))
        at = at + count * stride
        left = left - count
        if not left.any():
            break
    if (at != ends).any():
        return None
    # Stretch by stretch, batch by batch, as the records lie.
    begin, each, stride, said = np.array(stretches).transpose(1, 2, 0).reshape(4, -1)
    # Where the first record of all would be, had it this stride: so one product leads to each.
    origin = begin - (np.cumsum(each) - each) * stride
    found = np.repeat(origin, each) + np.arange(int(counts.sum())) * np.repeat(stride, each)
    words = varints.words[found]
    is_proven = np.array_equal(words.astype(np.uint16), np.repeat(said.astype(np.uint16), each))
    return Starts(found, words) if is_proven else None


def _in_step(varints: Varints, starts: np.ndarray, ends: np.ndarray, counts: np.ndarray, longest: int) -> np.ndarray:
    """The first record of every batch, then the second of every batch that has one, and so on."""
    order = np.argsort(-counts, kind="stable")
    left = np.searchsorted(-counts[order], -np.arange(longest), side="left").tolist()
    table = np.empty((longest + 1, len(starts)), np.int64)
    table[0] = starts[order]
    if not (_follow(varints, table, left) and _fills(table, order, ends, counts)):
        _follow_carefully(varints, table, left)
        if not _fills(table, order, ends, counts):
            raise CorruptBatch("the records of a batch do not fill it")
    if counts[order[-1]] == longest:
        return table[:longest].T.ravel()
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    is_record = np.arange(longest) < counts[:, None]
    return table[:longest].T[rank][is_record]


def _follow(varints: Varints, table: np.ndarray, left: list[int]) -> bool:
    """Fill the table row by row; False if a length is of an unusual kind, which leads out of the buffer."""
    pairs, strides = varints.pairs, STRIDES
    try:
        for number, batches in enumerate(left):
            here = table[number, :batches]
            np.add(here, strides.take(pairs[here]), table[number + 1, :batches])
    except IndexError:
        return False
    return True


def _follow_carefully(varints: Varints, table: np.ndarray, left: list[int]) -> None:
    for number, batches in enumerate(left):
        length, behind = varints.read(table[number, :batches])
        if (length < 0).any():
            raise CorruptBatch("a record has a negative length")
        table[number + 1, :batches] = behind + length


def _fills(table: np.ndarray, order: np.ndarray, ends: np.ndarray, counts: np.ndarray) -> bool:
    """Whether the last record of every batch ends where the batch does."""
    return np.array_equal(table[counts[order], np.arange(len(order))], ends[order])


def _one_by_one(data: np.ndarray, starts: np.ndarray, ends: np.ndarray, counts: np.ndarray, total: int) -> np.ndarray:
    found = np.empty(total, np.int64)
    view = memoryview(data)
    filled = 0
    for start, end, count in zip(starts.tolist(), ends.tolist(), counts.tolist(), strict=True):
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
            if length & 1:
                raise CorruptBatch("a record has a negative length")
            at += length >> 1
        if at != end:
            raise CorruptBatch("the records of a batch do not fill it")
        found[filled : filled + count] = places
        filled += count
    return found
