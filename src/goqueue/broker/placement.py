"""Records on their way to partitions: who goes where, and which go together in one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from goqueue.partitioner import RoundRobin, partition_for_key
from goqueue.records import NewRecord

_BATCH_OVERHEAD_BYTES = 61
# The varints of one record at their longest: length, timestamp, offset, key, value, header count.
_RECORD_OVERHEAD_BYTES = 36
_HEADER_OVERHEAD_BYTES = 10


@dataclass(frozen=True, slots=True)
class Share:
    """Records for one batch, by their positions in what was sent."""

    partition: int
    positions: Sequence[int]


def place_records(
    records: Sequence[NewRecord],
    positions: Sequence[int],
    *,
    partitions: int,
    algorithm: str,
    turns: RoundRobin,
) -> list[Share]:
    """Keys decide; records without one take turns. Order within a partition stays."""
    shares: dict[int, list[int]] = {}
    for position in positions:
        key = records[position].key
        partition = turns.take(partitions) if key is None else partition_for_key(key, partitions, algorithm)
        shares.setdefault(partition, []).append(position)
    return [Share(partition, chosen) for partition, chosen in shares.items()]


def split_share(share: Share, records: Sequence[NewRecord], bytes_max: int) -> list[Share]:
    """Cut a share into batches that stay below the topic's limit; a record too large stands alone."""
    pieces: list[Share] = []
    chosen: list[int] = []
    size = _BATCH_OVERHEAD_BYTES
    for position in share.positions:
        one = _bytes_at_most(records[position])
        if chosen and size + one > bytes_max:
            pieces.append(Share(share.partition, chosen))
            chosen, size = [], _BATCH_OVERHEAD_BYTES
        chosen.append(position)
        size += one
    pieces.append(Share(share.partition, chosen))
    return pieces


def _bytes_at_most(record: NewRecord) -> int:
    size = _RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size += _HEADER_OVERHEAD_BYTES + len(name.encode()) + len(value or b"")
    return size
