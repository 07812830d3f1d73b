"""Records waiting to be sent, in batches per partition.

A batch is due at the first of three events: it holds `batch_records_max` records, it
reaches `batch_bytes_max`, or its oldest record has waited `linger_ms`. Nothing here sends
or sleeps, so every rule can be tested with plain numbers.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from goqueue.records import TopicPartition

R = TypeVar("R")


@dataclass(slots=True)
class Batch(Generic[R]):
    """Records of one partition that travel together."""

    target: TopicPartition
    opened_ms: int
    records: list[R] = field(default_factory=list)
    bytes: int = 0


class Accumulator(Generic[R]):
    """Collects records and says which batches are due."""

    def __init__(self, *, batch_records_max: int, batch_bytes_max: int, linger_ms: int) -> None:
        self._records_max = batch_records_max
        self._bytes_max = batch_bytes_max
        self._linger_ms = linger_ms
        self._open: dict[TopicPartition, Batch[R]] = {}
        self._full: deque[Batch[R]] = deque()

    def add(self, target: TopicPartition, record: R, size: int, now_ms: int) -> bool:
        """Take a record in; True when that made a batch due at once."""
        batch = self._open.get(target)
        if batch is not None and batch.bytes + size > self._bytes_max:
            self._full.append(self._open.pop(target))
            batch = None
        if batch is None:
            batch = self._open[target] = Batch(target, now_ms)
        batch.records.append(record)
        batch.bytes += size
        if len(batch.records) >= self._records_max or batch.bytes >= self._bytes_max or self._linger_ms == 0:
            self._full.append(self._open.pop(target))
        return bool(self._full)

    def take_due(self, now_ms: int) -> list[Batch[R]]:
        """Hand over the batches whose time has come, oldest first."""
        for target in [t for t, b in self._open.items() if now_ms - b.opened_ms >= self._linger_ms]:
            self._full.append(self._open.pop(target))
        return self._take_full()

    def take_all(self) -> list[Batch[R]]:
        """Hand over everything, due or not: a flush."""
        self._full.extend(self._open.values())
        self._open.clear()
        return self._take_full()

    def join(self, earlier: Batch[R], later: Batch[R]) -> bool:
        """Put a batch behind an earlier one of its partition that has room for it; False when it has not."""
        records, size = len(earlier.records) + len(later.records), earlier.bytes + later.bytes
        if records > self._records_max or size > self._bytes_max:
            return False
        earlier.records += later.records
        earlier.bytes = size
        return True

    def next_due_ms(self) -> int | None:
        """When the next batch falls due by lingering; None while nothing lingers."""
        return min((b.opened_ms + self._linger_ms for b in self._open.values()), default=None)

    def _take_full(self) -> list[Batch[R]]:
        batches = list(self._full)
        self._full.clear()
        return batches
