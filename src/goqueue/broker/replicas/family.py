"""FamilyLog: one log of a partition's family.

The data log has, from their first use, a delivery log and a delay log beside it. They have the same replicas, the same
leader and the same leader epoch; their offsets and their syncs are their own. `Partition.become` begins and ends the
terms of all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from goqueue.broker.reading.waiters import Waiters
from goqueue.broker.replicas.roles import Following, Leading, Role
from goqueue.broker.replicas.writers import NoWriter, PartitionWriter, TermLog, WriterFactory
from goqueue.config import LogConfig
from goqueue.errors import NotLeader
from goqueue.log.partition_log import PartitionLog
from goqueue.log.settings import LogSettings
from goqueue.metadata.settings.topic_config import log_settings, parse_topic_config
from goqueue.records import LogKind, TopicPartition

# Small segments: only sealed ones are compacted, and replay reads what is not. Records that the broker writes for
# itself are as large as they must be.
_MEMBER_CONFIG: Mapping[str, str] = MappingProxyType(
    {
        "cleanup.policy": "compact",
        "segment.bytes": str(16 * 1024 * 1024),
        "max.message.bytes": str(2**31 - 1),
        "message.timestamp.type": "CreateTime",
    }
)


class FamilyLog:
    """One log, the writer of the term in which this node leads it, and those who wait for more of it."""

    __slots__ = ("_make_writer", "_place", "_syncs_every_batch", "kind", "log", "waiters", "writer")

    def __init__(
        self,
        place: TopicPartition,
        kind: LogKind,
        log: PartitionLog,
        make_writer: WriterFactory,
        *,
        syncs_every_batch: bool = False,
    ) -> None:
        self._place = place
        self._make_writer = make_writer
        self._syncs_every_batch = syncs_every_batch
        self.kind = kind
        self.log = log
        self.waiters = Waiters()
        self.writer: PartitionWriter = NoWriter(NotLeader(f"this node does not lead {place}"))

    def take_role(self, role: Role) -> None:
        """A term begins, here or elsewhere; the one before it is over."""
        self.writer.end(refusal(self._place, role))
        log = self.log
        if isinstance(role, Leading):
            log.begin_epoch(role.epoch)
            if len(role.isr) <= 1:
                # There is no other copy to wait for: what is in the log may be read.
                log.high_watermark = log.end_offset
            self.writer = self._make_writer(
                TermLog(self._place, log.topic_id, self.kind, log, self.waiters, role.epoch, self._syncs_every_batch)
            )
        else:
            log.forget_empty_epoch()
        # Readers that wait look again: they are told who leads.
        self.waiters.wake_all()

    def abandon(self, reason: NotLeader) -> None:
        """This node has no replica any more: let go of the files without writing anything."""
        self.writer.end(reason)
        self.log.abandon()
        self.waiters.wake_all()

    def sync_every_batch(self, *, wanted: bool) -> None:
        """Answer writes only once they are on the disk, or not, from the next one on."""
        self._syncs_every_batch = wanted
        self.writer.syncs_every_batch = wanted


def member_settings(log_config: LogConfig) -> LogSettings:
    """What a delivery or delay log obeys: the same for every topic."""
    return log_settings(parse_topic_config(_MEMBER_CONFIG, log_config), log_config)


def refusal(place: TopicPartition, role: Leading | Following) -> NotLeader:
    """Why nothing is written any more in the term before this role."""
    if isinstance(role, Leading):
        return NotLeader(f"an earlier term in {place} is over: leader epoch {role.epoch} has begun")
    return NotLeader(
        f"this node does not lead {place} any more: node {role.leader} does, in leader epoch {role.epoch}",
        leader=role.leader,
        leader_epoch=role.epoch,
    )
