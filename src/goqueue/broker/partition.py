"""One open replica: its log, the writer of the term in which this node leads it, and those who wait for more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.broker.lane_rates import LaneRates
from goqueue.broker.local_writer import LocalWriter, Syncer
from goqueue.broker.roles import Leading, Role
from goqueue.broker.traffic import TopicTraffic
from goqueue.broker.unreadable import UnreadableStretches
from goqueue.broker.waiters import Waiters
from goqueue.config import LogConfig
from goqueue.errors import FencedLeaderEpoch, NotLeader
from goqueue.log.partition_log import PartitionLog
from goqueue.metadata.events import Topic
from goqueue.metadata.topic_config import TopicConfig, log_settings
from goqueue.records import TopicPartition

if TYPE_CHECKING:
    from goqueue.broker.arrival import Steps


class Partition:
    """A replica on this node. Whoever wants to write asks `Partitions.leader` for it, so that it leads."""

    __slots__ = (
        "_syncer",
        "config",
        "enqueued",
        "id",
        "in_sync_replicas",
        "internal",
        "key",
        "leader_epoch",
        "log",
        "role",
        "steps",
        "topic_id",
        "topic_name",
        "traffic",
        "unreadable",
        "waiters",
        "writer",
    )

    def __init__(
        self,
        topic: Topic,
        partition: int,
        role: Role,
        log: PartitionLog,
        config: TopicConfig,
        syncer: Syncer,
        traffic: TopicTraffic,
        unpacked_bytes_max: int,
    ) -> None:
        self.topic_name = topic.name
        self.topic_id = topic.topic_id
        self.id = partition
        self.key = TopicPartition(topic.name, partition)
        self.internal = topic.internal
        self.log = log
        self.config = config
        # Which steps a batch passes under these settings, by way in: asked for every batch, so worked out once.
        self.steps: dict[object, Steps] = {}
        self.traffic = traffic
        self.enqueued = LaneRates()
        self.unreadable = UnreadableStretches(unpacked_bytes_max)
        self.waiters = Waiters()
        self._syncer = syncer
        self.role: Role | None = None
        self.leader_epoch = -1
        self.in_sync_replicas = 0
        self.writer = self._term_writer(role.epoch)
        self.become(role)

    @property
    def is_led_here(self) -> bool:
        """Whether this node leads the partition."""
        return isinstance(self.role, Leading)

    def become(self, role: Role) -> None:
        """Take a role: the one place where it changes. What is true already changes nothing.

        A term of leadership is a leader epoch. It begins with an entry at the end of the log and a writer of its own;
        when it is over that writer refuses, and whoever waits for its writes to be safe is told that this node does
        not lead any more.
        """
        former = self.role
        if role == former:
            return
        if former is not None and role.epoch < former.epoch:
            raise FencedLeaderEpoch(f"{self.key} is in leader epoch {former.epoch}, {role.epoch} is over")
        self.role = role
        if isinstance(role, Leading) and isinstance(former, Leading) and former.epoch == role.epoch:
            self.in_sync_replicas = len(role.isr)
            return
        if former is not None or not isinstance(role, Leading):
            self.writer.end(self._refusal(role))
            self.writer = self._term_writer(role.epoch) if isinstance(role, Leading) else self.writer
        self.leader_epoch = role.epoch
        if isinstance(role, Leading):
            self.in_sync_replicas = len(role.isr)
            self.log.begin_epoch(role.epoch)
            if self.in_sync_replicas <= 1:
                # There is no other copy to wait for: what is in the log may be read.
                self.log.high_watermark = self.log.end_offset
        else:
            self.in_sync_replicas = 0
            self.log.forget_empty_epoch()
        # Readers that wait look again: they are told who leads.
        self.waiters.wake_all()

    def abandon(self, reason: NotLeader) -> None:
        """This node has no replica any more, or the topic is gone: let go of the files without writing anything."""
        self.role = None
        self.writer.end(reason)
        self.log.abandon()
        self.waiters.wake_all()

    def reconfigure(self, config: TopicConfig, log_config: LogConfig) -> None:
        """Obey new settings from the next batch on."""
        self.config = config
        self.steps.clear()
        self.writer.syncs_every_batch = config.syncs_every_batch
        self.log.reconfigure(log_settings(config, log_config))

    def _term_writer(self, epoch: int) -> LocalWriter:
        return LocalWriter(
            self.log,
            self._syncer,
            self.waiters,
            leader_epoch=epoch,
            syncs_every_batch=self.config.syncs_every_batch,
        )

    def _refusal(self, role: Role) -> NotLeader:
        if isinstance(role, Leading):
            return NotLeader(f"an earlier term in {self.key} is over: leader epoch {role.epoch} has begun")
        return NotLeader(
            f"this node does not lead {self.key} any more: node {role.leader} does, in leader epoch {role.epoch}",
            leader=role.leader,
            leader_epoch=role.epoch,
        )
