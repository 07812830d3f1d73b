"""How one file of the due index follows the delay logs of its partitions.

What is written counts at once in memory; the index takes it in a moment later, once it is durable. Until then the
overlay knows better than the index. A partition whose log cannot be synced for the moment, or that leaves, holds up
none of the others.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from goqueue.clock import Clock
from goqueue.codec.batch_decode import decode_records
from goqueue.delay.due.index import FILES, DueIndex, Known, PartitionFacts, Row, key_of
from goqueue.delay.due.index_file import is_passing
from goqueue.delay.due.near import Near
from goqueue.delay.holding.records import Change, SlotKey, decode, without_message
from goqueue.errors import GoQueueError, LogPoisoned, NotLeader, ShuttingDown, StorageError
from goqueue.log.partition_log import PartitionLog
from goqueue.ports import Offload
from goqueue.records import Acks

if TYPE_CHECKING:
    from goqueue.delay.due.following import Followed
    from goqueue.delay.holding.store import Store

T = TypeVar("T")
# (what could not be done, why): it will be tried again.
OnTrouble = Callable[[str, BaseException], None]
# Opens the file; told of damage, it makes a new one.
OpenIndex = Callable[[sqlite3.DatabaseError | None], DueIndex]

RETRY_MS = 1000
_READ_BYTES = 1024 * 1024
# Changes that may wait for all files before writers wait too: a change in memory takes half a kilobyte.
_UNINDEXED_MAX = 48_000 // FILES
# The index takes changes in together, unless somebody waits for it.
_PAUSE_SECONDS = 0.05
_ORIGIN_MEMORY_MS = 7 * 24 * 3600 * 1000


class _Unindexed(NamedTuple):
    """A change that the index lacks, and which one it is by the order of writing."""

    turn: int
    store: Store
    change: Change


class Indexing:
    """One file and what it has not taken in yet. Lives on the event loop; the disk is asked in the offload."""

    def __init__(
        self, open_index: OpenIndex, near: Near, *, offload: Offload, clock: Clock, on_trouble: OnTrouble
    ) -> None:
        self.near = near
        # The partitions at work, by their numbers.
        self.stores: dict[int, Store] = {}
        self._open_index = open_index
        self._offload = offload
        self._clock = clock
        self._on_trouble = on_trouble
        self._closing = False
        self._index: DueIndex | None = None
        # Why the file has to be made anew, until all that the partitions at work had in it is in it again.
        self._damage: sqlite3.DatabaseError | None = None
        # The file's one connection that writes is used by one at a time.
        self._using = asyncio.Lock()
        # By key: the offset of its newest record, and the row that this makes.
        self._overlay: dict[int, tuple[int, Row | None]] = {}
        self._unindexed: list[_Unindexed] = []
        # Changes that left `_unindexed` are being taken in, which may wait for the disk: the index lacks them still.
        self._is_taking_in = False
        self._added = 0
        self._running: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self._woken = asyncio.Event()
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        # Why the index cannot take anything in at the moment: it is tried again until it can.
        self._failure: GoQueueError | None = None
        self._asked: set[asyncio.Future[Any]] = set()

    # --- partitions come and go -----------------------------------------------------------

    async def attach(self, store: Store) -> PartitionFacts:
        """Bring the index up to the end of a partition's log, and say what must be at hand of it."""
        async with self._using:
            await self._opened()
            try:
                facts = await self._bring_up(store)
            except sqlite3.DatabaseError as damage:
                with _usable_or_not():
                    if is_passing(damage):
                        raise
                    # It opened well, but not all of it can be read. The logs have everything that it had.
                    await self._rebuild(damage)
                    facts = await self._bring_up(store)
        self.stores[store.number] = store
        return facts

    def detach(self, store: Store) -> None:
        """The term is over: what the index lacks of this log is for the next term to find in it."""
        if self.stores.get(store.number) is store:
            del self.stores[store.number]
        self._unindexed = [one for one in self._unindexed if one.store is not store]
        for key in [key for key in self._overlay if Row(key, 0, 0).number == store.number]:
            del self._overlay[key]
        self.near.drop(store.number)

    async def feed(self, followed: Followed, end: int) -> int | None:
        """Take in the next stretch, up to `end` at most, of a log that another node leads; returns how far it has come.

        None: this node leads the partition by now.
        """
        async with self._using:
            index = await self._opened()
            with _usable_or_not():
                known = await self._work(partial(index.register, followed.topic_id, followed.partition))
                if known.number in self.stores:
                    return None
                if followed.log.has_lost(known.end_offset, known.epoch):
                    await self._work(partial(index.reset, known.number))
                    known = Known(known.number, 0, -1)
                return await self._work(partial(_replay, index, followed.log, known, end, stretches=1))

    async def forget(self, is_gone: Callable[[bytes, int], bool]) -> None:
        """Remove partitions that exist no more from the file, if it is in use."""
        async with self._using:
            index = self._index
            if index is None:
                return
            with _usable_or_not():
                for number, topic_id, partition in await self._work(index.partitions):
                    if is_gone(topic_id, partition) and number not in self.stores:
                        await self._work(partial(index.forget, number))

    async def close(self) -> None:
        """Take in what is written, so that the next start replays nothing."""
        self._closing = True
        self._woken.set()
        self._hurry.set()
        if self._running is not None:
            await asyncio.wait([self._running])
        if self._asked:
            await asyncio.wait(self._asked)
        async with self._using:
            index, self._index = self._index, None
            if index is not None:
                await self._offload(index.close)

    async def _opened(self) -> DueIndex:
        if self._closing:
            raise ShuttingDown("the node is stopping")
        if self._index is None:
            with _usable_or_not():
                self._index = index = await self._work(partial(self._open_index, None))
                await self._work(partial(index.forget_origins, self._clock.now_ms() - _ORIGIN_MEMORY_MS))
        return self._index

    async def _bring_up(self, store: Store) -> PartitionFacts:
        index, log = self._usable(), store.log
        known = await self._work(partial(index.register, store.topic_id, store.partition))
        if log.has_lost(known.end_offset, known.epoch):
            await self._work(partial(index.reset, known.number))
            known = Known(known.number, 0, -1)
        store.number = known.number
        store.indexed_end = log.end_offset
        await self._work(partial(_replay, index, log, known, store.indexed_end))
        return await self._work(partial(index.facts, known.number))

    async def _rebuild(self, damage: sqlite3.DatabaseError) -> None:
        """Make the file anew, with all that the partitions at work had in it.

        It is used when it has everything, not before: what is taken in next says that all before it is there.
        """
        former, self._damage = self._index, damage
        index = await self._work(partial(self._open_index, damage))
        try:
            # A copy: terms end meanwhile, and what they leave is for the next term to replay.
            for store in list(self.stores.values()):
                await self._put_anew(index, store)
        except BaseException:
            await self._offload(index.close)
            raise
        self._index, self._damage = index, None
        if former is not None:
            await self._offload(former.close)

    async def _put_anew(self, index: DueIndex, store: Store) -> None:
        if not self._is_at_work(store):
            return
        try:
            await self._work(partial(index.register, store.topic_id, store.partition, store.number))
            await self._work(partial(_replay, index, store.log, Known(store.number, 0, -1), store.indexed_end))
        except (GoQueueError, OSError, ValueError):
            # The log may have been closed or cut since its term ended; then nobody else is held up by it.
            if self._is_at_work(store):
                raise

    # --- asking -------------------------------------------------------------------------

    def _usable(self) -> DueIndex:
        if self._index is None:
            raise ShuttingDown("the node is stopping")
        if self._damage is not None:
            raise self._damage
        return self._index

    def find(self, key: int) -> Row | None:
        """A slot as it is now."""
        known = self._overlay.get(key)
        if known is not None:
            return known[1]
        with _usable_or_not():
            return self._usable().find(key)

    def newer(self) -> Collection[int]:
        """The slots that the index does not have as they are now."""
        return self._overlay.keys()

    async def ask(self, question: Callable[[DueIndex], T]) -> T:
        """Have the file asked, everything written so far included, but what a log that is held up has (see `newer`)."""
        await self.caught_up()
        async with self._using:
            await self._opened()
            with _usable_or_not():
                try:
                    return await self._asked_of_file(question)
                except sqlite3.DatabaseError as damage:
                    if is_passing(damage):
                        raise
                    # It is found only by who asks: perhaps nothing is taken in any more that would meet it.
                    await self._rebuild(damage)
                    return await self._asked_of_file(question)

    async def _asked_of_file(self, question: Callable[[DueIndex], T]) -> T:
        index = self._usable()
        return await self._work(lambda: question(index))

    async def _work(self, work: Callable[[], T]) -> T:
        """Have the disk asked. Whoever gives up waiting does not stop it, so it is waited for."""
        asked = asyncio.ensure_future(self._offload(work))
        self._asked.add(asked)
        asked.add_done_callback(self._asked.discard)
        try:
            return await asyncio.shield(asked)
        except asyncio.CancelledError:
            # Nobody else may use the connection before it is done.
            await asyncio.wait([asked])
            raise

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
        if isinstance(change.key, SlotKey):
            self._overlay[key_of(store.number, change.key.slot)] = (change.offset, row)
        self._added += 1
        self._unindexed.append(_Unindexed(self._added, store, without_message(change)))

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
        if self._running is None or not (self._unindexed or self._is_taking_in):
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((self._added, done))
        self._hurry.set()
        await done

    async def _run(self) -> None:
        try:
            # A partition that leaves takes its changes with it. Whoever waits is answered nevertheless, and a failure
            # does not outlast what it befell: the loop ends only after a success.
            while self._unindexed or self._waiters or self._failure is not None:
                if not self._hurry.is_set() and len(self._unindexed) < _UNINDEXED_MAX:
                    await self._pause()
                self._hurry.clear()
                changes, self._unindexed = self._unindexed, []
                self._is_taking_in = True
                try:
                    held_up = await self._take_in(changes)
                except Exception as error:  # noqa: BLE001 - nothing is forgotten, and whoever waits is told, whatever it is
                    self._is_taking_in = False
                    self._unindexed = [*changes, *self._unindexed]
                    if not await self._fail(_one_of_ours(error)):
                        return
                else:
                    self._is_taking_in = False
                    self._failure = None
                    self._unindexed = [*held_up, *self._unindexed]
                    self._answer_waiters()
                    if held_up and not await self._hold_up():
                        return
        finally:
            self._running = None

    async def _take_in(self, changes: Sequence[_Unindexed]) -> list[_Unindexed]:
        """Apply what is durable; returns the changes of logs that could not be synced for the moment."""
        ends: dict[Store, int] = {one.store: one.change.offset + 1 for one in changes}
        troubled = await _unsafe(ends, self._on_trouble)
        async with self._using:
            with _usable_or_not():
                index = self._usable()
            safe = [one for one in changes if one.store not in troubled and self._is_at_work(one.store)]
            known = [
                Known(store.number, end, store.writer.leader_epoch)
                for store, end in ends.items()
                if store not in troubled and self._is_at_work(store)
            ]
            with _usable_or_not():
                await self._work(lambda: index.apply([(one.store.number, one.change) for one in safe], known))
            for store, end in ends.items():
                if store not in troubled:
                    store.indexed_end = max(store.indexed_end, end)
        for one in safe:
            self._leave_overlay(one)
        return [one for one in changes if one.store in troubled and self._is_at_work(one.store)]

    def _is_at_work(self, store: Store) -> bool:
        return not store.is_over and self.stores.get(store.number) is store

    def _leave_overlay(self, one: _Unindexed) -> None:
        if not isinstance(one.change.key, SlotKey):
            return
        key = key_of(one.store.number, one.change.key.slot)
        known = self._overlay.get(key)
        if known is not None and known[0] <= one.change.offset:
            del self._overlay[key]
            if one.store.was_held_up:
                # The near future may have been loaded without it.
                self.near.put(key, known[1])

    async def _hold_up(self) -> bool:
        """Some logs could not be synced: everyone else goes on. False if it is not to be tried again."""
        for one in self._unindexed:
            one.store.was_held_up = True
        self._answer_waiters(skip_held_up=True)
        if not self._closing:
            await self._retry_pause()
        return not self._closing

    async def _fail(self, error: GoQueueError) -> bool:
        """Refuse all who ask, and wait for a while; False if it is not to be tried again.

        The logs are sound. What they have and the index lacks stays in memory, which does not grow: nothing is written
        meanwhile.
        """
        if self._failure is None:
            self._on_trouble("the index of delayed messages could not be brought up to date", error)
        self._failure = error
        self._answer_waiters()
        if self._closing or isinstance(error, ShuttingDown):
            return False
        await self._retry_pause()
        cause = error.__cause__
        if isinstance(cause, sqlite3.DatabaseError) and getattr(cause, "sqlite_errorcode", 0) != sqlite3.SQLITE_FULL:
            await self._reopen(cause)
        return not self._closing

    async def _reopen(self, cause: sqlite3.DatabaseError) -> None:
        """A connection that met an I/O error may be of no more use; a file that is damaged certainly is."""
        async with self._using:
            former = self._index
            if self._closing or former is None:
                return
            try:
                if self._damage is not None or not is_passing(cause):
                    # Damage is found in what the file holds: it is made anew from the logs.
                    await self._rebuild(self._damage or cause)
                else:
                    self._index = await self._work(partial(self._open_index, None))
                    await self._offload(former.close)
            except (sqlite3.Error, GoQueueError, OSError):
                # It is tried again: with the former one, or once more from the beginning.
                return

    async def _retry_pause(self) -> None:
        """Wait for a second, or until the node stops."""
        self._woken.clear()
        if self._closing:
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

    def _answer_waiters(self, *, skip_held_up: bool = False) -> None:
        waiters, self._waiters = self._waiters, []
        asked = (one.turn for one in self._unindexed if not (skip_held_up and one.store.was_held_up))
        first = min(asked, default=None)
        for wanted, done in waiters:
            if done.done():
                continue
            if self._failure is not None:
                done.set_exception(self._failure)
            elif first is None or wanted < first:
                done.set_result(None)
            else:
                self._waiters.append((wanted, done))


def _replay(index: DueIndex, log: PartitionLog, known: Known, end: int, stretches: int | None = None) -> int:
    """Take in what lies between what is known and `end`, or only so many stretches of it; returns how far it came."""
    offset = max(known.end_offset, log.start_offset)
    while offset < end and stretches != 0:
        read = log.read_batches(offset, max_bytes=_READ_BYTES, upper=end)
        records = [one for batch in read.batches for one in decode_records(batch) if offset <= one.offset < end]
        changes = [(known.number, decode(one.offset, one.key, one.value)) for one in records]
        if not read.batches and stretches is not None:
            # Compaction left nothing before the end, or the end lies within a batch: what comes next will tell.
            return offset
        # Compaction may leave nothing before the end; then all has been read.
        offset = min(read.next_offset, end) if read.batches else end
        index.apply(changes, [Known(known.number, offset, log.epoch_below(offset))])
        stretches = None if stretches is None else stretches - 1
    return offset


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


@contextmanager
def _usable_or_not() -> Iterator[None]:
    """Errors of SQLite, as one of ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise StorageError(f"the index of delayed messages cannot be used: {error}") from error
