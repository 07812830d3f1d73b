"""IndexInUse: one file of the due index while the node runs: opened at first use, made anew when it is damaged.

The file's one connection that writes is used by one at a time, who holds `using`. The file is made anew from the logs
of the partitions at work, and is used again only when it has all that they had in it.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from goqueue.clock import Clock
from goqueue.delay.due.index import DueIndex, Known
from goqueue.delay.due.index_file import is_passing
from goqueue.delay.due.replay import replay
from goqueue.errors import GoQueueError, ShuttingDown, StorageError
from goqueue.ports import Offload

if TYPE_CHECKING:
    from goqueue.delay.holding.store import Store

T = TypeVar("T")
# Opens the file; told of damage, it makes a new one.
OpenIndex = Callable[[sqlite3.DatabaseError | None], DueIndex]

_ORIGIN_MEMORY_MS = 7 * 24 * 3600 * 1000


class IndexInUse:
    """One file. `stores` are the partitions at work, by their numbers: the caller adds and removes them."""

    def __init__(self, open_index: OpenIndex, stores: Mapping[int, Store], offload: Offload, clock: Clock) -> None:
        self.using = asyncio.Lock()
        self.is_closing = False
        self._open_index = open_index
        self._stores = stores
        self._offload = offload
        self._clock = clock
        self._index: DueIndex | None = None
        # Why the file has to be made anew, until all that the partitions at work had in it is in it again.
        self._damage: sqlite3.DatabaseError | None = None
        self._asked: set[asyncio.Future[Any]] = set()

    @property
    def index(self) -> DueIndex | None:
        """The file, if it is open, sound or not."""
        return self._index

    def usable(self) -> DueIndex:
        """The open file; raises if the node stops or the file is damaged."""
        if self._index is None:
            raise ShuttingDown("the node is stopping")
        if self._damage is not None:
            raise self._damage
        return self._index

    async def opened(self) -> DueIndex:
        """The file, opened if need be. As all below, for whoever holds `using`."""
        if self.is_closing:
            raise ShuttingDown("the node is stopping")
        if self._index is None:
            with storage_errors():
                self._index = index = await self.work(partial(self._open_index, None))
                await self.work(partial(index.forget_origins, self._clock.now_ms() - _ORIGIN_MEMORY_MS))
        return self._index

    async def work(self, work: Callable[[], T]) -> T:
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

    async def rebuild(self, damage: sqlite3.DatabaseError) -> None:
        """Make the file anew, with all that the partitions at work had in it.

        It is used when it has everything, not before: what is taken in next says that all before it is there.
        """
        former, self._damage = self._index, damage
        index = await self.work(partial(self._open_index, damage))
        try:
            # A copy: terms end meanwhile, and what they leave is for the next term to replay.
            for store in list(self._stores.values()):
                await self._put_anew(index, store)
        except BaseException:
            await self._offload(index.close)
            raise
        self._index, self._damage = index, None
        if former is not None:
            await self._offload(former.close)

    async def reopen(self, cause: sqlite3.DatabaseError) -> None:
        """A connection that met an I/O error may be of no more use; a file that is damaged certainly is."""
        former = self._index
        if self.is_closing or former is None:
            return
        try:
            if self._damage is not None or not is_passing(cause):
                # Damage is found in what the file holds: it is made anew from the logs.
                await self.rebuild(self._damage or cause)
            else:
                self._index = await self.work(partial(self._open_index, None))
                await self._offload(former.close)
        except (sqlite3.Error, GoQueueError, OSError):
            # It is tried again: with the former one, or once more from the beginning.
            return

    async def close(self) -> None:
        """Wait for those who use the file, then close it."""
        if self._asked:
            await asyncio.wait(self._asked)
        async with self.using:
            index, self._index = self._index, None
            if index is not None:
                await self._offload(index.close)

    def is_at_work(self, store: Store) -> bool:
        """Whether the term of a partition goes on."""
        return not store.is_over and self._stores.get(store.number) is store

    async def _put_anew(self, index: DueIndex, store: Store) -> None:
        if not self.is_at_work(store):
            return
        try:
            await self.work(partial(index.register, store.topic_id, store.partition, store.number))
            await self.work(partial(replay, index, store.log, Known(store.number, 0, -1), store.indexed_end))
        except (GoQueueError, OSError, ValueError):
            # The log may have been closed or cut since its term ended; then nobody else is held up by it.
            if self.is_at_work(store):
                raise


@contextmanager
def storage_errors() -> Iterator[None]:
    """Raise errors of SQLite as one of ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise StorageError(f"the index of delayed messages cannot be used: {error}") from error
