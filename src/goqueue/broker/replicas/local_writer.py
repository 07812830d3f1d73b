"""The writer of a partition that has no other copy, for one term of leadership: what is written is at once readable."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from goqueue.broker.reading.waiters import Waiters
from goqueue.codec.frame import Flags
from goqueue.errors import GoQueueError, NotLeader, StorageError
from goqueue.log.partition_log import PartitionLog
from goqueue.ports import Buffer
from goqueue.records import Acks, Appended, Priority

_NO_FLAGS = Flags(0)
# Looked up once: to find a member in its enumeration takes longer than to compare it.
_ALL, _LEADER = Acks.ALL, Acks.LEADER


class Syncer(Protocol):
    """Brings written bytes to the disk, for all logs of the node together."""

    def mark_dirty(self, log: PartitionLog) -> None:
        """The log has bytes to sync, within the flush interval."""
        ...

    def flush_soon(self) -> None:
        """Sync what is marked as dirty without waiting for the flush interval."""
        ...

    def synced(self, log: PartitionLog, end_offset: int) -> Awaitable[None]:
        """Wait until everything below `end_offset` is on the disk; raises if that fails."""
        ...

    def give_up(self, log: PartitionLog, reason: GoQueueError) -> None:
        """Raise `reason` for all who wait for the log; its bytes are synced all the same."""
        ...


class LocalWriter:
    """Writes to one log, shows the result to readers and asks the syncer for durability."""

    __slots__ = ("_ended", "_log", "_syncer", "_waiters", "leader_epoch", "syncs_every_batch")

    def __init__(
        self, log: PartitionLog, syncer: Syncer, waiters: Waiters, *, leader_epoch: int, syncs_every_batch: bool = False
    ) -> None:
        self._log = log
        self._syncer = syncer
        self._waiters = waiters
        self.leader_epoch = leader_epoch
        self.syncs_every_batch = syncs_every_batch
        # Why nothing is written any more: the term is over.
        self._ended: NotLeader | None = None

    # There is no other copy to wait for.
    is_settled = True
    is_short = False

    @property
    def is_over(self) -> bool:
        """Whether the term has ended."""
        return self._ended is not None

    def end(self, reason: NotLeader) -> None:
        """The term is over: refuse what comes, and fail all who wait for what was written in it."""
        if self._ended is None:
            self._ended = reason
            self._syncer.give_up(self._log, reason)

    def append(
        self,
        batch: Buffer,
        *,
        now_ms: int,
        priority: int = Priority.NORMAL,
        flags: Flags = _NO_FLAGS,
        headers: bytes = b"",
        marker: bool = False,
        thinned: bool = False,
    ) -> Appended:
        """Check and write one closed batch. Returns once it is written, not yet durable."""
        if self._ended is not None:
            raise self._refusal(self._ended)
        log = self._log
        appended = log.append_batch(
            batch,
            now_ms=now_ms,
            leader_epoch=self.leader_epoch,
            priority=priority,
            flags=flags,
            headers=headers,
            marker=marker,
            thinned=thinned,
        )
        if appended.duplicate:
            return appended
        log.high_watermark = appended.last_offset + 1
        self._syncer.mark_dirty(log)
        waiters = self._waiters
        if waiters:
            # A marker uncovers what lay behind it, which is more than its own size.
            if marker:
                waiters.wake_all()
            else:
                waiters.grew(len(batch))
        return appended

    def reached(self, end_offset: int, acks: Acks) -> Awaitable[None] | None:
        """Wait until all below `end_offset` is as safe as `acks` asks; None if it is now."""
        if self._ended is not None:
            raise self._refusal(self._ended)
        if acks == _ALL or (self.syncs_every_batch and acks == _LEADER):
            if self._log.synced_end >= end_offset:
                return None
            return self._syncer.synced(self._log, end_offset)
        return None

    def replicated(self, end_offset: int) -> Awaitable[None] | None:  # noqa: ARG002
        """There is no other copy: what is written here is written everywhere."""
        if self._ended is not None:
            raise self._refusal(self._ended)
        return None

    def readable(self, end_offset: int) -> Awaitable[None] | None:
        """Wait until all below `end_offset` is on the disk: there is no other copy. None if it is now."""
        return self.reached(end_offset, _ALL)

    def cannot_write(self, reason: StorageError) -> None:
        """Nobody else has a copy that could lead."""

    def confirmed(self) -> Awaitable[None] | None:
        """Nobody else has a copy that could lead."""
        if self._ended is not None:
            raise self._refusal(self._ended)
        return None

    def _refusal(self, ended: NotLeader) -> NotLeader:
        # A new one each time: an exception that is raised again and again collects tracebacks.
        return NotLeader(str(ended), leader=ended.leader, leader_epoch=ended.leader_epoch)
