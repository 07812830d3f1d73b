"""The writer of a log that has copies on other nodes, for one term of leadership.

What all in-sync replicas have written may be read (the high watermark). A write with acks=all is acknowledged when all
of them have synced it, or only written it where `durability.acks_all` says so, and they are not fewer than
`min.insync.replicas` at that moment. Followers are told at once up to where somebody waits for a sync.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from heapq import heappop, heappush
from itertools import count
from typing import Protocol

from goqueue.broker.replicas.local_writer import Syncer
from goqueue.broker.replicas.writers import TermLog
from goqueue.cluster.replication.term import LogTerm, PartitionTerm
from goqueue.codec.frame import Flags
from goqueue.errors import (
    GoQueueError,
    MetadataUnavailable,
    NotEnoughReplicasAfterAppend,
    NotLeader,
    StorageError,
)
from goqueue.ports import Buffer
from goqueue.records import Acks, Appended, Priority

_NO_FLAGS = Flags(0)
_ALL, _LEADER = Acks.ALL, Acks.LEADER

# A client that is told nothing for so long had better ask another node.
_CONFIRM_S_MAX = 2.0

# (end, order of arrival, future)
_Waiting = tuple[int, int, "asyncio.Future[None]"]


class OnChange(Protocol):
    """Told when followers must be sent something: frames, a wish to sync, or (not urgent) a higher watermark."""

    def __call__(self, writer: ReplicatedWriter, /, *, is_urgent: bool = True) -> None:
        """Called on the event loop; must not raise."""
        ...


class ReplicatedWriter:
    """Writes to the leader's log, and knows when the in-sync replicas have it."""

    def __init__(
        self,
        term_log: TermLog,
        partition_term: PartitionTerm,
        syncer: Syncer,
        *,
        min_insync: Callable[[], int],
        eligible_below: Callable[[], int],
        confirm: Callable[[], Awaitable[None]],
        acks_written: bool,
        on_change: OnChange,
        on_failure: Callable[[StorageError], None],
    ) -> None:
        """`eligible_below`: with fewer in-sync replicas than that, those that have left may lead next.

        `confirm` returns when the node knows of all elections before the call, or raises.

        `on_change` is told when there is more to send, `on_failure` when the leader's disk failed.
        """
        log = term_log.log
        self.kind = term_log.kind
        self.place = term_log.place
        self.log = log
        self.leader_epoch = term_log.leader_epoch
        self.syncs_every_batch = term_log.syncs_every_batch
        self.partition_term = partition_term
        self.term = LogTerm(
            term_log.kind,
            end=lambda: log.end_offset,
            own_synced_end=lambda: log.synced_end,
            high_watermark=lambda: log.high_watermark,
            acks_written=acks_written,
        )
        partition_term.logs[term_log.kind] = self.term
        partition_term.kinds.add(term_log.kind)
        self._waiters = term_log.waiters
        self._syncer = syncer
        self._min_insync = min_insync
        self._eligible_below = eligible_below
        self._confirm = confirm
        self._acks_written = acks_written
        self._on_change = on_change
        self._on_failure = on_failure
        self._waiting: list[_Waiting] = []
        # Those who wait until something may be read, and those who wait until it cannot be lost with this node alone.
        self._waiting_to_read: list[_Waiting] = []
        self._waiting_for_copies: list[_Waiting] = []
        self._order = count()
        self._sync_asked = -1
        self._ended: NotLeader | None = None

    @property
    def is_over(self) -> bool:
        """Whether the term has ended."""
        return self._ended is not None

    @property
    def is_settled(self) -> bool:
        """Whether everything from before the term is known to be committed: until then readers wait."""
        return self.log.high_watermark >= self.term.start_end

    @property
    def is_short(self) -> bool:
        """Whether so few replicas are in sync that one which lacks what is written now may lead next."""
        return self.partition_term.certain < self._eligible_below()

    def end(self, reason: NotLeader) -> None:
        """The term is over: refuse what comes, and fail all who wait for what was written in it."""
        if self._ended is not None:
            return
        self._ended = reason
        # Whoever waits has written: the next leader may have it, so that to write it again is not the same as once.
        lost = self._loss(reason)
        self._syncer.give_up(self.log, lost)
        self._fail(lost)
        self._on_change(self)

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
        """Check and write one closed batch. Returns once it is written here, not yet on other nodes."""
        if self._ended is not None:
            raise self._refusal(self._ended)
        log = self.log
        try:
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
        except StorageError as error:
            self._on_failure(error)
            raise
        if appended.duplicate:
            return appended
        self._syncer.mark_dirty(log)
        if not self.partition_term.counted:
            self.advance()
        self._on_change(self)
        return appended

    def reached(self, end_offset: int, acks: Acks) -> Awaitable[None] | None:
        """Wait until all below `end_offset` is as safe as `acks` asks; None if it is now."""
        if self._ended is not None:
            raise self._loss(self._ended)
        if acks == _ALL:
            return self._reached_all(end_offset)
        if self.syncs_every_batch and acks == _LEADER and self.log.synced_end < end_offset:
            return self._syncer.synced(self.log, end_offset)
        return None

    def readable(self, end_offset: int) -> Awaitable[None] | None:
        """Wait until all below `end_offset` is committed, however few replicas are in sync; None if it is now."""
        if self._ended is not None:
            raise self._refusal(self._ended)
        if self.log.high_watermark >= end_offset:
            return None if self.log.synced_end >= end_offset else self._syncer.synced(self.log, end_offset)
        return self._committed_and_synced(end_offset)

    def replicated(self, end_offset: int) -> Awaitable[None] | None:
        """Wait until every in-sync replica has written all below `end_offset`; None if they have now."""
        if self._ended is not None:
            raise self._loss(self._ended)
        if self.log.high_watermark >= end_offset and not self.is_short:
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._waiting_for_copies, (end_offset, next(self._order), future))
        self.advance()
        return future

    async def _committed_and_synced(self, end_offset: int) -> None:
        if self.log.high_watermark < end_offset:
            committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            heappush(self._waiting_to_read, (end_offset, next(self._order), committed))
            await committed
        if self.log.synced_end < end_offset:
            # A new leader's coordinators answer by what they load: it must be on this disk, too.
            await self._syncer.synced(self.log, end_offset)

    def cannot_write(self, reason: StorageError) -> None:
        """Let another in-sync replica lead."""
        self._on_failure(reason)

    def confirmed(self) -> Awaitable[None] | None:
        """Wait until it is certain that the term had not ended when this was called. Raises `NotLeader`."""
        if self._ended is not None:
            raise self._refusal(self._ended)
        return self._confirmed()

    def advance(self) -> None:
        """Positions or the in-sync replicas have changed: move the high watermark, and answer who waited for that."""
        if self._ended is not None:
            return
        log, counted = self.log, self.partition_term.counted
        before = log.high_watermark
        log.high_watermark = self.term.written_by(counted)
        if log.high_watermark > before:
            # How many bytes became readable is not known, and not worth a look.
            self._waiters.wake_all()
            self._answer(self._waiting_to_read, log.high_watermark)
            self._on_change(self, is_urgent=False)
        if self._waiting_for_copies:
            self._answer_copied(log.high_watermark)
        self._acknowledge(self.term.safe_by(counted))

    async def _confirmed(self) -> None:
        try:
            async with asyncio.timeout(_CONFIRM_S_MAX):
                await self._confirm()
        except (TimeoutError, MetadataUnavailable):
            raise NotLeader(f"whether this node still leads {self.place} is not known") from None
        if self._ended is not None:
            raise self._refusal(self._ended)

    def _reached_all(self, end_offset: int) -> Awaitable[None] | None:
        if self.term.acknowledged_end >= end_offset:
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (end_offset, next(self._order), future))
        if not self._acks_written:
            if end_offset > self.term.sync_wanted:
                self.term.sync_wanted = end_offset
                self._on_change(self)
            if end_offset > self._sync_asked and self.log.synced_end < end_offset:
                # Everything that is written by now: who asks next for less has asked already.
                self._sync_asked = self.log.end_offset
                synced = asyncio.ensure_future(self._syncer.synced(self.log, self._sync_asked))
                synced.add_done_callback(self._synced_here)
        self.advance()
        return future

    def _synced_here(self, done: asyncio.Future[None]) -> None:
        if done.cancelled():
            return
        error = done.exception()
        if error is not None:
            # Whoever sends the same records again waits for the same end: it is to be asked for anew.
            self._sync_asked = -1
        if isinstance(error, GoQueueError) and self._ended is None:
            # The disk of the leader failed: nobody who waits here will ever be answered.
            self._fail(error)
            if isinstance(error, StorageError):
                self._on_failure(error)
        self.advance()

    def _acknowledge(self, safe_end: int) -> None:
        waiting = self._waiting
        if self.partition_term.certain >= self._min_insync():
            self.term.acknowledged_end = max(self.term.acknowledged_end, safe_end)
            self._answer(waiting, self.term.acknowledged_end)
            return
        self._answer(waiting, min(safe_end, self.term.acknowledged_end))
        self._refuse(waiting, safe_end, self._min_insync())

    def _answer_copied(self, high_watermark: int) -> None:
        if self.is_short:
            self._refuse(self._waiting_for_copies, high_watermark, self._eligible_below())
        else:
            self._answer(self._waiting_for_copies, high_watermark)

    def _refuse(self, waiting: list[_Waiting], end: int, minimum: int) -> None:
        """Tell who waits for what ends there that all in-sync replicas have it, but they are too few."""
        while waiting and waiting[0][0] <= end:
            future = heappop(waiting)[2]
            if not future.done():
                future.set_exception(
                    NotEnoughReplicasAfterAppend(
                        f"{self.place} has {self.partition_term.certain} in-sync replicas, fewer than "
                        f"min.insync.replicas={minimum}: the records are written, but may be lost"
                    )
                )
                # Whoever gave up waiting must not turn this into a warning about a lost exception.
                future.exception()

    def _answer(self, waiting: list[_Waiting], end: int) -> None:
        while waiting and waiting[0][0] <= end:
            future = heappop(waiting)[2]
            if not future.done():
                future.set_result(None)

    def _fail(self, reason: GoQueueError) -> None:
        for waiting in (self._waiting, self._waiting_to_read, self._waiting_for_copies):
            for _, _, future in waiting:
                if not future.done():
                    future.set_exception(reason)
                    # Whoever gave up waiting must not turn this into a warning about a lost exception.
                    future.exception()
            waiting.clear()

    def _loss(self, ended: NotLeader) -> NotLeader:
        return NotLeader(str(ended), leader=ended.leader, leader_epoch=ended.leader_epoch, may_be_done=True)

    def _refusal(self, ended: NotLeader) -> NotLeader:
        # A new one each time: an exception that is raised again and again collects tracebacks.
        return NotLeader(str(ended), leader=ended.leader, leader_epoch=ended.leader_epoch)
