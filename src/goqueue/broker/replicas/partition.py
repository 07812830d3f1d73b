"""One open replica: the logs of its family, and the term in which this node leads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from goqueue.broker.lane_rates import LaneRates
from goqueue.broker.reading.unreadable import UnreadableStretches
from goqueue.broker.replicas.family import FamilyLog
from goqueue.broker.replicas.roles import Leading, Role
from goqueue.broker.replicas.writers import PartitionWriter, WriterFactory
from goqueue.broker.traffic import TopicTraffic
from goqueue.config import LogConfig
from goqueue.errors import FencedLeaderEpoch, NotLeader
from goqueue.log.partition_log import PartitionLog
from goqueue.metadata.events import Topic
from goqueue.metadata.settings.topic_config import TopicConfig, log_settings
from goqueue.records import LogKind, TopicPartition

if TYPE_CHECKING:
    from goqueue.broker.arrivals.arrival import Steps


class Partition:
    """A replica on this node. Whoever wants to write asks `Partitions.leader` for it, so that it leads."""

    __slots__ = (
        "_data",
        "_make_writer",
        "_members",
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
        make_writer: WriterFactory,
        traffic: TopicTraffic,
        unpacked_bytes_max: int,
    ) -> None:
        self.topic_name = topic.name
        self.topic_id = topic.topic_id
        self.id = partition
        self.key = TopicPartition(topic.name, partition)
        self.internal = topic.internal
        self.config = config
        # Which steps a batch passes under these settings, by way in: asked for every batch, so worked out once.
        self.steps: dict[object, Steps] = {}
        self.traffic = traffic
        self.enqueued = LaneRates()
        self.unreadable = UnreadableStretches(unpacked_bytes_max)
        self._make_writer = make_writer
        self._data = FamilyLog(self.key, LogKind.DATA, log, make_writer, syncs_every_batch=config.syncs_every_batch)
        # The open logs of the family, by kind, the data log first.
        self._members: dict[LogKind, FamilyLog] = {LogKind.DATA: self._data}
        # Those of the data log: every batch asks for them.
        self.log = log
        self.waiters = self._data.waiters
        self.writer: PartitionWriter = self._data.writer
        self.role: Role | None = None
        self.leader_epoch = -1
        self.in_sync_replicas = 0
        self.become(role)

    @property
    def is_led_here(self) -> bool:
        """Whether this node leads the partition."""
        return isinstance(self.role, Leading)

    def member(self, kind: LogKind) -> FamilyLog | None:
        """A log of the family, if it is open."""
        return self._members.get(kind)

    def members(self) -> Sequence[FamilyLog]:
        """The open logs of the family, the data log first."""
        return [self._members[kind] for kind in sorted(self._members)]

    def add_member(self, kind: LogKind, log: PartitionLog) -> FamilyLog:
        """A log of the family was opened: it takes part in the present term."""
        member = FamilyLog(self.key, kind, log, self._make_writer)
        if self.role is not None:
            member.take_role(self.role)
        self._members[kind] = member
        return member

    def become(self, role: Role) -> None:
        """Take a role: the one place where it changes. What is true already changes nothing.

        A term of leadership is a leader epoch. It begins with an entry at the end of every log of the family, and with
        writers of its own; when it is over those refuse, and whoever waits for their writes to be safe is told
        that this node does not lead any more.
        """
        former = self.role
        if role == former:
            return
        if former is not None and role.epoch < former.epoch:
            raise FencedLeaderEpoch(f"{self.key} is in leader epoch {former.epoch}, {role.epoch} is over")
        self.role = role
        self.in_sync_replicas = len(role.isr) if isinstance(role, Leading) else 0
        if isinstance(role, Leading) and isinstance(former, Leading) and former.epoch == role.epoch:
            return
        self.leader_epoch = role.epoch
        self.unreadable.waits_for_repair = isinstance(role, Leading) and len(role.isr) > 1
        for member in self._members.values():
            member.take_role(role)
        self.writer = self._data.writer

    def abandon(self, reason: NotLeader) -> None:
        """This node has no replica any more, or the topic is gone: let go of the files without writing anything."""
        self.role = None
        for member in self._members.values():
            member.abandon(reason)

    def close(self) -> None:
        """Close every log of the family. Raises the first error, once all were tried."""
        errors: list[Exception] = []
        for member in self._members.values():
            try:
                member.log.close()
            except Exception as error:  # noqa: BLE001 - one bad log must not keep the others from closing
                errors.append(error)
        if errors:
            raise errors[0]

    def reconfigure(self, config: TopicConfig, log_config: LogConfig) -> None:
        """Obey new settings from the next batch on."""
        self.config = config
        self.steps.clear()
        self._data.sync_every_batch(wanted=config.syncs_every_batch)
        self.log.reconfigure(log_settings(config, log_config))
