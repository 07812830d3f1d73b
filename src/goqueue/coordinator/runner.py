"""ShardRunner: the life of one shard, from its replay to its drop or close.

LOADING -> RUNNING -> STOPPED. Commands that come while it loads wait and then run in the order
in which they came. A command costs no task: its caller gets a future, and one wait for the disk, and
one for the replicas, serve all whose replies are held. Whatever goes wrong stops the runner; its successor replays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Generic

from goqueue.coordinator.loading import Foundation, ShardId, load_shard
from goqueue.coordinator.log_wait import LogWait
from goqueue.coordinator.shard import Reply, Shard, Transaction
from goqueue.coordinator.snapshots import Snapshot
from goqueue.coordinator.timers import Alarm
from goqueue.errors import (
    CoordinatorUnavailable,
    GoQueueError,
    InvalidRequest,
    NotLeader,
    ShuttingDown,
    TooBusy,
)
from goqueue.records import Acks

# Called on the loop with a shard that is running.
Work = Callable[[Shard, int], Sequence[Reply]]


class ShardRunner(Generic[ShardId]):
    """One shard at work. `on_stop` is told once, with the reason, unless it was closed."""

    def __init__(
        self,
        shard_id: ShardId,
        foundation: Foundation[ShardId],
        on_stop: Callable[[ShardRunner[ShardId], BaseException], None],
    ) -> None:
        self.shard_id = shard_id
        self.is_loaded = False
        self._foundation = foundation
        self._on_stop = on_stop
        self._shard: Shard | None = None
        self._tickets: dict[int, asyncio.Future[Any]] = {}
        self._next_ticket = 0
        self._waiting: list[tuple[int, Work]] = []
        self._stopped = False
        self._snapshot_offset = 0
        self._taken: Snapshot | None = None
        self._saving: asyncio.Task[None] | None = None
        self._alarm = Alarm(foundation.clock, self._tick)
        self._loading = asyncio.get_running_loop().create_task(self._load())

    def submit(self, command: Any) -> asyncio.Future[Any]:
        """Run a command; the future has its reply once all that it rests on is as safe as the machine asks."""
        ticket, future = self._open_ticket()
        clock = self._foundation.clock
        self._run(ticket, lambda shard, ticket: shard.submit(ticket, command, clock.now_ms()))
        return future

    def end_transaction(
        self, transaction: Transaction, *, commit: bool, coordinator_epoch: int
    ) -> asyncio.Future[None]:
        """Write a transaction's marker; done once it is durable and its records count, or do not."""
        ticket, future = self._open_ticket()
        clock = self._foundation.clock
        self._run(
            ticket,
            lambda shard, ticket: shard.end_transaction(
                ticket, transaction, commit=commit, coordinator_epoch=coordinator_epoch, now_ms=clock.now_ms()
            ),
        )
        return future

    def stop(self, reason: BaseException, *, culprit: int | None = None) -> None:
        """Drop the shard: all that is outstanding fails, the next use replays.

        The ticket whose request was at fault (`culprit`) is told so; the others can only try again.
        """
        if self._stopped:
            return
        not_run = {ticket for ticket, _ in self._waiting}
        self._end()
        self._on_stop(self, reason)
        for ticket, future in self._drain_tickets():
            if future.done():
                continue
            if ticket == culprit and (isinstance(reason, InvalidRequest) or not isinstance(reason, GoQueueError)):
                future.set_exception(reason)
                continue
            message = f"shard {self.shard_id} of {self._foundation.name} was dropped: {reason}"
            error = (
                self._foundation.not_here(message, leader=reason.leader)
                if isinstance(reason, NotLeader)
                else CoordinatorUnavailable(message)
            )
            error.__cause__ = reason
            # Its records were written, and whoever loads the log next may find them there.
            error.may_be_done = ticket not in not_run and ticket != culprit
            future.set_exception(error)

    async def close(self) -> None:
        """Let held replies out, leave a snapshot, refuse the rest. A second close does no harm."""
        if self.is_loaded:
            for wait in (self._replication, self._sync):
                while wait.under_way is not None:
                    await asyncio.wait([wait.under_way])
        if self._saving is not None:
            await asyncio.wait([self._saving])
        if not self._loading.done():
            self._loading.cancel()
            await asyncio.wait([self._loading])
        if self._stopped:
            return
        self._end()
        for _, future in self._drain_tickets():
            if not future.done():
                future.set_exception(ShuttingDown("the node is stopping"))
        await self._save_last_snapshot()

    # --- loading ----------------------------------------------------------------------------

    async def _load(self) -> None:
        try:
            partition = await self._foundation.open_partition(self.shard_id)
            self._log, self._writer = partition.log, partition.writer
            self._replication = LogWait(self._writer.replicated, self._replicated, self.stop)
            self._sync = LogWait(lambda end: partition.writer.reached(end, Acks.ALL), self._synced, self.stop)
            shard, self._snapshot_offset = await load_shard(self._foundation, self.shard_id, partition)
        except Exception as error:  # noqa: BLE001 - every failure to load has the same consequence
            self.stop(error)
            return
        if self._stopped:
            return
        self._shard = shard
        self.is_loaded = True
        if self._foundation.on_loaded is not None:
            self._foundation.on_loaded(self.shard_id, shard.machine)
        waiting, self._waiting = self._waiting, []
        self._set_alarm(shard)
        for ticket, work in waiting:
            if not self._stopped:
                self._run(ticket, work)

    # --- running ----------------------------------------------------------------------------

    def _open_ticket(self) -> tuple[int, asyncio.Future[Any]]:
        if len(self._tickets) >= self._foundation.tickets_max:
            raise TooBusy(f"shard {self.shard_id} of {self._foundation.name} has too many requests outstanding")
        ticket = self._next_ticket
        self._next_ticket += 1
        future = self._tickets[ticket] = asyncio.get_running_loop().create_future()
        return ticket, future

    def _run(self, ticket: int, work: Work) -> None:
        shard = self._shard
        if shard is None:
            self._waiting.append((ticket, work))
            return
        try:
            replies = work(shard, ticket)
        except Exception as error:  # noqa: BLE001 - memory and log may disagree now, whatever it was
            self.stop(error, culprit=ticket)
            return
        self._after_step(shard, replies)

    def _tick(self) -> None:
        shard = self._shard
        if shard is None or self._stopped:
            return
        try:
            replies = shard.tick(self._foundation.clock.now_ms())
        except Exception as error:  # noqa: BLE001 - as for commands
            self.stop(error)
            return
        self._after_step(shard, replies)

    def _after_step(self, shard: Shard, replies: Sequence[Reply]) -> None:
        self._deliver(replies)
        self._set_alarm(shard)
        if shard.written_end - self._snapshot_offset >= self._foundation.snapshot_offsets:
            self._take_snapshot(shard)
        if shard.holds_for_replicas:
            self._replication.begin(shard.written_end)
        if shard.holds_replies or self._taken is not None:
            self._sync.begin(shard.written_end)

    def _set_alarm(self, shard: Shard) -> None:
        self._alarm.set(shard.machine.wake_at_ms())

    def _deliver(self, replies: Sequence[Reply]) -> None:
        for ticket, reply in replies:
            future = self._tickets.pop(ticket, None)
            # Whoever asked may have gone away meanwhile.
            if future is None or future.done():
                continue
            if isinstance(reply, GoQueueError):
                future.set_exception(reply)
            else:
                future.set_result(reply)

    # --- safety -----------------------------------------------------------------------------

    def _synced(self, end_offset: int) -> None:
        shard = self._shard
        if shard is None or self._stopped:
            return
        self._deliver(shard.durable_to(end_offset))
        if self._taken is not None and self._taken.offset <= end_offset:
            self._saving = asyncio.get_running_loop().create_task(self._save(self._taken))
            self._taken = None
        if shard.holds_replies:
            self._sync.begin(shard.written_end)

    def _replicated(self, end_offset: int) -> None:
        shard = self._shard
        if shard is None or self._stopped:
            return
        self._deliver(shard.replicated_to(end_offset))
        if shard.holds_for_replicas:
            self._replication.begin(shard.written_end)

    # --- snapshots and the end --------------------------------------------------------------

    def _take_snapshot(self, shard: Shard) -> None:
        """Remember the state as of now; it is saved once the log cannot forget it any more."""
        if self._taken is None and self._saving is None:
            self._snapshot_offset = shard.written_end
            self._taken = self._snapshot_of(shard)

    def _snapshot_of(self, shard: Shard) -> Snapshot | None:
        data = shard.snapshot()
        return Snapshot(self._log.topic_id, self._log.leader_epoch, shard.written_end, data) if data else None

    async def _save_last_snapshot(self) -> None:
        shard = self._shard
        if shard is None or shard.written_end - self._snapshot_offset < self._foundation.closing_offsets:
            return
        try:
            unsafe = self._writer.reached(shard.written_end, Acks.ALL)
            if unsafe is not None:
                await unsafe
        except GoQueueError:
            return
        snapshot = self._snapshot_of(shard)
        if snapshot is not None:
            await self._save(snapshot)

    async def _save(self, snapshot: Snapshot) -> None:
        try:
            await self._foundation.offload(lambda: self._foundation.snapshots.save(self.shard_id, snapshot))
        except OSError:
            # Without it the next replay is longer, nothing else.
            pass
        finally:
            self._saving = None

    def _end(self) -> None:
        self._stopped = True
        self._alarm.cancel()
        self._waiting.clear()
        if not self._loading.done() and self._loading is not asyncio.current_task():
            # A successor may load already: what this one would still take in could overwrite the tables of that.
            self._loading.cancel()

    def _drain_tickets(self) -> list[tuple[int, asyncio.Future[Any]]]:
        tickets, self._tickets = self._tickets, {}
        return list(tickets.items())
