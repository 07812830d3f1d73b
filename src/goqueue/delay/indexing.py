"""How the due index follows the log of its shard.

What is written counts at once in memory; the index takes it in a moment later, once it is
durable. Until then the overlay knows better than the index.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from goqueue.broker.partitions import Partition
from goqueue.codec.batch_decode import decode_records
from goqueue.delay.index import DueIndex, Row
from goqueue.delay.records import Change, SlotKey, decode
from goqueue.errors import GoQueueError, ShuttingDown, StorageError
from goqueue.ports import Offload
from goqueue.records import Acks

T = TypeVar("T")
# Opens a partition's index; told of damage, it makes a new one.
OpenIndex = Callable[[Partition, sqlite3.DatabaseError | None], DueIndex]

_READ_BYTES = 1024 * 1024
# Changes that may wait for the index before writers wait too.
_UNINDEXED_MAX = 50_000
# The index takes changes in together, unless somebody waits for it.
_PAUSE_SECONDS = 0.05


class Indexing:
    """One shard's index and what it has not taken in yet. Lives on the event loop; the disk is asked in the offload."""

    def __init__(self, partition: Partition, open_index: OpenIndex, offload: Offload) -> None:
        self._partition = partition
        self._open_index = open_index
        self._offload = offload
        self._index: DueIndex | None = None
        # By slot: the offset of its newest record, and the row that this makes.
        self._overlay: dict[int, tuple[int, Row | None]] = {}
        self._unindexed: list[Change] = []
        self._running: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._failure: GoQueueError | None = None
        self._asked: set[asyncio.Future[Any]] = set()

    # --- life ---------------------------------------------------------------------------

    async def open(self, end: int, damage: sqlite3.DatabaseError | None) -> DueIndex:
        """Bring the index up to the log's end; with `damage`, one that is made anew."""
        if self._index is not None:
            await self._offload(self._index.close)
        index = self._index = await self._offload(lambda: self._open_index(self._partition, damage))
        while index.end_offset < end:
            await self._offload(lambda: self._replay(index, end))
        return index

    async def close(self) -> None:
        """Take in what is written, so that the next start replays nothing."""
        index = self._index
        if index is None:
            return
        self._hurry.set()
        if self._running is not None:
            await asyncio.wait([self._running])
        if self._asked:
            await asyncio.wait(self._asked)
        self._index = None
        await self._offload(index.close)

    def _replay(self, index: DueIndex, end: int) -> None:
        log = self._partition.log
        start = max(index.end_offset, log.start_offset)
        read = log.read_batches(start, max_bytes=_READ_BYTES, upper=end)
        changes = [decode(one.offset, one.key, one.value) for batch in read.batches for one in decode_records(batch)]
        # Compaction may leave nothing before the end; then all has been read.
        index.apply([one for one in changes if one.offset >= start], read.next_offset if read.batches else end)

    # --- asking -------------------------------------------------------------------------

    def opened(self) -> DueIndex:
        """The index, unless the node is stopping."""
        if self._index is None:
            raise ShuttingDown("the node is stopping")
        return self._index

    def find(self, slot: int) -> Row | None:
        """A slot as it is now."""
        known = self._overlay.get(slot)
        if known is not None:
            return known[1]
        return self.opened().find(slot)

    async def ask(self, work: Callable[[], T]) -> T:
        """Have the disk asked. Whoever gives up waiting does not stop it, so that closing must wait for it."""
        asked = asyncio.ensure_future(self._offload(work))
        self._asked.add(asked)
        asked.add_done_callback(self._asked.discard)
        try:
            return await asyncio.shield(asked)
        except sqlite3.Error as error:
            raise StorageError(f"the index of delayed messages cannot be used: {error}") from error

    # --- following ----------------------------------------------------------------------

    def check(self) -> None:
        """Raise if the index has failed: what is due can no longer be found, so nothing more is written."""
        if self._failure is not None:
            raise self._failure

    def add(self, change: Change, row: Row | None) -> None:
        """A change was written; `row` is what it makes of its slot."""
        if isinstance(change.key, SlotKey):
            self._overlay[change.key.slot] = (change.offset, row)
        self._unindexed.append(change)

    def start(self) -> None:
        """Take in what was added, a moment later."""
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run())

    async def room(self) -> None:
        """Wait while the index lies too far behind: memory must not grow with a burst."""
        if len(self._unindexed) > _UNINDEXED_MAX:
            await self.caught_up()

    async def caught_up(self) -> None:
        """Wait until the index has everything that is written now."""
        self.check()
        end = self._partition.log.end_offset
        if self._running is None or self.opened().end_offset >= end:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((end, done))
        self._hurry.set()
        await done

    async def _run(self) -> None:
        try:
            while self._unindexed:
                if not self._hurry.is_set() and len(self._unindexed) < _UNINDEXED_MAX:
                    await self._pause()
                self._hurry.clear()
                changes, self._unindexed = self._unindexed, []
                await self._take_in(changes)
        except GoQueueError as error:
            # The log is sound, but what is due can no longer be found: a restart builds the index anew.
            self._failure = error
            self._answer_waiters(-1)
        finally:
            self._running = None

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(_PAUSE_SECONDS):
                await self._hurry.wait()
        except TimeoutError:
            pass

    async def _take_in(self, changes: Sequence[Change]) -> None:
        end = changes[-1].offset + 1
        unsafe = self._partition.writer.reached(end, Acks.ALL)
        if unsafe is not None:
            await unsafe
        index = self._index
        if index is None:
            return
        await self.ask(lambda: index.apply(changes, end))
        for change in changes:
            if isinstance(change.key, SlotKey):
                known = self._overlay.get(change.key.slot)
                if known is not None and known[0] < end:
                    del self._overlay[change.key.slot]
        self._answer_waiters(end)

    def _answer_waiters(self, end: int) -> None:
        waiters, self._waiters = self._waiters, []
        for wanted, done in waiters:
            if done.done():
                continue
            if self._failure is not None:
                done.set_exception(self._failure)
            elif wanted <= end:
                done.set_result(None)
            else:
                self._waiters.append((wanted, done))
                self._hurry.set()
