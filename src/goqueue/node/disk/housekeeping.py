"""What a node does unasked: delete what is too old, compact, and note how far each log is safe.

One partition after the other, with a pass of the event loop in between, so that no client
waits for more than one of them. An error concerns its partition alone and is logged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from goqueue.broker.replicas.family import FamilyLog
from goqueue.broker.replicas.partition_files import log_name
from goqueue.broker.replicas.partitions import Partition, Partitions
from goqueue.clock import Clock
from goqueue.config import DurabilityConfig, LogConfig
from goqueue.errors import GoQueueError, NotFound, NotLeader, ShuttingDown
from goqueue.log.index.time_rebuild import rebuild_times
from goqueue.log.partition_log import PartitionLog
from goqueue.ports import Offload
from goqueue.records import LogKind, TopicPartition

_log = logging.getLogger("goqueue.housekeeping")


@dataclass(slots=True)
class HousekeepingStats:
    """Counters since the start, for the metrics page."""

    segments_deleted: int = 0
    compactions: int = 0
    records_compacted_away: int = 0
    checkpoints: int = 0
    failures: int = 0


# (partition, first, last, why): records are no longer in a log.
OnRemoved = Callable[[Partition, int, int, str], None]


class Housekeeping:
    """Runs from `start` until `close`."""

    def __init__(
        self,
        partitions: Partitions,
        *,
        clock: Clock,
        offload: Offload,
        log: LogConfig,
        durability: DurabilityConfig,
        on_removed: OnRemoved | None = None,
    ) -> None:
        self._on_removed = on_removed
        self.stats = HousekeepingStats()
        self._partitions = partitions
        self._clock = clock
        self._offload = offload
        self._log_config = log
        self._durability = durability
        # How far each log was safe when its last checkpoint was written.
        self._checkpointed: dict[PartitionLog, int] = {}
        # The damage of each log, by file and position, that is in our own log already.
        self._told: dict[PartitionLog, set[tuple[str, int]]] = {}
        self._jobs: list[asyncio.Task[None]] = []
        self._passes: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begin; the first rounds come after one interval."""
        self._jobs = [
            asyncio.create_task(_every(self._clock, self._log_config.retention_check_ms, self.clean)),
            asyncio.create_task(_every(self._clock, self._durability.checkpoint_interval_ms, self.checkpoint)),
        ]

    async def close(self) -> None:
        """Leave off, after the step under way. A second close does no harm."""
        jobs, self._jobs = self._jobs, []
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, *self._passes, return_exceptions=True)

    async def clean(self) -> None:
        """Retention and compaction, once over every log that has a directory."""
        for place in self._partitions.on_disk():
            for kind in LogKind:
                if kind is LogKind.DATA or self._partitions.has_member(place, kind):
                    await self._guarded(place, kind, self._clean_log)
                    await asyncio.sleep(0)
        self._told = {log: self._told[log] for log in self._partitions.open_logs() if log in self._told}

    async def checkpoint(self) -> None:
        """Shorten the recovery of every log that has grown since its last checkpoint."""
        opened = [(one.key, member) for one in self._partitions.all_open() for member in one.members()]
        self._checkpointed = {member.log: self._checkpointed.get(member.log, -1) for _, member in opened}
        for place, member in opened:
            if self._checkpointed[member.log] != member.log.synced_end:
                await self._guarded(place, member.kind, self._checkpoint_log)
                await asyncio.sleep(0)

    async def _clean_log(self, partition: Partition, member: FamilyLog) -> None:
        log, now_ms, name = member.log, self._clock.now_ms(), log_name(member.log.directory)
        self._tell_damage(name, log)
        while not log.poisoned and (segment := log.segment_without_times(now_ms)) is not None:
            await self._offload(partial(rebuild_times, segment))
        start = log.start_offset
        deleted = log.apply_retention(now_ms)
        if log.start_offset > start:
            self._removed(partition, member, start, log.start_offset - 1, "retention")
        if deleted:
            self.stats.segments_deleted += deleted
            _log.info("%s: deleted %d old segments, the log starts at %d", name, deleted, log.start_offset)
        log.seal_for_compaction(now_ms)
        if not log.poisoned and log.needs_compaction(now_ms):
            # A thread cannot be called back: a stop that cuts this wait short waits for the pass itself.
            compacting = asyncio.create_task(self._compact(partition, member, now_ms))
            self._passes.add(compacting)
            compacting.add_done_callback(self._passes.discard)
            await asyncio.shield(compacting)

    async def _compact(self, partition: Partition, member: FamilyLog, now_ms: int) -> None:
        log, name = member.log, log_name(member.log.directory)
        compaction = log.begin_compaction(now_ms)
        await self._offload(compaction.run)
        if not any(one is partition for one in self._partitions.all_open()):
            # The topic was deleted meanwhile, and the directory may belong to another by now.
            return
        report = log.end_compaction(compaction)
        if report is None:
            return
        self.stats.compactions += 1
        self.stats.records_compacted_away += report.records_dropped
        if report.records_dropped:
            # Which of them went is not known here: those that are gone by then, went by this.
            self._removed(partition, member, log.start_offset, log.end_offset - 1, "compaction")
        _log.info(
            "%s: compacted %d bytes to %d, %d records went",
            name,
            report.bytes_before,
            report.bytes_after,
            report.records_dropped,
        )
        if report.damage is not None:
            _log.error("%s: compaction stops before a damaged frame: %s", name, report.damage)

    def _removed(self, partition: Partition, member: FamilyLog, first: int, last: int, why: str) -> None:
        """Tell whoever follows messages; records of the other logs are nobody's messages."""
        if self._on_removed is not None and member.kind is LogKind.DATA:
            self._on_removed(partition, first, last, why)

    def _tell_damage(self, name: str, log: PartitionLog) -> None:
        """Say once what a crash cost a log, and whatever damage its readers came upon since."""
        if log not in self._told and log.recovery.cut_bytes:
            _log.warning(
                "%s: a crash left a write incomplete, %d bytes were cut: %s",
                name,
                log.recovery.cut_bytes,
                log.recovery.cut_where,
            )
        told = self._told.setdefault(log, set())
        for one in log.damage:
            if (one.where, one.position) not in told:
                told.add((one.where, one.position))
                _log.error("%s: %s; %s", name, one, one.hint)

    async def _checkpoint_log(self, partition: Partition, member: FamilyLog) -> None:  # noqa: ARG002
        synced_end = member.log.synced_end
        member.log.checkpoint()
        self._checkpointed[member.log] = synced_end
        self.stats.checkpoints += 1

    async def _guarded(
        self, place: TopicPartition, kind: LogKind, work: Callable[[Partition, FamilyLog], Awaitable[None]]
    ) -> None:
        try:
            member = await self._partitions.follow_member(place, kind)
            await work(self._partitions.replica(*place), member)
        except (NotFound, NotLeader, ShuttingDown):
            # Deleted or given away since the list was made, or the node is stopping.
            return
        except (GoQueueError, OSError) as error:
            self.stats.failures += 1
            _log.error("%s: housekeeping of its %s log failed: %s", place, kind.name.lower(), error)
        except Exception:  # noqa: BLE001 - our own mistake with one partition must not end the rounds for all
            self.stats.failures += 1
            _log.exception("%s: housekeeping of its %s log failed", place, kind.name.lower())


async def _every(clock: Clock, interval_ms: int, work: Callable[[], Awaitable[None]]) -> None:
    while True:
        await _pause(clock, interval_ms)
        await work()


async def _pause(clock: Clock, wait_ms: int) -> None:
    over = asyncio.Event()
    timer = clock.call_later(wait_ms, over.set)
    try:
        await over.wait()
    finally:
        timer.cancel()
