"""Kafka's zigzag varints, many at once.

One or two bytes, which is nearly every length and delta, are looked up in a table by the
sixteen bits that lie there; longer ones are folded out of eight bytes without a branch.
"""

from __future__ import annotations

import numpy as np

# The reader may look at this many bytes behind the last one that counts.
ROOM_BYTES = 16

_CONTINUES = np.uint64(0x8080808080808080)
_GROUPS = np.uint64(0x7F7F7F7F7F7F7F7F)
_FOLDS = (
    (np.uint64(0x7F007F007F007F00), np.uint64(1), np.uint64(0x007F007F007F007F)),
    (np.uint64(0x3FFF00003FFF0000), np.uint64(2), np.uint64(0x00003FFF00003FFF)),
    (np.uint64(0x0FFFFFFF00000000), np.uint64(4), np.uint64(0x000000000FFFFFFF)),
)
_ONE = np.uint64(1)


class TooLong(ValueError):
    """A number of more than eight bytes, or none at all: the careful reader must look at it."""


class Varints:
    """The numbers in `data`, an array of bytes with ROOM_BYTES of room behind those that count."""

    # Indexed with brackets: `take` would copy these overlapping views whole.
    def __init__(self, data: np.ndarray) -> None:
        size = len(data)
        self.pairs = np.ndarray((size - 1,), "<u2", data, 0, (1,))
        self._eights = np.ndarray((size - 7,), "<u8", data, 0, (1,))

    def read(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The numbers at these positions, and the positions behind them."""
        pairs = self.pairs[at]
        values, sizes = _VALUES[pairs], _SIZES[pairs]
        if not sizes.all():
            values = values.astype(np.int64)
            (long,) = np.nonzero(sizes == 0)
            values[long], sizes[long] = self._read_long(at[long])
        return values, at + sizes

    def _read_long(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        word = self._eights[at]
        ends = ~word & _CONTINUES
        if not ends.all():
            raise TooLong
        # All bits up to the top one of the first byte that does not continue.
        span = ends ^ (ends - _ONE)
        word = word & span & _GROUPS
        for high, shift, low in _FOLDS:
            word = ((word & high) >> shift) | (word & low)
        values = (word >> _ONE).astype(np.int64) ^ -(word & _ONE).astype(np.int64)
        return values, (np.bitwise_count(span) >> 3).astype(np.int64)


def _tables() -> tuple[np.ndarray, np.ndarray]:
    pairs = np.arange(65536, dtype=np.int64)
    low, high = pairs & 0xFF, pairs >> 8
    sizes = np.where(low < 128, 1, np.where(high < 128, 2, 0))
    plain = np.where(low < 128, low, (low & 0x7F) | (high & 0x7F) << 7)
    values = (plain >> 1) ^ -(plain & 1)
    return np.where(sizes > 0, values, 0).astype(np.int32), sizes.astype(np.int64)


_VALUES, _SIZES = _tables()
# From the start of a record to the next one; 0 where the length has more than two bytes.
STRIDES = np.where(_SIZES > 0, _SIZES + np.maximum(_VALUES, 0), 0)
