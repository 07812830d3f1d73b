"""ShardRunner: the life of one shard, from its replay to its drop or close.

LOADING -> RUNNING -> STOPPED. Commands that come while it loads wait and then run in the order
in which they came. A command costs no task: its caller gets a future, and one wait for the disk
serves all whose replies are held. Whatever goes wrong stops the runner; its successor replays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from goqueue.clock import Clock
from goqueue.coordinator.journal import OpenPartition, PartitionJournal, ReadableLog, ShardWriter, read_entries
from goqueue.coordinator.shard import Machine, Reply, Shard, Transaction
from goqueue.coordinator.snapshots import Snapshot, Snapshots
from goqueue.coordinator.timers import Alarm
from goqueue.errors import CoordinatorUnavailable, GoQueueError, InvalidRequest, ShuttingDown, TooBusy
from goqueue.ports import Offload
from goqueue.records import Acks

# Called on the loop with a shard that is running.
Work = Callable[[Shard, int], Sequence[Reply]]


@dataclass(frozen=True, slots=True)
class Foundation:
    """What all shards of a coordinator stand on."""

    topic: str
    machine_factory: Callable[[], Machine]
    open_partition: OpenPartition
    snapshots: Snapshots
    offload: Offload
    clock: Clock
    tickets_max: int
    snapshot_offsets: int


class ShardRunner:
    """One shard at work. `on_stop` is told once, with the reason, unless it was closed."""

    def __init__(
        self, partition: int, foundation: Foundation, on_stop: Callable[[ShardRunner, BaseException], None]
    ) -> None:
        self.partition = partition
        self.is_loaded = False
        self._foundation = foundation
        self._on_stop = on_stop
        self._shard: Shard | None = None
        self._tickets: dict[int, asyncio.Future[Any]] = {}
        self._next_ticket = 0
        self._waiting: list[tuple[int, Work]] = []
        self._stopped = False
        self._durability: asyncio.Future[None] | None = None
        self._snapshot_offset = 0
        self._snapshot_task: asyncio.Task[None] | None = None
        self._alarm = Alarm(foundation.clock, self._tick)
        self._loading = asyncio.get_running_loop().create_task(self._load())

    def submit(self, command: Any) -> asyncio.Future[Any]:
        """Run a command; the future has its reply once all that it rests on is durable."""
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
        self._end()
        self._on_stop(self, reason)
        for ticket, future in self._drain_tickets():
            if future.done():
                continue
            if ticket == culprit and (isinstance(reason, InvalidRequest) or not isinstance(reason, GoQueueError)):
                future.set_exception(reason)
                continue
            error = CoordinatorUnavailable(f"shard {self.partition} of {self._foundation.topic} was dropped: {reason}")
            error.__cause__ = reason
            future.set_exception(error)

    async def close(self) -> None:
        """Let held replies out, leave a snapshot, refuse the rest. A second close does no harm."""
        while (durability := self._durability) is not None:
            await asyncio.wait([durability])
        if self._snapshot_task is not None:
            await asyncio.wait([self._snapshot_task])
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
            partition = await self._foundation.open_partition(self.partition)
            self._log, self._writer = partition.log, partition.writer
            shard = await self._replayed(self._log, self._writer)
        except Exception as error:  # noqa: BLE001 - every failure to load has the same consequence
            self.stop(error)
            return
        if self._stopped:
            return
        self._shard = shard
        self.is_loaded = True
        waiting, self._waiting = self._waiting, []
        self._set_alarm(shard)
        for ticket, work in waiting:
            if not self._stopped:
                self._run(ticket, work)

    async def _replayed(self, log: ReadableLog, writer: ShardWriter) -> Shard:
        end_offset = log.end_offset
        # What an earlier shard wrote may not be durable yet; replies from here on rest on it.
        # It also means that a log that can promise nothing any more fails before it is read.
        unsafe = writer.reached(end_offset, Acks.ALL)
        if unsafe is not None:
            await unsafe
        journal = PartitionJournal(writer)
        machine, offset = await self._restored(log)
        shard = Shard(machine, journal, end_offset=offset)
        offset = max(offset, log.start_offset)
        while offset < end_offset:
            entries, offset = await self._foundation.offload(
                lambda offset=offset: read_entries(log, offset, end_offset)  # type: ignore[misc]
            )
            for entry in entries:
                shard.take(entry)
        shard.written_end = end_offset
        shard.durable_to(end_offset)
        return shard

    async def _restored(self, log: ReadableLog) -> tuple[Machine, int]:
        snapshots, offload = self._foundation.snapshots, self._foundation.offload
        machine = self._foundation.machine_factory()
        if log.end_offset == 0:
            return machine, 0
        snapshot = await offload(lambda: snapshots.load(self.partition, log))
        if snapshot is None:
            return machine, 0
        try:
            machine.restore(snapshot.data)
        except Exception:  # noqa: BLE001 - a snapshot is only ever a shortcut
            await offload(lambda: snapshots.discard(self.partition))
            return self._foundation.machine_factory(), 0
        self._snapshot_offset = snapshot.offset
        return machine, snapshot.offset

    # --- running ----------------------------------------------------------------------------

    def _open_ticket(self) -> tuple[int, asyncio.Future[Any]]:
        if len(self._tickets) >= self._foundation.tickets_max:
            raise TooBusy(f"shard {self.partition} of {self._foundation.topic} has too many requests outstanding")
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
        if shard.holds_replies and self._durability is None:
            self._await_durability(shard)

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

    # --- durability -------------------------------------------------------------------------

    def _await_durability(self, shard: Shard) -> None:
        end_offset = shard.written_end
        try:
            unsafe = self._writer.reached(end_offset, Acks.ALL)
        except Exception as error:  # noqa: BLE001 - no promise can be kept any more
            self.stop(error)
            return
        if unsafe is None:
            self._deliver(shard.durable_to(end_offset))
            return
        self._durability = asyncio.ensure_future(unsafe)
        self._durability.add_done_callback(lambda done: self._on_durable(shard, end_offset, done))

    def _on_durable(self, shard: Shard, end_offset: int, done: asyncio.Future[None]) -> None:
        self._durability = None
        error = CoordinatorUnavailable("the wait for the disk was cancelled") if done.cancelled() else done.exception()
        if self._stopped:
            return
        if error is not None:
            self.stop(error)
            return
        self._deliver(shard.durable_to(end_offset))
        if shard.holds_replies:
            self._await_durability(shard)
        elif self._snapshot_task is None and shard.durable_end - self._snapshot_offset >= (
            self._foundation.snapshot_offsets
        ):
            self._snapshot_task = asyncio.get_running_loop().create_task(self._save_snapshot(shard))

    # --- snapshots and the end --------------------------------------------------------------

    async def _save_last_snapshot(self) -> None:
        shard = self._shard
        if shard is None or shard.written_end == self._snapshot_offset:
            return
        try:
            unsafe = self._writer.reached(shard.written_end, Acks.ALL)
            if unsafe is not None:
                await unsafe
        except GoQueueError:
            return
        shard.durable_to(shard.written_end)
        await self._save_snapshot(shard)

    async def _save_snapshot(self, shard: Shard) -> None:
        # Only what the log cannot forget: a record may have been written since the wait ended.
        data = shard.snapshot() if shard.written_end == shard.durable_end else b""
        if not data:
            self._snapshot_task = None
            return
        snapshot = Snapshot(self._log.topic_id, self._log.leader_epoch, shard.durable_end, data)
        self._snapshot_offset = snapshot.offset
        try:
            await self._foundation.offload(lambda: self._foundation.snapshots.save(self.partition, snapshot))
        except OSError:
            # Without it the next replay is longer, nothing else.
            pass
        finally:
            self._snapshot_task = None

    def _end(self) -> None:
        self._stopped = True
        self._alarm.cancel()
        self._waiting.clear()

    def _drain_tickets(self) -> list[tuple[int, asyncio.Future[Any]]]:
        tickets, self._tickets = self._tickets, {}
        return list(tickets.items())
