"""A partition whose disk obeys the test: nothing is durable, and nothing fails, until it says so."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from uuid import UUID

import pytest

from goqueue.codec.batch import encode_prefix, parse_batch_header
from goqueue.coordinator.runtime import Coordinator
from goqueue.ports import Buffer
from goqueue.records import Acks, Appended
from goqueue.testing.clock import ManualClock
from goqueue.testing.memory_files import MemoryFiles
from goqueue.testing.register import Register
from goqueue.testing.sim_loop import InlineOffload

TOPIC_ID = UUID(int=9)


@dataclass
class FakeRead:
    batches: list[bytes]
    next_offset: int


@dataclass
class FakeLog:
    topic_id: UUID = TOPIC_ID
    start_offset: int = 0
    leader_epoch: int = 3
    batches: list[tuple[int, bytes]] = field(default_factory=list)
    end_offset: int = 0
    reads: list[int] = field(default_factory=list)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        return (epoch, self.end_offset) if epoch == self.leader_epoch else (-1, -1)

    def read_batches(self, offset: int, *, max_bytes: int, upper: int) -> FakeRead:
        """One batch at a time, so that replay takes many steps."""
        self.reads.append(offset)
        for base, batch in self.batches:
            end = base + parse_batch_header(batch).last_offset_delta + 1
            if offset < end <= upper:
                return FakeRead([batch], end)
        return FakeRead([], offset)


class FakePartition:
    """Both `log` and `writer`. `sync()` makes all that was written durable."""

    def __init__(self) -> None:
        self.log = FakeLog()
        self.synced = 0
        # How far the other replicas have the log; None without others.
        self.replicas_end: int | None = None
        self.append_error: Exception | None = None
        self.reached_error: Exception | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._replica_waiters: list[tuple[int, asyncio.Future[None]]] = []

    @property
    def writer(self) -> FakePartition:
        return self

    def append(self, batch: Buffer, *, now_ms: int, marker: bool = False) -> Appended:
        if self.append_error is not None:
            raise self.append_error
        header = parse_batch_header(batch)
        assert header.is_control == marker
        base = self.log.end_offset
        stored = encode_prefix(base, header.length, self.log.leader_epoch) + bytes(batch[16:])
        self.log.batches.append((base, stored))
        self.log.end_offset = base + header.last_offset_delta + 1
        return Appended(base, self.log.end_offset - 1, 0)

    def reached(self, end_offset: int, acks: Acks) -> Awaitable[None] | None:
        assert acks is Acks.ALL
        if self.reached_error is not None:
            raise self.reached_error
        if end_offset <= self.synced:
            return None
        future = asyncio.get_running_loop().create_future()
        self._waiters.append(future)
        return future

    def replicated(self, end_offset: int) -> Awaitable[None] | None:
        if self.replicas_end is None or end_offset <= self.replicas_end:
            return None
        future = asyncio.get_running_loop().create_future()
        self._replica_waiters.append((end_offset, future))
        return future

    def replicate(self) -> None:
        """The other replicas get all that was written."""
        self.replicas_end = self.log.end_offset
        waiters, self._replica_waiters = self._replica_waiters, []
        for _, future in waiters:
            future.set_result(None)

    def end_term(self, error: Exception) -> None:
        """Whoever waits for the other replicas will never be told."""
        waiters, self._replica_waiters = self._replica_waiters, []
        for _, future in waiters:
            future.set_exception(error)

    def readable(self, end_offset: int) -> Awaitable[None] | None:
        return self.reached(end_offset, Acks.ALL)

    def sync(self) -> None:
        self.synced = self.log.end_offset
        self._settle(lambda future: future.set_result(None))

    def fail_sync(self, error: Exception) -> None:
        self._settle(lambda future: future.set_exception(error))

    def lose_unsynced(self) -> None:
        """What a crash does to the log."""
        self.log.batches = [(base, batch) for base, batch in self.log.batches if base < self.synced]
        self.log.end_offset = self.synced
        self._waiters.clear()

    def _settle(self, settle: Callable[[asyncio.Future[None]], None]) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            settle(waiter)


class Stage:
    """A coordinator of registers over fake partitions; `restart()` is a new process on the same disk."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.files = MemoryFiles()
        self.partitions = [FakePartition() for _ in range(4)]
        self.opened: list[int] = []
        self.failures: list[tuple[int, BaseException]] = []
        self.may_open: asyncio.Event | None = None
        self.machine_factory: Callable[[], Register] = Register
        self.coordinator = self.restart()

    def restart(self, **options: int) -> Coordinator:
        self.coordinator = Coordinator(
            "__registers",
            len(self.partitions),
            self.machine_factory,
            open_partition=self._open,
            files=self.files,
            offload=InlineOffload(),
            clock=self.clock,
            on_failure=lambda partition, reason: self.failures.append((partition, reason)),
            **options,
        )
        return self.coordinator

    def partition_of(self, key: str) -> FakePartition:
        return self.partitions[self.coordinator.partition_for(key)]

    async def settle(self) -> None:
        """Let everything run that can run without time passing."""
        for _ in range(50):
            await asyncio.sleep(0)

    async def _open(self, partition: int) -> FakePartition:
        self.opened.append(partition)
        if self.may_open is not None:
            await self.may_open.wait()
        return self.partitions[partition]


@pytest.fixture
def stage() -> Stage:
    return Stage()
