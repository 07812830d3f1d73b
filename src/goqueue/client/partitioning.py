"""Which partition a record goes to when its sender does not say.

The same rule as the broker's: murmur3 of the key, and an even round over the partitions
for records without one.
"""

from __future__ import annotations

import mmh3


class Partitioner:
    """Chooses partitions for one topic."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self._next = 0

    def choose(self, key: bytes | None) -> int:
        """The partition of this record."""
        if key is not None:
            return int(mmh3.hash(key, 0, signed=False)) % self.partitions
        chosen = self._next
        self._next = (chosen + 1) % self.partitions
        return chosen
