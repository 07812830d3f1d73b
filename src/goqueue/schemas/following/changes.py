"""What has changed in the registry since a position, for nodes that keep a copy of it.

Read from the log of `__schemas` by its coordinator, and only as far as it is durable: a copy never has what a failover
could take back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from goqueue.coordinator.journal import ReadableLog, read_entries
from goqueue.coordinator.runtime import Coordinator
from goqueue.ports import Offload
from goqueue.schemas.commands import Ask

if TYPE_CHECKING:
    from goqueue.coordinator.topic import CoordinatorTopic

Record = tuple[bytes, bytes | None]


class Position(msgspec.Struct, frozen=True, array_like=True):
    """How far a copy has come: everything below an offset of a log, whose last epoch then was this one."""

    topic_id: bytes
    leader_epoch: int
    offset: int


class Changes(msgspec.Struct, frozen=True, array_like=True):
    """Records that follow a position, or (`is_anew`) the first ones of the log, if the position is not part of it."""

    is_anew: bool
    records: list[Record]
    position: Position
    # What the copy has to reach to know all that was durable when it asked.
    end_offset: int


class RegistryChanges:
    """The coordinator's half."""

    def __init__(self, coordinator: Coordinator, topic: CoordinatorTopic, offload: Offload) -> None:
        self._coordinator = coordinator
        self._topic = topic
        self._offload = offload
        self._waiting: set[asyncio.Future[None]] = set()

    def wake(self) -> None:
        """The registry has changed, or is not coordinated here any more."""
        for one in self._waiting:
            if not one.done():
                one.set_result(None)

    async def since(self, position: Position | None, wait_ms: int) -> Changes:
        """About a megabyte of changes. Without any, wait until there are some, or until the time has passed."""
        log, end_offset = await self._durable_end()
        is_part = position is not None and _is_part(position, log)
        if is_part and position is not None and position.offset >= end_offset and wait_ms:
            await self._changed(wait_ms)
            log, end_offset = await self._durable_end()
            is_part = _is_part(position, log)
        start = position.offset if is_part and position is not None else log.start_offset
        epoch, records = log.leader_epoch, []
        if start < end_offset:
            entries, start = await self._offload(lambda: read_entries(log, start, end_offset))
            records = [record for entry in entries for record in entry.records]
        return Changes(not is_part, records, Position(log.topic_id.bytes, epoch, start), end_offset)

    async def _durable_end(self) -> tuple[ReadableLog, int]:
        """The log, and an end of it below which all is durable. Raises if this node is not the coordinator."""
        await self._coordinator.submit_to(0, Ask(lambda _state: None))
        log = (await self._topic(0)).log
        # What the answer rests on is durable when the answer comes.
        end_of: Callable[[object], int] = lambda _state: log.end_offset  # noqa: E731
        end_offset: int = await self._coordinator.submit_to(0, Ask(end_of))
        return log, end_offset

    async def _changed(self, wait_ms: int) -> None:
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        try:
            await asyncio.wait([waiting], timeout=wait_ms / 1000)
        finally:
            self._waiting.discard(waiting)


def _is_part(position: Position, log: ReadableLog) -> bool:
    if position.topic_id != log.topic_id.bytes or not log.start_offset <= position.offset <= log.end_offset:
        return False
    if position.offset == 0:
        # Of a log that has no record yet there is no epoch to compare.
        return True
    epoch, end_offset = log.end_offset_for_epoch(position.leader_epoch)
    return epoch == position.leader_epoch and end_offset >= position.offset
