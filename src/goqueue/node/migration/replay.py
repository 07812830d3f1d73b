"""Replay: a coordinator's log, read from its start, without a machine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial

from goqueue.coordinator.journal import ReadableLog, read_entries
from goqueue.coordinator.shard import Record
from goqueue.ports import Offload


async def records_of(
    log: ReadableLog, offload: Offload, at: Callable[[int], None] = lambda _offset: None
) -> AsyncIterator[Record]:
    """Every record, in order; `at` is told how far it is. The log must be one without transactions."""
    offset, end_offset = log.start_offset, log.end_offset
    while offset < end_offset:
        entries, offset = await offload(partial(read_entries, log, offset, end_offset))
        for entry in entries:
            for record in entry.records:
                yield record
        at(offset)


async def last_values(log: ReadableLog, offload: Offload) -> dict[bytes, bytes]:
    """The newest value of every key that is not deleted."""
    found: dict[bytes, bytes] = {}
    async for key, value in records_of(log, offload):
        if value is None:
            found.pop(key, None)
        else:
            found[key] = value
    return found
