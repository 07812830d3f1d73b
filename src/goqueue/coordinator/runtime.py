"""Coordinator: a topic whose partitions are shards, loaded when first used, dropped and reloaded when in doubt.

Everything that keeps state in an internal topic runs on this: give it a machine and submit
commands by key. It routes; `ShardRunner` works.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import mmh3

from goqueue.clock import Clock
from goqueue.coordinator.journal import OpenPartition
from goqueue.coordinator.loading import Foundation, OnLoaded
from goqueue.coordinator.reloads import Reloads
from goqueue.coordinator.runner import ShardRunner
from goqueue.coordinator.shard import Machine, Transaction
from goqueue.coordinator.snapshots import Snapshots
from goqueue.errors import CoordinatorUnavailable, GoQueueError, NotCoordinator, NotLeader, ShuttingDown
from goqueue.ports import Files, Offload

# A shard that cannot be loaded is not tried again for every request that comes.
_LOAD_PAUSE_MS = 1000

# (partition): why this node does not coordinate the shard; None if it does.
Refusal = Callable[[int], GoQueueError | None]
# (partition, reason): a shard was dropped; for the log and the metrics of the node.
OnFailure = Callable[[int, BaseException], None]


class Coordinator:
    """Routes commands to shards by key. `partitions` must never change for a topic that exists."""

    def __init__(
        self,
        topic: str,
        partitions: int,
        machine_factory: Callable[[], Machine],
        *,
        open_partition: OpenPartition,
        files: Files,
        offload: Offload,
        clock: Clock,
        tickets_max: int = 100_000,
        snapshot_offsets: int = 50_000,
        on_failure: OnFailure | None = None,
        on_loaded: OnLoaded | None = None,
        refusal: Refusal | None = None,
    ) -> None:
        self.topic = topic
        self.partitions = partitions
        self._foundation = Foundation(
            topic=topic,
            machine_factory=machine_factory,
            open_partition=open_partition,
            snapshots=Snapshots(files, topic),
            offload=offload,
            clock=clock,
            tickets_max=tickets_max,
            snapshot_offsets=snapshot_offsets,
            on_loaded=on_loaded,
        )
        self._on_failure = on_failure
        self._refusal = refusal
        self._runners: dict[int, ShardRunner] = {}
        # Until when, and why, a shard is not loaded again.
        self._paused: dict[int, tuple[int, BaseException]] = {}
        self._reloads = Reloads(clock, self._reload)
        self._closed = False

    def partition_for(self, key: str) -> int:
        """The shard of a key: the same on every node and in every version."""
        return int(mmh3.hash(key.encode(), signed=False)) % self.partitions

    def submit(self, key: str, command: Any) -> asyncio.Future[Any]:
        """Run a command on its key's shard; awaiting the result gives the reply or raises its error."""
        return self.submit_to(self.partition_for(key), command)

    def submit_to(self, partition: int, command: Any) -> asyncio.Future[Any]:
        """Run a command on one shard."""
        try:
            return self._runner(partition).submit(command)
        except GoQueueError as refusal:
            return _failed(refusal)

    async def submit_all(self, command: Any) -> list[Any]:
        """Run a command on every shard; the replies in the order of the shards, or the first error."""
        futures = [self.submit_to(partition, command) for partition in range(self.partitions)]
        return await asyncio.gather(*futures)

    def end_transaction(
        self, partition: int, transaction: Transaction, *, commit: bool, coordinator_epoch: int
    ) -> asyncio.Future[None]:
        """Write a transaction's marker to one shard's log; its records count from then on, or never."""
        try:
            runner = self._runner(partition)
            return runner.end_transaction(transaction, commit=commit, coordinator_epoch=coordinator_epoch)
        except GoQueueError as refusal:
            return _failed(refusal)

    def lead(self, partition: int) -> None:
        """A term of this node begins in the shard's partition: the shard is loaded, anew if it was there before."""
        self.drop(partition, NotLeader(f"a new term begins in shard {partition} of {self.topic}"))
        self._paused.pop(partition, None)
        if not self._closed:
            self._runner(partition)

    def drop(self, partition: int, reason: GoQueueError) -> None:
        """Forget a shard, as when this node no longer leads it: outstanding requests fail, the next replays.

        A shard that is still loading stops at once: its successor may be at it already.
        """
        runner = self._runners.get(partition)
        if runner is not None:
            runner.stop(reason)
        self._reloads.cancel(partition)

    def loaded(self) -> list[int]:
        """The shards in memory."""
        return sorted(partition for partition, runner in self._runners.items() if runner.is_loaded)

    async def close(self) -> None:
        """Let held replies out, leave snapshots behind, refuse what comes. A second close does no harm."""
        self._closed = True
        self._reloads.close()
        await asyncio.gather(*(runner.close() for runner in self._runners.values()))
        self._runners.clear()

    def _runner(self, partition: int) -> ShardRunner:
        runner = self._runners.get(partition)
        if runner is None:
            if self._closed:
                raise ShuttingDown("the node is stopping")
            if self._refusal is not None and (refusal := self._refusal(partition)) is not None:
                raise refusal
            self._check_pause(partition)
            self._reloads.cancel(partition)
            runner = self._runners[partition] = ShardRunner(partition, self._foundation, self._on_stop)
        elif self._closed:
            raise ShuttingDown("the node is stopping")
        return runner

    def _check_pause(self, partition: int) -> None:
        paused = self._paused.pop(partition, None)
        if paused is None:
            return
        until_ms, reason = paused
        if self._foundation.clock.monotonic_ms() < until_ms:
            self._paused[partition] = paused
            error = CoordinatorUnavailable(f"shard {partition} of {self.topic} could not be loaded: {reason}")
            raise error from reason

    def _on_stop(self, runner: ShardRunner, reason: BaseException) -> None:
        self._runners.pop(runner.partition, None)
        if not runner.is_loaded:
            self._paused[runner.partition] = (self._foundation.clock.monotonic_ms() + _LOAD_PAUSE_MS, reason)
        if not self._closed:
            self._reloads.dropped(runner.partition, reason)
        if self._on_failure is not None:
            self._on_failure(runner.partition, reason)

    def _reload(self, partition: int) -> None:
        self._paused.pop(partition, None)
        if not self._closed:
            with suppress(NotCoordinator):
                self._runner(partition)


def _failed(error: GoQueueError) -> asyncio.Future[Any]:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    future.set_exception(error)
    return future
