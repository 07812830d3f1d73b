"""DelayShards: the shards of `__delayed` that this node has at work. Loaded when it leads them, dropped when not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from goqueue.clock import Clock
from goqueue.delay.driver import Driver
from goqueue.delay.indexing import OnTrouble
from goqueue.delay.store import Store
from goqueue.errors import CoordinatorUnavailable, GoQueueError, NotCoordinator, NotLeader, ShuttingDown

DELAYED = "__delayed"
_RELOAD_PAUSE_MS = 1000


class DelayShard(NamedTuple):
    """One partition of `__delayed` at work."""

    store: Store
    driver: Driver


OpenShard = Callable[[int], Awaitable[DelayShard]]


class DelayShards:
    """The shards by number, each a task that has it once it is loaded."""

    def __init__(
        self,
        open_shard: OpenShard,
        refusal: Callable[[int], GoQueueError | None],
        clock: Clock,
        on_trouble: OnTrouble,
    ) -> None:
        self._open_shard = open_shard
        self._refusal = refusal
        self._clock = clock
        self._on_trouble = on_trouble
        self._shards: dict[int, asyncio.Task[DelayShard]] = {}
        self._failed: dict[int, int] = {}
        # Shards that were dropped and may still have their index open: their successors wait for that.
        self._leaving: dict[int, asyncio.Task[None]] = {}
        self._closed = False

    def lead(self, partition: int) -> None:
        """A term of this node begins in the shard's partition: load it, anew if it was there before."""
        self.drop(partition, NotLeader(f"a new term begins in shard {partition} of {DELAYED}"))
        if not self._closed:
            self.load(partition)

    def drop(self, partition: int, reason: GoQueueError) -> None:
        """The term is over: another node delivers what the shard holds. One that is still loading never works."""
        self._failed.pop(partition, None)
        task = self._shards.pop(partition, None)
        if task is None:
            return
        if task.done() and not _has_failed(task):
            task.result().driver.stop()
        self._leaving[partition] = asyncio.get_running_loop().create_task(_leave(task, self._leaving.get(partition)))
        self._on_trouble(f"shard {partition} of {DELAYED} was dropped", reason)

    async def close(self) -> None:
        """Stop firing and leave the indexes complete. A second close does no harm."""
        self._closed = True
        shards, self._shards = self._shards, {}
        for task in shards.values():
            if not task.done():
                task.cancel()
        for outcome in await asyncio.gather(*shards.values(), return_exceptions=True):
            if isinstance(outcome, DelayShard):
                await outcome.driver.close()
                await outcome.store.close()
        if self._leaving:
            await asyncio.wait(self._leaving.values())

    def loaded(self) -> Sequence[DelayShard]:
        """The shards at work."""
        return [task.result() for task in self._shards.values() if task.done() and not _has_failed(task)]

    def failed(self) -> list[int]:
        """Those that could not be loaded, and will be tried again."""
        return [number for number, task in self._shards.items() if _has_failed(task)]

    async def all(self) -> Sequence[DelayShard]:
        """Every shard that has a log, loaded."""
        return [await self.get(partition) for partition in list(self._shards)]

    def at_work(self, partition: int) -> DelayShard | None:
        """A shard; None while it is being loaded, which begins with the first call."""
        task = self.load(partition)
        return task.result() if task.done() and not _has_failed(task) else None

    async def get(self, partition: int) -> DelayShard:
        """One shard, loaded; `CoordinatorUnavailable` while that does not succeed."""
        try:
            return await asyncio.shield(self.load(partition))
        except (ShuttingDown, NotCoordinator, asyncio.CancelledError):
            raise
        except NotLeader as error:
            raise NotCoordinator(str(error), leader=error.leader) from error
        except Exception as error:
            raise CoordinatorUnavailable(f"shard {partition} of {DELAYED} could not be loaded: {error}") from error

    def load(self, partition: int) -> asyncio.Task[DelayShard]:
        """Begin to load a shard, unless that was done; `NotCoordinator` if another node leads it."""
        if self._closed:
            raise ShuttingDown("the node is stopping")
        task = self._shards.get(partition)
        if task is not None and task.done() and self._may_reload(partition, task):
            task = None
        if task is None:
            refusal = self._refusal(partition)
            if refusal is not None:
                raise refusal
            former = self._leaving.get(partition)
            task = self._shards[partition] = asyncio.get_running_loop().create_task(self._open(partition, former))
        return task

    def _may_reload(self, partition: int, task: asyncio.Task[DelayShard]) -> bool:
        return _has_failed(task) and self._clock.monotonic_ms() >= self._failed.get(partition, 0)

    async def _open(self, partition: int, former: asyncio.Task[None] | None) -> DelayShard:
        try:
            if former is not None:
                await asyncio.wait([former])
                if self._leaving.get(partition) is former:
                    del self._leaving[partition]
            return await self._open_shard(partition)
        except NotLeader:
            # Loaded again with the next term.
            raise
        except Exception as error:
            self._failed[partition] = self._clock.monotonic_ms() + _RELOAD_PAUSE_MS
            self._on_trouble(f"shard {partition} of {DELAYED} could not be loaded", error)
            # What it holds must fire without being asked for.
            self._clock.call_later(_RELOAD_PAUSE_MS, lambda: self._reload(partition))
            raise

    def _reload(self, partition: int) -> None:
        if not self._closed:
            with suppress(NotCoordinator):
                self.load(partition)


async def _leave(task: asyncio.Task[DelayShard], former: asyncio.Task[None] | None) -> None:
    """Close a shard that was dropped. A thread may be at its index, so that loading is not cut short but waited for."""
    await asyncio.wait([task] if former is None else [task, former])
    if not _has_failed(task):
        shard = task.result()
        await shard.driver.close()
        await shard.store.close()


def _has_failed(task: asyncio.Task[DelayShard]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
