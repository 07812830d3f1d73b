"""The two hashes that place a key, murmur3 and Kafka's murmur2, for a whole column at once.

Keys are walked in step: the first four bytes of all keys, then the next four of those that
have them. Both agree with what the broker computes for a single key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from goqueue.partitioner import MURMUR2

_SEED2, _FACTOR2 = np.uint32(0x9747B28C), np.uint32(0x5BD1E995)
_FIRST3, _SECOND3 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)
_POSITIVE = np.uint32(0x7FFFFFFF)


class _Words(NamedTuple):
    """Keys that are read four bytes at a time: where each begins in `four`, and how many bytes it has."""

    four: np.ndarray
    start: np.ndarray
    size: np.ndarray


def partitions_of(keys: pa.Array, partitions: int, algorithm: str) -> np.ndarray:
    """The partition of each key; that of a null means nothing."""
    words = _words(keys)
    if algorithm == MURMUR2:
        return ((_murmur2(words) & _POSITIVE) % np.uint32(partitions)).astype(np.int64)
    return (_murmur3(words) % np.uint32(partitions)).astype(np.int64)


def _words(keys: pa.Array) -> _Words:
    _, offsets_buffer, data_buffer = keys.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    low, high = int(offsets[0]), int(offsets[-1])
    # Room behind the last key: whole words are read, and what lies beyond a key is masked away.
    data = np.zeros(high - low + 4, np.uint8)
    if high > low:
        data[: high - low] = np.frombuffer(data_buffer, np.uint8)[low:high]
    four = np.ndarray((len(data) - 3,), "<u4", data, 0, (1,))
    return _Words(four, offsets[:-1] - low, np.diff(offsets))


def _fold(words: _Words, value: np.ndarray, mix: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
    """Mix every whole word of every key into its value."""
    whole = words.size >> 2
    for word in range(int(whole.max(initial=0))):
        rows = np.nonzero(whole > word)[0]
        value[rows] = mix(value[rows], words.four[words.start[rows] + 4 * word])
    return value


def _tail(words: _Words, rows: np.ndarray) -> np.ndarray:
    """The one to three bytes behind the last whole word."""
    whole = words.size[rows] >> 2
    four = words.four[words.start[rows] + 4 * whole]
    mask = (np.uint64(1) << ((words.size[rows] & 3) * 8).astype(np.uint64)) - np.uint64(1)
    return four & mask.astype(np.uint32)


def _murmur2(words: _Words) -> np.ndarray:
    def mix(value: np.ndarray, word: np.ndarray) -> np.ndarray:
        word = word * _FACTOR2
        word ^= word >> np.uint32(24)
        return (value * _FACTOR2) ^ (word * _FACTOR2)

    value = _fold(words, _SEED2 ^ words.size.astype(np.uint32), mix)
    (rows,) = np.nonzero(words.size & 3)
    value[rows] = (value[rows] ^ _tail(words, rows)) * _FACTOR2
    value ^= value >> np.uint32(13)
    value *= _FACTOR2
    return value ^ (value >> np.uint32(15))


def _murmur3(words: _Words) -> np.ndarray:
    def mix(value: np.ndarray, word: np.ndarray) -> np.ndarray:
        return _turned(value ^ _scrambled(word), 13) * np.uint32(5) + np.uint32(0xE6546B64)

    value = _fold(words, np.zeros(len(words.size), np.uint32), mix)
    (rows,) = np.nonzero(words.size & 3)
    value[rows] ^= _scrambled(_tail(words, rows))
    value ^= words.size.astype(np.uint32)
    value ^= value >> np.uint32(16)
    value *= np.uint32(0x85EBCA6B)
    value ^= value >> np.uint32(13)
    value *= np.uint32(0xC2B2AE35)
    return value ^ (value >> np.uint32(16))


def _scrambled(word: np.ndarray) -> np.ndarray:
    return _turned(word * _FIRST3, 15) * _SECOND3


def _turned(value: np.ndarray, bits: int) -> np.ndarray:
    return (value << np.uint32(bits)) | (value >> np.uint32(32 - bits))
