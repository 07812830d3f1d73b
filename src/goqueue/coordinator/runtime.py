"""Shards: logs with a machine each, loaded when first used, dropped and reloaded when in doubt.

Everything that keeps its state in a log runs on this: give it a machine and submit commands. A shard is named by
whatever names its log. `Coordinator` is the kind whose shards are the partitions of an internal topic, found by key;
the delivery logs of partitions are shards that are named by their partition. They route; `ShardRunner` works.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic

import mmh3

from goqueue.clock import Clock
from goqueue.coordinator.journal import OpenPartition
from goqueue.coordinator.loading import Foundation, NotHere, OnLoaded, ShardId
from goqueue.coordinator.reloads import Reloads
from goqueue.coordinator.runner import ShardRunner
from goqueue.coordinator.shard import Machine, Transaction
from goqueue.coordinator.snapshots import Snapshots
from goqueue.errors import CoordinatorUnavailable, GoQueueError, NotCoordinator, NotFound, NotLeader, ShuttingDown
from goqueue.ports import Files, Offload

# A shard that cannot be loaded is not tried again for every request that comes.
_LOAD_PAUSE_MS = 1000

# (shard): why this node does not have the shard; None if it does.
Refusal = Callable[[ShardId], GoQueueError | None]
# (shard, reason): a shard was dropped; for the log and the metrics of the node.
OnFailure = Callable[[ShardId, BaseException], None]


class Shards(Generic[ShardId]):
    """Routes commands to the shards of one kind. `name` says which, in messages and for snapshots."""

    def __init__(
        self,
        name: str,
        machine_factory: Callable[[], Machine],
        *,
        open_partition: OpenPartition[ShardId],
        files: Files,
        offload: Offload,
        clock: Clock,
        tickets_max: int = 100_000,
        snapshot_offsets: int = 50_000,
        closing_offsets: int = 1,
        on_failure: OnFailure[ShardId] | None = None,
        on_loaded: OnLoaded[ShardId] | None = None,
        refusal: Refusal[ShardId] | None = None,
        not_here: NotHere = NotCoordinator,
    ) -> None:
        self.name = name
        self.snapshots: Snapshots[ShardId] = Snapshots(files, name)
        self._foundation = Foundation(
            name=name,
            machine_factory=machine_factory,
            open_partition=open_partition,
            snapshots=self.snapshots,
            offload=offload,
            clock=clock,
            tickets_max=tickets_max,
            snapshot_offsets=snapshot_offsets,
            closing_offsets=closing_offsets,
            on_loaded=on_loaded,
            not_here=not_here,
        )
        self._on_failure = on_failure
        self._refusal = refusal
        self._runners: dict[ShardId, ShardRunner[ShardId]] = {}
        # Until when, and why, a shard is not loaded again.
        self._paused: dict[ShardId, tuple[int, BaseException]] = {}
        self._reloads: Reloads[ShardId] = Reloads(clock, self._reload)
        self._closed = False

    def submit_to(self, shard: ShardId, command: Any) -> asyncio.Future[Any]:
        """Run a command on one shard; awaiting the result gives the reply or raises its error."""
        try:
            return self._runner(shard).submit(command)
        except GoQueueError as refusal:
            return _failed(refusal)

    def end_transaction(
        self, shard: ShardId, transaction: Transaction, *, commit: bool, coordinator_epoch: int
    ) -> asyncio.Future[None]:
        """Write a transaction's marker to one shard's log; its records count from then on, or never."""
        try:
            runner = self._runner(shard)
            return runner.end_transaction(transaction, commit=commit, coordinator_epoch=coordinator_epoch)
        except GoQueueError as refusal:
            return _failed(refusal)

    def lead(self, shard: ShardId) -> None:
        """A term of this node begins in the shard's log: the shard is loaded, anew if it was there before."""
        self.drop(shard, NotLeader(f"a new term begins in shard {shard} of {self.name}"))
        self._paused.pop(shard, None)
        if not self._closed:
            self._runner(shard)

    def drop(self, shard: ShardId, reason: GoQueueError) -> None:
        """Forget a shard, as when this node no longer leads it: outstanding requests fail, the next replays.

        A shard that is still loading stops at once: its successor may be at it already.
        """
        runner = self._runners.get(shard)
        if runner is not None:
            runner.stop(reason)
        self._reloads.cancel(shard)

    def forget(self, shard: ShardId, reason: GoQueueError) -> None:
        """The shard's log is deleted: nothing of it is kept."""
        self.drop(shard, reason)
        self._paused.pop(shard, None)
        self._reloads.forget(shard)

    def loaded(self) -> list[ShardId]:
        """The shards in memory."""
        return [shard for shard, runner in self._runners.items() if runner.is_loaded]

    def known(self) -> list[ShardId]:
        """The shards in memory, on their way there, or about to be loaded again."""
        return list({*self._runners, *self._paused})

    def is_loaded(self, shard: ShardId) -> bool:
        """Whether the shard is in memory."""
        runner = self._runners.get(shard)
        return runner is not None and runner.is_loaded

    async def close(self) -> None:
        """Let held replies out, leave snapshots behind, refuse what comes. A second close does no harm."""
        self._closed = True
        self._reloads.close()
        await asyncio.gather(*(runner.close() for runner in self._runners.values()))
        self._runners.clear()

    def _runner(self, shard: ShardId) -> ShardRunner[ShardId]:
        runner = self._runners.get(shard)
        if runner is None:
            if self._closed:
                raise ShuttingDown("the node is stopping")
            if self._refusal is not None and (refusal := self._refusal(shard)) is not None:
                raise refusal
            self._check_pause(shard)
            self._reloads.cancel(shard)
            runner = self._runners[shard] = ShardRunner(shard, self._foundation, self._on_stop)
        elif self._closed:
            raise ShuttingDown("the node is stopping")
        return runner

    def _check_pause(self, shard: ShardId) -> None:
        paused = self._paused.pop(shard, None)
        if paused is None:
            return
        until_ms, reason = paused
        if self._foundation.clock.monotonic_ms() < until_ms:
            self._paused[shard] = paused
            error = CoordinatorUnavailable(f"shard {shard} of {self.name} could not be loaded: {reason}")
            raise error from reason

    def _on_stop(self, runner: ShardRunner[ShardId], reason: BaseException) -> None:
        self._runners.pop(runner.shard_id, None)
        if not runner.is_loaded:
            self._paused[runner.shard_id] = (self._foundation.clock.monotonic_ms() + _LOAD_PAUSE_MS, reason)
        if not self._closed:
            self._reloads.dropped(runner.shard_id, reason)
        if self._on_failure is not None:
            self._on_failure(runner.shard_id, reason)

    def _reload(self, shard: ShardId) -> None:
        self._paused.pop(shard, None)
        if not self._closed:
            with suppress(NotCoordinator, NotLeader, NotFound):
                self._runner(shard)


