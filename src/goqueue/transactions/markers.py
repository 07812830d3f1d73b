"""Markers: telling every partition of a decided transaction how it ended.

Per shard one watcher waits for decisions; per decided transaction one task ends it at each partition,
tries again until that is durable, and only then tells the machine. A crash anywhere between
leaves the decision in the log: the next watcher gets it again, and a marker that was written
before decides nothing the second time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from goqueue.broker.replicas.partitions import Partitions
from goqueue.clock import Clock
from goqueue.coordinator.runtime import Coordinator
from goqueue.coordinator.shard import Transaction
from goqueue.errors import (
    GoQueueError,
    InvalidTransactionState,
    NotCoordinator,
    NotFound,
    ProducerFenced,
    ShuttingDown,
)
from goqueue.records import TopicPartition
from goqueue.transactions.commands import Completed, Prepared, Producer, WatchPrepared
from goqueue.transactions.ending import EndAt
from goqueue.transactions.names import Name, shard_key
from goqueue.transactions.statistics import TransactionStatistics

_RETRY_MS_MIN = 20
_RETRY_MS_MAX = 1000
# An operator speaks for no coordinator.
_NO_COORDINATOR = -1

# Done once the metadata shows all that was committed before the call.
CatchUp = Callable[[], Awaitable[None]]
# (whose transaction, partition, reason): a partition could not be told and will be told again.
OnRetry = Callable[[str, TopicPartition | None, BaseException], None]


class Markers:
    """Ends transactions in their partitions, on behalf of the coordinator's shards."""

    def __init__(
        self,
        coordinator: Coordinator,
        partitions: Partitions,
        end_at: EndAt,
        epoch_of: Callable[[int], int],
        *,
        clock: Clock,
        statistics: TransactionStatistics,
        on_retry: OnRetry | None = None,
        catch_up: CatchUp | None = None,
    ) -> None:
        self._coordinator = coordinator
        self._partitions = partitions
        self._end_at = end_at
        # (shard): the epoch of the term in which this node coordinates it.
        self._epoch_of = epoch_of
        self._clock = clock
        self._statistics = statistics
        self._on_retry = on_retry
        self._catch_up = catch_up
        self._watchers: dict[int, asyncio.Task[None]] = {}
        # By name, the number of its transaction and who ends it: one at a time.
        self._ending: dict[Name, tuple[int, asyncio.Task[None]]] = {}
        self._closed = False

    def watch(self, shards: Iterable[int]) -> None:
        """See to the decisions of these shards from now on, beginning with those that were left over."""
        for shard in shards:
            if shard not in self._watchers and not self._closed:
                self._watchers[shard] = asyncio.get_running_loop().create_task(self._watch(shard))

    def leave(self, shard: int) -> None:
        """Another node coordinates the shard: what is left of its decisions is that node's to carry out."""
        watcher = self._watchers.pop(shard, None)
        if watcher is not None and watcher is not asyncio.current_task():
            watcher.cancel()
        for name, (_, task) in list(self._ending.items()):
            if self._coordinator.partition_for(shard_key(name)) == shard:
                # Told of it again, a later term begins anew.
                del self._ending[name]
                task.cancel()

    @property
    def ending_count(self) -> int:
        """Decided transactions whose partitions do not all know yet."""
        return len(self._ending)

    async def ended(self, name: Name, seconds_max: float) -> None:
        """Wait a while for the end of what is being ended under this name."""
        ending = self._ending.get(name)
        if ending is not None:
            await asyncio.wait([ending[1]], timeout=seconds_max)
        else:
            # It is decided, and its watcher has not been told yet.
            await asyncio.sleep(_RETRY_MS_MIN / 1000)

    def is_ending(self, name: Name) -> bool:
        """Whether markers of such a transaction are being written."""
        return name in self._ending

    async def abort_hanging(self, producer: Producer, place: TopicPartition) -> None:
        """Abort in one partition what no coordinator knows of; done once the marker is durable."""
        if not (await self._partitions.open_leader(*place)).log.producers.has_open_transaction(producer.producer_id):
            raise InvalidTransactionState(f"producer {producer.producer_id} has no transaction in {place}")
        transaction = Transaction(producer.producer_id, producer.epoch)
        await self._end_at(place, transaction, commit=False, coordinator_epoch=_NO_COORDINATOR)

    async def close(self) -> None:
        """Stop where it is; what is left is done after the next start. A second close does no harm."""
        self._closed = True
        tasks = [*self._watchers.values(), *(task for _, task in self._ending.values())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._watchers.clear()
        self._ending.clear()

    async def _watch(self, shard: int) -> None:
        pause = _Pause()
        while True:
            try:
                prepared: tuple[Prepared, ...] = await self._coordinator.submit_to(shard, WatchPrepared())
            except ShuttingDown:
                return
            except NotCoordinator:
                # The watch begins again with the next term, when the shard is loaded.
                if self._watchers.get(shard) is asyncio.current_task():
                    del self._watchers[shard]
                return
            except GoQueueError as error:
                # The shard was dropped; its successor begins with all that is not completed.
                self._report("", None, error)
                await pause.wait()
                continue
            pause = _Pause()
            epoch = self._epoch_of(shard)
            for one in prepared:
                self._begin(one, epoch)

    def _begin(self, prepared: Prepared, epoch: int) -> None:
        name, number = prepared.name, prepared.number
        earlier = self._ending.get(name)
        if earlier is not None and earlier[0] == number:
            # Still at it: the shard was dropped meanwhile, and its successor says it again.
            return
        task = asyncio.get_running_loop().create_task(self._end(prepared, epoch, earlier[1] if earlier else None))
        self._ending[name] = (number, task)
        task.add_done_callback(lambda done: self._forget(name, done))

    def _forget(self, name: Name, done: asyncio.Task[None]) -> None:
        if name in self._ending and self._ending[name][1] is done:
            del self._ending[name]

    async def _end(self, prepared: Prepared, epoch: int, earlier: asyncio.Task[None] | None) -> None:
        decided_ms = self._clock.monotonic_ms()
        if earlier is not None:
            await asyncio.wait([earlier])
        places = sorted(prepared.partitions)
        await asyncio.gather(*(self._end_until_done(prepared, epoch, place) for place in places))
        seconds = (self._clock.monotonic_ms() - decided_ms) / 1000
        self._statistics.ended(commit=prepared.commit, seconds=seconds)
        pause = _Pause()
        while True:
            try:
                await self._coordinator.submit(shard_key(prepared.name), Completed(prepared.name, prepared.number))
            except (ShuttingDown, NotCoordinator):
                return
            except GoQueueError as error:
                self._report(str(prepared.name), None, error)
                await pause.wait()
            else:
                return

    async def _end_until_done(self, prepared: Prepared, epoch: int, place: TopicPartition) -> None:
        transaction = Transaction(prepared.producer.producer_id, prepared.producer.epoch)
        pause = _Pause()
        while True:
            try:
                await self._end_at(place, transaction, commit=prepared.commit, coordinator_epoch=epoch)
            except ProducerFenced:
                # A later epoch has ended it already.
                return
            except NotFound as error:
                if await self._is_gone(prepared, place, error):
                    return
                await pause.wait()
            except (GoQueueError, OSError) as error:
                self._statistics.marker_retries += 1
                self._report(str(prepared.name), place, error)
                await pause.wait()
            else:
                self._statistics.markers_written += 1
                return

    async def _is_gone(self, prepared: Prepared, place: TopicPartition, error: NotFound) -> bool:
        """Whether the topic is gone, and what was open in it; not only missing from metadata that lags behind."""
        if self._catch_up is None:
            return True
        try:
            await self._catch_up()
            self._partitions.topic_at(*place)
        except NotFound:
            return True
        except GoQueueError as failure:
            self._report(str(prepared.name), place, failure)
            return False
        self._report(str(prepared.name), place, error)
        return False

    def _report(self, name: str, place: TopicPartition | None, error: BaseException) -> None:
        if self._on_retry is not None:
            self._on_retry(name, place, error)


class _Pause:
    """Longer each time, up to a second."""

    def __init__(self) -> None:
        self._next_ms = _RETRY_MS_MIN

    async def wait(self) -> None:
        await asyncio.sleep(self._next_ms / 1000)
        self._next_ms = min(self._next_ms * 2, _RETRY_MS_MAX)
