"""Records on their way to partitions: who goes where, and which go together in one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from goqueue.broker.arrivals.deduplication.ids import digest_of
from goqueue.errors import InvalidRequest
from goqueue.partitioner import RoundRobin, partition_for_key
from goqueue.records import NewRecord

_BATCH_OVERHEAD_BYTES = 61
# The varints of one record at their longest: length, timestamp, offset, key, value, header count.
_RECORD_OVERHEAD_BYTES = 36
_HEADER_OVERHEAD_BYTES = 10


@dataclass(frozen=True, slots=True)
class PlacedRecords:
    """Records for one batch, by their positions in what was sent."""

    partition: int
    positions: Sequence[int]


class Placing(Protocol):
    """The settings of a topic that decide where records go."""

    @property
    def partitioner(self) -> str:
        """How a key chooses its partition."""
        ...

    @property
    def dedup_window_ms(self) -> int:
        """For how long repeats are recognised; 0: not at all."""
        ...


def placements_of(
    records: Sequence[NewRecord],
    positions: Sequence[int],
    *,
    partition: int | None,
    partitions: int,
    config: Placing,
    turns: RoundRobin,
    is_idempotent: bool,
) -> list[PlacedRecords]:
    """Where the records of one request go: to `partition` if it is said, else as the topic's settings have it.

    Sequences count per partition, so an idempotent producer's records go to one partition that a retry finds again.
    """
    if not positions:
        return []
    if partition is not None:
        return [PlacedRecords(partition, positions)]
    if is_idempotent and partitions > 1 and any(records[at].key is None for at in positions):
        raise InvalidRequest(
            "a producer with sequences must say which partition its records without a key go to: "
            "a retry might go elsewhere",
            field="partition",
        )
    placements = place_records(
        records,
        positions,
        partitions=partitions,
        algorithm=config.partitioner,
        turns=turns,
        has_window=config.dedup_window_ms > 0,
    )
    if is_idempotent and len(placements) > 1:
        raise InvalidRequest("sequences count per partition, but these records go to several", field="partition")
    return placements


def place_records(
    records: Sequence[NewRecord],
    positions: Sequence[int],
    *,
    partitions: int,
    algorithm: str,
    turns: RoundRobin,
    has_window: bool = False,
) -> list[PlacedRecords]:
    """Keys decide; records without one take turns. Order within a partition stays.

    Where repeats are recognised (`has_window`), the deduplication id decides for a record without a key.
    """
    placements: dict[int, list[int]] = {}
    for position in positions:
        key = records[position].key
        if key is None and has_window:
            key = digest_of(records[position].headers)
        partition = turns.take(partitions) if key is None else partition_for_key(key, partitions, algorithm)
        placements.setdefault(partition, []).append(position)
    return [PlacedRecords(partition, chosen) for partition, chosen in placements.items()]


def split_placed(placed: PlacedRecords, records: Sequence[NewRecord], bytes_max: int) -> list[PlacedRecords]:
    """Cut the records of a partition into batches below the topic's limit; a record too large stands alone."""
    pieces: list[PlacedRecords] = []
    chosen: list[int] = []
    size = _BATCH_OVERHEAD_BYTES
    for position in placed.positions:
        one = _bytes_at_most(records[position])
        if chosen and size + one > bytes_max:
            pieces.append(PlacedRecords(placed.partition, chosen))
            chosen, size = [], _BATCH_OVERHEAD_BYTES
        chosen.append(position)
        size += one
    pieces.append(PlacedRecords(placed.partition, chosen))
    return pieces


def _bytes_at_most(record: NewRecord) -> int:
    size = _RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size += _HEADER_OVERHEAD_BYTES + len(name.encode()) + len(value or b"")
    return size
