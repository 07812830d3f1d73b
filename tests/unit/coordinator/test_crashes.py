"""A coordinator on a real log, with the power cut at every step of the disk, snapshots included."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from uuid import UUID

from goqueue.broker.reading.waiters import Waiters
from goqueue.broker.replicas.local_writer import LocalWriter
from goqueue.config import DurabilityConfig
from goqueue.coordinator.runtime import Coordinator
from goqueue.log.partition_log import PartitionLog
from goqueue.log.settings import LogSettings
from goqueue.node.disk.flusher import Flusher
from goqueue.testing.clock import ManualClock, seeded_rng
from goqueue.testing.faults import Crash
from goqueue.testing.memory_files import MemoryFiles
from goqueue.testing.register import Put, ReadAll, Register
from goqueue.testing.sim_loop import DelayedOffload, Stuck, run

KEYS = ("a", "b", "c")
SETTINGS = LogSettings(segment_bytes=500)


@dataclass
class OpenPartition:
    log: PartitionLog
    writer: LocalWriter


@dataclass
class Client:
    """What one client wrote to its key, and how much of it was acknowledged."""

    written: list[int] = field(default_factory=list)
    acknowledged: int = 0

    def may_be(self) -> set[int | None]:
        sure = self.written[max(self.acknowledged - 1, 0) :]
        return set(sure) if self.acknowledged else {None, *sure}


class Machine:
    """One machine: a disk, and a process that runs a coordinator until the power goes."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.clock = ManualClock()
        self.files = MemoryFiles(seed=seed)
        self.clients: dict[str, Client] = defaultdict(Client)

    async def work(self) -> None:
        coordinator, logs = self.start()
        numbers = [number for shard in await coordinator.submit_all(ReadAll()) for number in shard.items()]
        stored: dict[str, int] = dict(numbers)
        for key in KEYS:
            client = self.clients[key]
            assert stored.get(key) in client.may_be(), f"{key} is {stored.get(key)}, not one of {client.may_be()}"
            client.written = [stored[key]] if key in stored else []
            client.acknowledged = len(client.written)
        await asyncio.gather(*(self.write(coordinator, key) for key in KEYS))
        await coordinator.close()
        for opened in logs.values():
            opened.log.close()

    async def write(self, coordinator: Coordinator, key: str) -> None:
        client = self.clients[key]
        rng = seeded_rng(self.seed, key)
        for number in range(6):
            client.written.append(number)
            await coordinator.submit(key, Put(key, number))
            client.acknowledged = len(client.written)
            await asyncio.sleep(rng.random() * 0.01)

    def start(self) -> tuple[Coordinator, dict[int, OpenPartition]]:
        offload = DelayedOffload(seeded_rng(self.seed, "offload"))
        flusher = Flusher(self.files, offload, DurabilityConfig(flush_interval_ms=20))
        logs: dict[int, OpenPartition] = {}

        async def open_partition(partition: int) -> OpenPartition:
            if partition not in logs:
                log = PartitionLog.open(
                    self.files,
                    f"logs/__registers/{partition}",
                    settings=SETTINGS,
                    topic_id=UUID(int=5),
                    now_ms=self.clock.now_ms(),
                )
                log.high_watermark = log.end_offset
                logs[partition] = OpenPartition(log, LocalWriter(log, flusher, Waiters(), leader_epoch=0))
            return logs[partition]

        coordinator = Coordinator(
            "__registers",
            2,
            Register,
            open_partition=open_partition,
            files=self.files,
            offload=offload,
            clock=self.clock,
            snapshot_offsets=3,
        )
        return coordinator, logs

    def live(self, crash_at_step: int | None = None) -> bool:
        """Work until the end, or until the power goes."""
        faults = self.files.faults
        faults.crash_at_step = None if crash_at_step is None else faults.steps + crash_at_step
        try:
            run(self.work(), clock=self.clock)
        except (Crash, Stuck):
            assert self.files.is_down
            self.files = self.files.crash()
            return False
        return True


def test_a_power_cut_at_any_step_leaves_exactly_what_was_acknowledged() -> None:
    whole = Machine(seed=1)
    assert whole.live()
    steps = whole.files.faults.steps
    assert steps > 100
    for step in range(1, steps, 3):
        machine = Machine(seed=step)
        machine.live(crash_at_step=step)
        assert machine.live(), f"step {step}"
        assert machine.live(), f"step {step}"


def test_crash_after_crash_leaves_exactly_what_was_acknowledged() -> None:
    for seed in range(15):
        machine, rng = Machine(seed), seeded_rng(seed, "steps")
        for _ in range(6):
            machine.live(crash_at_step=rng.randrange(1, 120))
        assert machine.live(), f"seed {seed}"
