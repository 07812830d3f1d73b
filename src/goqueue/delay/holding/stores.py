"""Stores: the delayed messages of the partitions that this node leads. Loaded when a term begins, dropped when it ends.

A partition without a delay log has no store until its first delayed message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from uuid import UUID

from goqueue.broker.replicas.partitions import Partitions
from goqueue.broker.replicas.roles import Leading, Role
from goqueue.clock import Clock
from goqueue.delay.due.following import FollowerFeed
from goqueue.delay.due.indexing import Indexing, OnTrouble
from goqueue.delay.firing.driver import Driver
from goqueue.delay.holding.store import Store
from goqueue.errors import CoordinatorUnavailable, GoQueueError, NotFound, NotLeader, ShuttingDown
from goqueue.metadata.events import Topic
from goqueue.records import LogKind, TopicPartition

_RELOAD_PAUSE_MS = 1000
# Logs that are opened side by side at a start.
_LOADS_MAX = 16

OpenStore = Callable[[TopicPartition], Awaitable[Store]]


class Stores:
    """The stores by partition, each a task that has it once it is loaded."""

    def __init__(
        self,
        partitions: Partitions,
        topic_by_id: Callable[[UUID], Topic],
        open_store: OpenStore,
        files: Sequence[Indexing],
        driver: Driver,
        feed: FollowerFeed,
        clock: Clock,
        on_trouble: OnTrouble,
    ) -> None:
        self._partitions = partitions
        self._topic_by_id = topic_by_id
        self._open_store = open_store
        self._files = files
        self._driver = driver
        self._feed = feed
        self._clock = clock
        self._on_trouble = on_trouble
        self._stores: dict[TopicPartition, asyncio.Task[Store]] = {}
        self._failed: dict[TopicPartition, int] = {}
        self._loads = asyncio.Semaphore(_LOADS_MAX)
        self._background: set[asyncio.Task[None]] = set()
        # Index files in which partitions of deleted topics were looked for.
        self._cleaned: set[Indexing] = set()
        self._closed = False

    def start(self) -> None:
        """Load, in the background, what has a delay log: what is due must fire without being asked for."""
        for place in self._partitions.led_with_member(LogKind.DELAY):
            self.load(place)
        self._partitions.on_role(self._on_role)
        self._feed.start()

    async def close(self) -> None:
        """Stop firing and leave the indexes complete. A second close does no harm."""
        self._closed = True
        tasks = list(self._stores.values())
        for task in tasks:
            if not task.done():
                task.cancel()
        await asyncio.gather(*tasks, *self._background, return_exceptions=True)
        await self._feed.close()
        await self._driver.close()
        for one in self._files:
            await one.close()
        for store in self.loaded():
            store.is_over = True
        self._stores.clear()

    # --- terms --------------------------------------------------------------------------

    def _on_role(self, place: TopicPartition, role: Role | None) -> None:
        reason = f"a new term begins in {place}" if isinstance(role, Leading) else f"this node does not lead {place}"
        self.drop(place, NotLeader(reason))
        if isinstance(role, Leading) and not self._closed and self._partitions.has_member(place, LogKind.DELAY):
            self.load(place)
        elif role is None:
            # A replica that comes back one day begins with another log.
            with suppress(NotFound):
                gone = (self._partitions.topic(place.topic).topic_id.bytes, place.partition)
                self.forget_gone(lambda *one: one == gone)

    def drop_topic(self, topic: str) -> None:
        """The topic is gone, and what was held for it."""
        for place in [one for one in self._stores if one.topic == topic]:
            self.drop(place, NotLeader(f"topic {topic!r} is deleted"))
        self.forget_gone()

    def drop(self, place: TopicPartition, reason: GoQueueError) -> None:
        """The term is over: another one delivers what is held. A store that is still loading never works."""
        self._failed.pop(place, None)
        task = self._stores.pop(place, None)
        if task is None:
            return
        if not task.done():
            task.cancel()
        elif not _has_failed(task):
            self._let_go(task.result())
            self._on_trouble(f"the delayed messages of {place} were dropped", reason)

    def forget_gone(self, is_gone: Callable[[bytes, int], bool] | None = None) -> None:
        """Remove partitions from the index, in the background: those of deleted topics, unless it is said which."""
        if not self._closed:
            task = asyncio.get_running_loop().create_task(self._forget_gone(is_gone or self._is_gone))
            self._background.add(task)
            task.add_done_callback(self._background.discard)

    async def _forget_gone(self, is_gone: Callable[[bytes, int], bool]) -> None:
        for one in self._files:
            try:
                await one.forget(is_gone)
            except ShuttingDown:
                return
            except (GoQueueError, OSError) as error:
                self._on_trouble("deleted partitions could not be removed from the index of delayed messages", error)

    def _is_gone(self, topic_id: bytes, partition: int) -> bool:
        try:
            return partition >= self._topic_by_id(UUID(bytes=topic_id)).partition_count
        except NotFound:
            return True

    def _let_go(self, store: Store) -> None:
        self._driver.drop(store)
        store.close()

    # --- finding ------------------------------------------------------------------------

    def loaded(self) -> Sequence[Store]:
        """The stores at work."""
        return [task.result() for task in self._stores.values() if task.done() and not _has_failed(task)]

    def failed(self) -> list[TopicPartition]:
        """Those that could not be loaded, and will be tried again."""
        return [place for place, task in self._stores.items() if _has_failed(task)]

    async def of_topic(self, topic: str) -> list[Store]:
        """The stores that have ever held anything for partitions of a topic which this node leads, loaded."""
        return [await self.get(place) for place in self._places(topic)]

    def _places(self, topic: str) -> Collection[TopicPartition]:
        count = self._partitions.topic(topic).partition_count
        places = (TopicPartition(topic, number) for number in range(count))
        # A follower has a copy of what is held, which its leader alone may show and change.
        return [one for one in places if self._partitions.is_led(*one) and self.has(one)]

    def has(self, place: TopicPartition) -> bool:
        """Whether anything was ever held for the partition on this node."""
        return self._partitions.has_member(place, LogKind.DELAY)

    def check_led(self, place: TopicPartition) -> None:
        """`NotLeader` if another node has what is held for the partition."""
        if not self._partitions.is_led(*place):
            raise NotLeader(f"this node does not lead {place}")

    def at_work(self, place: TopicPartition) -> Store | None:
        """A partition's store; None while it is being loaded, which begins with the first call."""
        task = self.load(place)
        return task.result() if task.done() and not _has_failed(task) else None

    def loading(self, place: TopicPartition) -> asyncio.Task[Store] | None:
        """What loads a partition's store, begun by the first call; None once it is loaded, or has failed."""
        if self._closed:
            return None
        task = self.load(place)
        return None if task.done() else task

    async def get(self, place: TopicPartition) -> Store:
        """One store, loaded, its log made if need be; `CoordinatorUnavailable` while that does not succeed."""
        loading = self.load(place)
        try:
            return await asyncio.shield(loading)
        except (ShuttingDown, NotLeader, NotFound):
            raise
        except asyncio.CancelledError:
            # Not the one that is there now: this node may lead again, in a term whose load has begun.
            if loading.cancelled() and not self._closed:
                # The term ended while it was loaded; whoever asked was not cancelled.
                raise NotLeader(f"the term in {place} ended while its delayed messages were loaded") from None
            raise
        except Exception as error:
            raise CoordinatorUnavailable(f"the delayed messages of {place} could not be loaded: {error}") from error

    def load(self, place: TopicPartition) -> asyncio.Task[Store]:
        """Begin to load a partition's store, unless that was done."""
        if self._closed:
            raise ShuttingDown("the node is stopping")
        task = self._stores.get(place)
        if task is not None and _has_failed(task) and self._clock.monotonic_ms() >= self._failed.get(place, 0):
            task = None
        if task is None:
            task = self._stores[place] = asyncio.get_running_loop().create_task(self._open(place))
        return task

    async def _open(self, place: TopicPartition) -> Store:
        try:
            async with self._loads:
                store = await self._open_store(place)
        except (NotLeader, NotFound, ShuttingDown):
            # Loaded again with the next term. Nothing is wrong with it here, so nobody is told that it failed.
            if self._stores.get(place) is asyncio.current_task():
                del self._stores[place]
            raise
        except Exception as error:
            self._failed[place] = self._clock.monotonic_ms() + _RELOAD_PAUSE_MS
            self._on_trouble(f"the delayed messages of {place} could not be loaded", error)
            # What it holds must fire without being asked for.
            self._clock.call_later(_RELOAD_PAUSE_MS, lambda: self._reload(place))
            raise
        self._driver.add(store)
        if store.indexing not in self._cleaned:
            # Topics may have been deleted while nobody looked.
            self._cleaned.add(store.indexing)
            self.forget_gone()
        return store

    def _reload(self, place: TopicPartition) -> None:
        task = self._stores.get(place)
        if not self._closed and task is not None and _has_failed(task):
            with suppress(GoQueueError):
                self.load(place)


def _has_failed(task: asyncio.Task[Store]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