class Coordinator(Shards[int]):
    """The shards of an internal topic, by key. `partitions` must never change for a topic that exists."""

    def __init__(
        self,
        topic: str,
        partitions: int,
        machine_factory: Callable[[], Machine],
        *,
        open_partition: OpenPartition[int],
        files: Files,
        offload: Offload,
        clock: Clock,
        tickets_max: int = 100_000,
        snapshot_offsets: int = 50_000,
        on_failure: OnFailure[int] | None = None,
        on_loaded: OnLoaded[int] | None = None,
        refusal: Refusal[int] | None = None,
    ) -> None:
        super().__init__(
            topic,
            machine_factory,
            open_partition=open_partition,
            files=files,
            offload=offload,
            clock=clock,
            tickets_max=tickets_max,
            snapshot_offsets=snapshot_offsets,
            on_failure=on_failure,
            on_loaded=on_loaded,
            refusal=refusal,
        )
        self.topic = topic
        self.partitions = partitions

    def partition_for(self, key: str) -> int:
        """The shard of a key: the same on every node and in every version."""
        return int(mmh3.hash(key.encode(), signed=False)) % self.partitions

    def submit(self, key: str, command: Any) -> asyncio.Future[Any]:
        """Run a command on its key's shard."""
        return self.submit_to(self.partition_for(key), command)

    async def load_all(self, command: Any) -> None:
        """Have every shard that this node coordinates in memory, by running a command on those that are not."""
        mine = (one for one in range(self.partitions) if self._refusal is None or self._refusal(one) is None)
        await asyncio.gather(*(self.submit_to(shard, command) for shard in mine if not self.is_loaded(shard)))

    def check_here(self, key: Any) -> None:
        """Refuse a key whose shard another node coordinates."""
        refusal = None if self._refusal is None else self._refusal(self.partition_for(key))
        if refusal is not None:
            raise refusal

    async def submit_all(self, command: Any) -> list[Any]:
        """Run a command on every shard that this node coordinates; the replies in their order, or the first error."""
        mine = (one for one in range(self.partitions) if self._refusal is None or self._refusal(one) is None)
        return await asyncio.gather(*(self.submit_to(shard, command) for shard in mine))


def _failed(error: GoQueueError) -> asyncio.Future[Any]:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    future.set_exception(error)
    return future
