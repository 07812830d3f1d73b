"""Which partition a record goes to when its sender does not say: broker, client and pipelines choose alike."""

from __future__ import annotations

import mmh3

MURMUR2, MURMUR3 = "murmur2", "murmur3"
_MASK = 0xFFFFFFFF
_POSITIVE = 0x7FFFFFFF
_MURMUR2_SEED = 0x9747B28C
_MURMUR2_FACTOR = 0x5BD1E995


def partition_for_key(key: bytes, partitions: int, algorithm: str = MURMUR3) -> int:
    """The same key always gets the same partition, as long as their number stays."""
    if algorithm == MURMUR2:
        return (murmur2(key) & _POSITIVE) % partitions
    return int(mmh3.hash(key, 0, signed=False)) % partitions


class RoundRobin:
    """Every partition in turn, for records without a key.

    The counter moves only when a partition is taken: to ask twice for one record would
    leave every second partition empty.
    """

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next = 0

    def take(self, partitions: int) -> int:
        """The next partition's turn."""
        # The count may have grown, or the topic may be a smaller one of the same name.
        chosen = self._next % partitions
        self._next = (chosen + 1) % partitions
        return chosen

    @property
    def position(self) -> int:
        """Whose turn is next."""
        return self._next

    def go_back(self, position: int) -> None:
        """Take turns back that nobody used, in the same step in which they were taken."""
        self._next = position


def murmur2(key: bytes) -> int:
    """MurmurHash2 as Java's Kafka client computes it, as an unsigned number."""
    length = len(key)
    value = (_MURMUR2_SEED ^ length) & _MASK
    whole = length & ~3
    for at in range(0, whole, 4):
        word = (int.from_bytes(key[at : at + 4], "little") * _MURMUR2_FACTOR) & _MASK
        word ^= word >> 24
        word = (word * _MURMUR2_FACTOR) & _MASK
        value = ((value * _MURMUR2_FACTOR) & _MASK) ^ word
    if whole != length:
        value ^= int.from_bytes(key[whole:], "little")
        value = (value * _MURMUR2_FACTOR) & _MASK
    value ^= value >> 13
    value = (value * _MURMUR2_FACTOR) & _MASK
    return value ^ (value >> 15)
