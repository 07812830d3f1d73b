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
from goqueue.clock import Clock
from goqueue.codec.batch_decode import decode_records
from goqueue.delay.index import DueIndex, Row, is_passing
from goqueue.delay.records import Change, SlotKey, decode
from goqueue.errors import GoQueueError, LogPoisoned, NotLeader, ShuttingDown, StorageError
from goqueue.ports import Offload
from goqueue.records import Acks

T = TypeVar("T")
# (what could not be done, why): it will be tried again.
OnTrouble = Callable[[str, BaseException], None]
# Opens a partition's index; told of damage, it makes a new one.
OpenIndex = Callable[[Partition, sqlite3.DatabaseError | None], DueIndex]

RETRY_MS = 1000
_READ_BYTES = 1024 * 1024
# Changes that may wait for the index before writers wait too.
_UNINDEXED_MAX = 50_000
# The index takes changes in together, unless somebody waits for it.
_PAUSE_SECONDS = 0.05


class Indexing:
    """One shard's index and what it has not taken in yet. Lives on the event loop; the disk is asked in the offload."""

    def __init__(
        self, partition: Partition, open_index: OpenIndex, offload: Offload, clock: Clock, on_trouble: OnTrouble
    ) -> None:
        self._partition = partition
        self._open_index = open_index
        self._offload = offload
        self._clock = clock
        self._on_trouble = on_trouble
        self._closing = False
        self._index: DueIndex | None = None
        # By slot: the offset of its newest record, and the row that this makes.
        self._overlay: dict[int, tuple[int, Row | None]] = {}
        self._unindexed: list[Change] = []
        self._running: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self._woken = asyncio.Event()
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        # Why the index cannot take anything in at the moment: it is tried again until it can.
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
        self._closing = True
        self._woken.set()
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
        try:
            return self.opened().find(slot)
        except sqlite3.Error as error:
            raise StorageError(f"the index of delayed messages cannot be used: {error}") from error

    async def ask(self, work: Callable[[], T]) -> T:
        """Have the disk asked. Whoever gives up waiting does not stop it, so that closing must wait for it."""
        asked = asyncio.ensure_future(self._offload(work))
        self._asked.add(asked)
        asked.add_done_callback(self._asked.discard)
        try:
            return await asyncio.shield(asked)
        except sqlite3.Error as error:
            raise StorageError(f"the index of delayed messages cannot be used: {error}") from error

    @property
    def failure(self) -> str | None:
        """Why nothing can be taken in at the moment."""
        return str(self._failure) if self._failure is not None else None

    # --- following ----------------------------------------------------------------------

    def check(self) -> None:
        """Raise while the index fails: what is due cannot be found, so nothing more is written."""
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
                try:
                    await self._take_in(changes)
                except GoQueueError as error:
                    self._unindexed = [*changes, *self._unindexed]
                    if not await self._fail(error):
                        return
                else:
                    self._failure = None
        finally:
            self._running = None

    async def _fail(self, error: GoQueueError) -> bool:
        """Refuse all who ask, and wait for a while; False if it is not to be tried again: the term is over.

        The log is sound. What it has and the index lacks stays in memory, which does not grow: nothing is written
        meanwhile.
        """
        if self._failure is None:
            self._on_trouble("the index of delayed messages could not be brought up to date", error)
        self._failure = error
        self._answer_waiters(-1)
        if self._closing or isinstance(error, (LogPoisoned, NotLeader)):
            return False
        await self._retry_pause()
        cause = error.__cause__
        if isinstance(cause, sqlite3.DatabaseError) and cause.sqlite_errorcode != sqlite3.SQLITE_FULL:
            await self._reopen(cause)
        return not self._closing

    async def _reopen(self, cause: sqlite3.DatabaseError) -> None:
        """A connection that met an I/O error may be of no more use; a file that is damaged certainly is."""
        former = self._index
        if self._closing or former is None:
            return
        try:
            fresh = await self.ask(lambda: self._open_again(cause))
        except (GoQueueError, OSError):
            # The former one is tried again.
            return
        self._index = fresh
        await self._offload(former.close)

    def _open_again(self, cause: sqlite3.DatabaseError) -> DueIndex:
        # Damage is found in what the file holds: it is made anew from the log.
        index = self._open_index(self._partition, None if is_passing(cause) else cause)
        end = self._unindexed[0].offset
        try:
            while index.end_offset < end:
                self._replay(index, end)
        except BaseException:
            index.close()
            raise
        return index

    async def _retry_pause(self) -> None:
        """Wait for a second, or until the node stops."""
        self._woken.clear()
        timer = self._clock.call_later(RETRY_MS, self._woken.set)
        try:
            await self._woken.wait()
        finally:
            timer.cancel()

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
