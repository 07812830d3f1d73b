"""ReplicaLog: one log that this node copies from its leader, in one term."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from goqueue.broker.replicas.family import FamilyLog
from goqueue.broker.replicas.local_writer import Syncer
from goqueue.broker.replicas.partition import Partition
from goqueue.broker.replicas.roles import Following
from goqueue.cluster.replication.messages import Answer, LogRound, Reached, Status, Subscribe
from goqueue.cluster.replication.reconciliation import kept_end
from goqueue.errors import FencedLeaderEpoch, GoQueueError
from goqueue.log.partition_log import PartitionLog
from goqueue.ports import Buffer, Offload
from goqueue.records import LogKind

# After a refusal or a failed write.
AGAIN_S_FIRST = 0.1
AGAIN_S_MAX = 3.0


class ReplicaLog:
    """The follower's side of one subscription. A new subscription of the same log gets a new number."""

    def __init__(self, partition: Partition, member: FamilyLog, leader_epoch: int, syncer: Syncer) -> None:
        self.partition = partition
        self.kind = member.kind
        self.leader_epoch = leader_epoch
        self.subscription = -1
        # Whether the leader has matched its log with ours: only then are frames taken.
        self.is_matched = False
        self._log = member.log
        self._syncer = syncer
        self._sync_asked = 0
        # Whether a sync that the leader asked for did not succeed. It asks once for each subscription.
        self.has_failed_sync = False
        # How long to wait before it is tried again, doubled by every failure.
        self.wait_s = AGAIN_S_FIRST

    def next_wait_s(self) -> float:
        """How long to wait this time."""
        wait_s, self.wait_s = self.wait_s, min(self.wait_s * 2, AGAIN_S_MAX)
        return wait_s

    @property
    def log(self) -> PartitionLog:
        """The log that is written."""
        return self._log

    @property
    def is_current(self) -> bool:
        """Whether this node still follows in this term."""
        role = self.partition.role
        return isinstance(role, Following) and role.epoch == self.leader_epoch

    def subscribe(self, subscription: int, broker_epoch: int) -> Subscribe:
        """What to ask the leader for."""
        self.subscription, self.is_matched = subscription, False
        # The log may have been cut or emptied since: what it gets then is to be synced again.
        self._sync_asked, self.has_failed_sync = 0, False
        log = self._log
        return Subscribe(
            subscription,
            self.partition.topic_id,
            self.partition.id,
            self.kind,
            self.leader_epoch,
            broker_epoch,
            log.end_offset,
            log.leader_epoch,
            is_sound=not log.damage,
            wants_reset=bool(log.damage) and not log.is_dense,
            tombstones_gone_to=log.tombstones_gone_to,
        )

    def reached(self) -> Reached:
        """How far it is."""
        return Reached(self.subscription, self._log.end_offset, self._log.synced_end)

    def agree(self, answer: Answer, on_cut: Callable[[str, int], None]) -> None:
        """Make the log a beginning of the leader's, so that a new subscription can be matched.

        `on_cut` is told the topic and how many records of its data went. This runs in a thread, and whoever asked for
        it may be gone when it ends.
        """
        if answer.status is Status.RESET:
            self._log.reset_to(answer.end)
            # What is copied from now on never had what those tombstones deleted.
            self._log.note_tombstones_gone(answer.tombstones_gone_to)
        elif answer.status is Status.DIVERGED:
            before = self._log.end_offset
            self._log.truncate_to(kept_end(self._log, answer.epoch, answer.end))
            if self.kind is LogKind.DATA:
                on_cut(self.partition.key.topic, before - self._log.end_offset)

    def note_tombstones_gone(self, offset: int) -> None:
        """The leader's log lacks tombstones below `offset`: all of this copy is of such a log, or has seen them all.

        What has seen them must be on the disk: the note may get there first, and outlast what a power cut takes.
        """
        if self._log.leader_epoch < 0 or offset <= self._log.synced_end:
            self._log.note_tombstones_gone(offset)

    async def prepare(self, offload: Offload) -> None:
        """Let the first frames find a segment: to make one takes several syncs."""
        if not self._log.has_segments:
            await offload(partial(self._log.make_first_segment))

    def take(self, part: LogRound, frames: Buffer, on_sync: Callable[[ReplicaLog], None]) -> None:
        """Write what a round has for this log; raises what speaks against it. `on_sync`: a sync ended, well or not."""
        log = self._log
        if not self.is_current:
            raise FencedLeaderEpoch(
                f"{self.partition.key} is not followed in leader epoch {self.leader_epoch} any more"
            )
        if part.size:
            log.append_frames(frames, continues=part.continues)
            self.wait_s = AGAIN_S_FIRST
            self._syncer.mark_dirty(log)
        self.note_tombstones_gone(part.tombstones_gone_to)
        log.high_watermark = part.high_watermark
        if log.start_offset < part.log_start <= log.high_watermark:
            log.delete_before(part.log_start)
        wanted = min(part.sync_to, log.end_offset)
        if wanted > log.synced_end and wanted > self._sync_asked:
            self._sync_asked = wanted
            self._sync(wanted, on_sync)

    def _sync(self, end: int, on_sync: Callable[[ReplicaLog], None]) -> None:
        def done(future: asyncio.Future[None]) -> None:
            if future.cancelled() or future.exception() is not None:
                # Cut meanwhile, or the disk failed. What is not synced is not reported.
                self._sync_asked, self.has_failed_sync = 0, True
            on_sync(self)

        asyncio.ensure_future(self._syncer.synced(self._log, end)).add_done_callback(done)


def tell_failure(what: str, error: Exception, level: int = logging.WARNING) -> None:
    """Log why something is tried again; also where it happened, if neither a disk nor another node is the reason."""
    is_foreseen = isinstance(error, GoQueueError | OSError)
    logging.getLogger("goqueue.cluster").log(level, "%s: %s", what, error, exc_info=None if is_foreseen else error)
