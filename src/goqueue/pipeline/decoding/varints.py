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
_BITS = np.uint64(0xFF)


class TooLong(ValueError):
    """A number of more than eight bytes, or none at all: the careful reader must look at it."""


class Varints:
    """The numbers in `data`, an array of bytes with ROOM_BYTES of room behind those that count."""

    # Indexed with brackets: `take` would copy these overlapping views whole.
    def __init__(self, data: np.ndarray) -> None:
        size = len(data)
        self.pairs = np.ndarray((size - 1,), "<u2", data, 0, (1,))
        self.words = np.ndarray((size - 7,), "<u8", data, 0, (1,))

    def read(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The numbers at these positions, and the positions behind them."""
        entries = _ENTRIES.take(self.pairs[at])
        values, sizes = entries >> 8, (entries & 0xFF) >> 3
        if not entries.all():
            (long,) = np.nonzero(entries == 0)
            values[long], sizes[long] = self._read_long(at[long])
        return values, at + sizes

    def _read_long(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        word = self.words[at]
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


def read_in_words(words: np.ndarray, shift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The numbers that lie `shift` bits inside these words, and the shifts to what is behind them.

    TooLong if one has more than two bytes. A shift of more than 64 says that a word was too short.
    """
    entries = _ENTRIES.take((words >> shift).astype(np.uint16))
    if not entries.all():
        raise TooLong
    return entries >> 8, shift + (entries.view(np.uint64) & _BITS)


def _entries() -> np.ndarray:
    """By two bytes: the number, and in the lowest eight bits how many bits it takes. 0 where it is longer."""
    pairs = np.arange(65536, dtype=np.int64)
    low, high = pairs & 0xFF, pairs >> 8
    bits = np.where(low < 128, 8, np.where(high < 128, 16, 0))
    plain = np.where(low < 128, low, (low & 0x7F) | (high & 0x7F) << 7)
    values = (plain >> 1) ^ -(plain & 1)
    return np.where(bits > 0, values << 8 | bits, 0)


_ENTRIES = _entries()
# From the start of a record to the next one. Where the length is negative or has more than two bytes this leads
# out of any buffer, also a billion times.
_FAR = 1 << 33
STRIDES = np.where(_ENTRIES > 0, ((_ENTRIES & 0xFF) >> 3) + (_ENTRIES >> 8), _FAR)
