"""Slot reads: the slots of rows, whole, out of the delay logs of their partitions.

A slot that is not in its log any more is told apart from one that cannot be read: nobody may take the second for the
first, and it holds up no other slot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from goqueue.codec.batch_decode import decode_records
from goqueue.delay.holding.records import Slot, SlotKey, decode
from goqueue.errors import GoQueueError

if TYPE_CHECKING:
    from goqueue.delay.due.index import Row
    from goqueue.delay.holding.store import Store
    from goqueue.log.partition_log import PartitionLog
    from goqueue.ports import Offload

T = TypeVar("T")

# Whole slots that are read for one round hold this much at most, unless a single one is larger.
_WHOLE_BYTES_MAX = 16 * 1024 * 1024


class SlotsRead(NamedTuple):
    """Of one partition, by slot: the slots, and why some cannot be read. What is in neither is not in the log."""

    slots: dict[int, Slot]
    damaged: dict[int, Exception]


async def read_some(rows: Mapping[Store, Sequence[Row]], offload: Offload) -> tuple[int, dict[Store, SlotsRead]]:
    """The slots of as many of the first rows as may be in memory together, and how many rows these are."""
    in_order = [(store, row) for store, of_store in rows.items() for row in of_store]
    count = len(in_order)
    while True:
        # Those of one time lie wherever they were written, so a share of them is no share of the batches.
        some: dict[Store, list[Row]] = {}
        for store, row in in_order[:count]:
            some.setdefault(store, []).append(row)
        found = await _to_its_end(offload(lambda some=some: _read_all(some)))  # type: ignore[misc]
        if found is not None:
            return count, found
        count = -(-count // 4)


async def _to_its_end(reading: Awaitable[T]) -> T:
    """Wait for a thread. Whoever gives up waiting does not stop it, and the log must not be closed meanwhile."""
    asked = asyncio.ensure_future(reading)
    try:
        return await asyncio.shield(asked)
    except asyncio.CancelledError:
        await asyncio.wait([asked])
        raise


def _read_all(rows: Mapping[Store, Sequence[Row]]) -> dict[Store, SlotsRead] | None:
    """The slots of rows; None if they are too large together. Blocks."""
    found: dict[Store, SlotsRead] = {}
    total, count = 0, sum(map(len, rows.values()))
    for store, of_store in rows.items():
        found[store], size = _read(store.log, of_store)
        total += size
        if total > _WHOLE_BYTES_MAX and count > 1:
            return None
    return found


def _read(log: PartitionLog, rows: Sequence[Row]) -> tuple[SlotsRead, int]:
    """The slots of one partition, and the bytes that they have; not all of them if they are too large together."""
    wanted = {row.offset: row.slot for row in rows}
    read_slots, size = SlotsRead({}, {}), 0
    seen_to, end = -1, log.end_offset
    for place in sorted(wanted):
        if place < seen_to or place < log.start_offset:
            continue
        try:
            read = log.read_batches(place, max_bytes=1, upper=end)
            records = [record for batch in read.batches for record in decode_records(batch, only=wanted)]
        except (GoQueueError, OSError) as damage:
            read_slots.damaged[wanted[place]] = damage
            continue
        for record in records:
            slot = wanted[record.offset]
            try:
                change = decode(record.offset, record.key, record.value)
            except GoQueueError as damage:
                read_slots.damaged[slot] = damage
                continue
            if change.key == SlotKey(slot) and isinstance(change.value, Slot):
                read_slots.slots[slot] = change.value
                size += len(record.value or b"")
        if size > _WHOLE_BYTES_MAX and len(wanted) > 1:
            return read_slots, size
        seen_to = read.next_offset
    return read_slots, size
