"""The order of batches that were refused while their shard was being loaded.

A client has several batches on their way. If one is refused for the moment and the next one is answered "out of
order", librdkafka takes both for not stored, begins a new epoch and sends them again under it. But the first may be
stored: by an attempt before the restart, which only its old epoch and sequence would tell. So from the first batch
that is refused, all that are behind it are refused in the same way, until it has come again.
"""

from __future__ import annotations

from dataclasses import dataclass

from goqueue.broker.replicas.partitions import Partition
from goqueue.codec.batch import BatchHeader
from goqueue.errors import NotLeader

# A client that has not come back by then gave the batch up: what is out of order is called so again.
REFUSED_MS_MAX = 60_000
# Producers that are remembered; the oldest is forgotten first.
_PRODUCERS_MAX = 10_000
# Sequences count from 0 to 2^31-1 and then from 0 again; half the circle lies ahead.
_SEQUENCE_MASK = 0x7FFF_FFFF
_AHEAD_MAX = 1 << 30

_Key = tuple[bytes, int, int]


@dataclass(slots=True)
class _Refused:
    """Of one producer in one partition, the sequences that it is to send again."""

    epoch: int
    next_sequence: int
    last_sequence: int
    since_ms: int


class RefusedBatches:
    """Which producers have batches to send again, by partition."""

    def __init__(self) -> None:
        self._refused: dict[_Key, _Refused] = {}

    def __bool__(self) -> bool:
        return bool(self._refused)

    def refuse(self, place: Partition, header: BatchHeader, now_ms: int) -> NotLeader:
        """Take note of a batch that must come again; returns what to tell its producer."""
        key = _key(place, header)
        if key is not None:
            known = self._refused.get(key)
            if known is None or known.epoch != header.producer_epoch:
                while len(self._refused) >= _PRODUCERS_MAX:
                    del self._refused[next(iter(self._refused))]
                self._refused[key] = _Refused(
                    header.producer_epoch, header.base_sequence, header.last_sequence, since_ms=now_ms
                )
            else:
                if _is_ahead(known.next_sequence, header.base_sequence):
                    known.next_sequence = header.base_sequence
                if _is_ahead(header.last_sequence, known.last_sequence):
                    known.last_sequence = header.last_sequence
        return NotLeader("the delayed messages of this topic are still being loaded")

    def check(self, place: Partition, header: BatchHeader, now_ms: int) -> None:
        """Refuse a batch that is behind one that has not come again yet."""
        key = _key(place, header)
        known = None if key is None else self._refused.get(key)
        if key is None or known is None:
            return
        if known.epoch != header.producer_epoch or now_ms - known.since_ms > REFUSED_MS_MAX:
            del self._refused[key]
        elif _is_ahead(header.base_sequence, known.next_sequence):
            raise self.refuse(place, header, now_ms)
        elif header.base_sequence == known.next_sequence:
            if _is_ahead(known.last_sequence, header.last_sequence):
                known.next_sequence = (header.last_sequence + 1) & _SEQUENCE_MASK
            else:
                del self._refused[key]


def _key(place: Partition, header: BatchHeader) -> _Key | None:
    if header.producer_id < 0 or header.base_sequence < 0:
        return None
    return place.topic_id.bytes, place.id, header.producer_id


def _is_ahead(sequence: int, other: int) -> bool:
    return 0 < ((sequence - other) & _SEQUENCE_MASK) < _AHEAD_MAX
