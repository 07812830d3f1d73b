"""How one file of the due index follows the delay logs of its partitions.

What is written counts at once in memory (`unindexed.py`); the index takes it in a moment later, once it is durable. A
partition whose log cannot be synced for the moment, or that leaves, holds up none of the others.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from goqueue.clock import Clock
from goqueue.delay.due.index import FILES, DueIndex, Known, PartitionFacts, Row
from goqueue.delay.due.index_file import is_passing
from goqueue.delay.due.index_in_use import IndexInUse, OpenIndex, storage_errors
from goqueue.delay.due.near import Near
from goqueue.delay.due.replay import replay
from goqueue.delay.due.unindexed import Unindexed, UnindexedChange
from goqueue.delay.holding.records import Change
from goqueue.errors import GoQueueError, LogPoisoned, NotLeader, ShuttingDown, StorageError
from goqueue.ports import Offload
from goqueue.records import Acks

if TYPE_CHECKING:
    from goqueue.delay.due.following import Followed
    from goqueue.delay.holding.store import Store

T = TypeVar("T")
# (what could not be done, why): it will be tried again.
OnTrouble = Callable[[str, BaseException], None]
RETRY_MS = 1000
# Changes that may wait for all files before writers wait too: a change in memory takes half a kilobyte.
_UNINDEXED_MAX = 48_000 // FILES
# The index takes changes in together, unless somebody waits for it.
_PAUSE_SECONDS = 0.05


class Indexing:
    """One file and what it has not taken in yet. Lives on the event loop; the disk is asked in the offload."""

    def __init__(
        self, open_index: OpenIndex, near: Near, *, offload: Offload, clock: Clock, on_trouble: OnTrouble
    ) -> None:
        self.near = near
        # The partitions at work, by their numbers.
        self.stores: dict[int, Store] = {}
        self._file = IndexInUse(open_index, self.stores, offload, clock)
        self._clock = clock
        self._on_trouble = on_trouble
        self._unindexed = Unindexed()
        self._running: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self._woken = asyncio.Event()
        # Why the index cannot take anything in at the moment: it is tried again until it can.
        self._failure: GoQueueError | None = None

    # --- partitions come and go -----------------------------------------------------------

    async def attach(self, store: Store) -> PartitionFacts:
        """Bring the index up to the end of a partition's log, and say what must be at hand of it."""
        async with self._file.using:
            await self._file.opened()
            try:
                facts = await self._bring_up(store)
            except sqlite3.DatabaseError as damage:
                with storage_errors():
                    if is_passing(damage):
                        raise
                    # It opened well, but not all of it can be read. The logs have everything that it had.
                    await self._file.rebuild(damage)
                    facts = await self._bring_up(store)
        self.stores[store.number] = store
        return facts

    def detach(self, store: Store) -> None:
        """The term is over: what the index lacks of this log is for the next term to find in it."""
        if self.stores.get(store.number) is store:
            del self.stores[store.number]
        self._unindexed.drop(store)
        self.near.drop(store.number)

    async def feed(self, followed: Followed, end: int) -> int | None:
        """Take in the next stretch, up to `end` at most, of a log that another node leads; returns how far it has come.

        None: this node leads the partition by now.
        """
        async with self._file.using:
            index = await self._file.opened()
            with storage_errors():
                known = await self._file.work(partial(index.register, followed.topic_id, followed.partition))
                if known.number in self.stores:
                    return None
                if followed.log.has_lost(known.end_offset, known.epoch):
                    await self._file.work(partial(index.reset, known.number))
                    known = Known(known.number, 0, -1)
                return await self._file.work(partial(replay, index, followed.log, known, end, stretches=1))

    async def forget(self, is_gone: Callable[[bytes, int], bool]) -> None:
        """Remove partitions that exist no more from the file, if it is in use."""
        async with self._file.using:
            index = self._file.index
            if index is None:
                return
            with storage_errors():
                for number, topic_id, partition in await self._file.work(index.partitions):
                    if is_gone(topic_id, partition) and number not in self.stores:
                        await self._file.work(partial(index.forget, number))

    async def close(self) -> None:
        """Take in what is written, so that the next start replays nothing."""
        self._file.is_closing = True
        self._woken.set()
        self._hurry.set()
        if self._running is not None:
            await asyncio.wait([self._running])
        await self._file.close()

    async def _bring_up(self, store: Store) -> PartitionFacts:
        index, log = self._file.usable(), store.log
        known = await self._file.work(partial(index.register, store.topic_id, store.partition))
        if log.has_lost(known.end_offset, known.epoch):
            await self._file.work(partial(index.reset, known.number))
            known = Known(known.number, 0, -1)
        store.number = known.number
        store.indexed_end = log.end_offset
        await self._file.work(partial(replay, index, log, known, store.indexed_end))
        return await self._file.work(partial(index.facts, known.number))

    # --- asking -------------------------------------------------------------------------

    def find(self, key: int) -> Row | None:
        """A slot as it is now."""
        newest = self._unindexed.newest(key)
        if newest is not None:
            return newest.row
        with storage_errors():
            return self._file.usable().find(key)

    def newer(self) -> Collection[int]:
        """The slots that the index does not have as they are now."""
        return self._unindexed.keys()

    async def ask(self, question: Callable[[DueIndex], T]) -> T:
        """Have the file asked, everything written so far included, but what a log that is held up has (see `newer`)."""
        await self.caught_up()
        async with self._file.using:
            await self._file.opened()
            with storage_errors():
                try:
                    return await self._asked_of_file(question)
                except sqlite3.DatabaseError as damage:
                    if is_passing(damage):
                        raise
                    # It is found only by who asks: perhaps nothing is taken in any more that would meet it.
                    await self._file.rebuild(damage)
                    return await self._asked_of_file(question)

    async def _asked_of_file(self, question: Callable[[DueIndex], T]) -> T:
        index = self._file.usable()
        return await self._file.work(lambda: question(index))

    @property
    def failure(self) -> str | None:
        """Why nothing can be taken in at the moment."""
        return str(self._failure) if self._failure is not None else None

    # --- following ----------------------------------------------------------------------

    def check(self) -> None:
        """Raise while the index fails: what is due cannot be found, so nothing more is written."""
        if self._failure is not None:
            raise self._failure

    def add(self, store: Store, change: Change, row: Row | None) -> None:
        """A change was written; `row` is what it makes of its slot."""
        self._unindexed.add(store, change, row)

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
        if self._running is None or self._unindexed.is_empty:
            return
        done = self._unindexed.wait()
        self._hurry.set()
        await done

    async def _run(self) -> None:
        try:
            # A partition that leaves takes its changes with it. Whoever waits is answered nevertheless, and a failure
            # does not outlast what it befell: the loop ends only after a success.
            while self._unindexed.has_work or self._failure is not None:
                if not self._hurry.is_set() and len(self._unindexed) < _UNINDEXED_MAX:
                    await self._pause()
                self._hurry.clear()
                changes = self._unindexed.take_out()
                try:
                    held_up = await self._take_in(changes)
                except Exception as error:  # noqa: BLE001 - nothing is forgotten, and whoever waits is told, whatever it is
                    self._unindexed.put_back(changes)
                    if not await self._fail(_one_of_ours(error)):
                        return
                else:
                    self._failure = None
                    self._unindexed.put_back(held_up)
                    self._unindexed.answer(None)
                    if held_up and not await self._hold_up():
                        return
        finally:
            self._running = None

    async def _take_in(self, changes: Sequence[UnindexedChange]) -> list[UnindexedChange]:
        """Apply what is durable; returns the changes of logs that could not be synced for the moment."""
        ends: dict[Store, int] = {one.store: one.change.offset + 1 for one in changes}
        troubled = await _unsafe(ends, self._on_trouble)
        async with self._file.using:
            with storage_errors():
                index = self._file.usable()
            safe = [one for one in changes if one.store not in troubled and self._file.is_at_work(one.store)]
            known = [
                Known(store.number, end, store.writer.leader_epoch)
                for store, end in ends.items()
                if store not in troubled and self._file.is_at_work(store)
            ]
            with storage_errors():
                await self._file.work(lambda: index.apply([(one.store.number, one.change) for one in safe], known))
            for store, end in ends.items():
                if store not in troubled:
                    store.indexed_end = max(store.indexed_end, end)
        for one in safe:
            removed = self._unindexed.remove(one)
            if removed is not None and one.store.was_held_up:
                # The near future may have been loaded without it.
                self.near.put(*removed)
        return [one for one in changes if one.store in troubled and self._file.is_at_work(one.store)]

    async def _hold_up(self) -> bool:
        """Some logs could not be synced: everyone else goes on. False if it is not to be tried again."""
        self._unindexed.mark_held_up()
        self._unindexed.answer(None, skip_held_up=True)
        if not self._file.is_closing:
            await self._retry_pause()
        return not self._file.is_closing

    async def _fail(self, error: GoQueueError) -> bool:
        """Refuse all who ask, and wait for a while; False if it is not to be tried again.

        The logs are sound. What they have and the index lacks stays in memory, which does not grow: nothing is written
        meanwhile.
        """
        if self._failure is None:
            self._on_trouble("the index of delayed messages could not be brought up to date", error)
        self._failure = error
        self._unindexed.answer(error)
        if self._file.is_closing or isinstance(error, ShuttingDown):
            return False
        await self._retry_pause()
        cause = error.__cause__
        if isinstance(cause, sqlite3.DatabaseError) and getattr(cause, "sqlite_errorcode", 0) != sqlite3.SQLITE_FULL:
            async with self._file.using:
                await self._file.reopen(cause)
        return not self._file.is_closing

    async def _retry_pause(self) -> None:
        """Wait for a second, or until the node stops."""
        self._woken.clear()
        if self._file.is_closing:
            return
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


async def _unsafe(ends: dict[Store, int], on_trouble: OnTrouble) -> set[Store]:
    """Wait until logs are durable up to their ends; returns those that are not, and may be later."""
    troubled: set[Store] = set()
    for store, end in ends.items():
        try:
            unsafe = store.writer.reached(end, Acks.ALL)
            if unsafe is not None:
                await unsafe
        except (NotLeader, LogPoisoned, ShuttingDown):
            # Nothing more of it is taken in: the next term, or the next life, replays it.
            troubled.add(store)
            store.is_over = True
        except GoQueueError as error:
            on_trouble(f"delayed messages of {store.place} could not be synced", error)
            troubled.add(store)
    return troubled


def _one_of_ours(error: Exception) -> GoQueueError:
    return error if isinstance(error, GoQueueError) else StorageError(f"the index takes nothing in: {error!r}")
