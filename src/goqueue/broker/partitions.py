"""The partitions this node holds: opened when first used, closed at stop, never mixed up.

A directory belongs to the topic whose id is in its checkpoint. One that belongs to
another topic is set aside, and the partition starts clean.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from goqueue.broker.lane_rates import LaneRates
from goqueue.broker.local_writer import LocalWriter, Syncer
from goqueue.broker.partition_files import PartitionFiles
from goqueue.broker.traffic import TopicTraffic, Traffic
from goqueue.broker.unreadable import UnreadableStretches
from goqueue.broker.waiters import Waiters
from goqueue.clock import Clock
from goqueue.codec.batch_decode import RECORDS_BYTES_MAX
from goqueue.config import LogConfig
from goqueue.errors import GoQueueError, PartitionNotFound, ShuttingDown, TopicNotFound
from goqueue.log.durability.write_failures import WriteObserver, lacks_handles, storage_error
from goqueue.log.partition_log import PartitionLog
from goqueue.log.segment.handle_cache import SegmentCache
from goqueue.metadata.broker_defaults import with_defaults
from goqueue.metadata.events import (
    Assignment,
    BrokerDefaultsChanged,
    DeletionFinished,
    Delta,
    Topic,
    TopicConfigChanged,
    TopicDeleted,
)
from goqueue.metadata.topic_config import TopicConfig, log_settings, parse_topic_config
from goqueue.partitioner import RoundRobin
from goqueue.ports import Files, Offload
from goqueue.records import TopicPartition

if TYPE_CHECKING:
    from uuid import UUID

    from goqueue.broker.arrival import Steps
    from goqueue.metadata.store import MetadataStore


# Files of segments that a node keeps open which was not told how many handles its process has.
OPEN_FILES_DEFAULT = 512

# Files with unsynced bytes that may be open however few are wanted: one burst of small segments has so many.
_KEPT_FILES_MIN = 160


class Partition:
    """One open partition: its log, the one writer, and those who wait for more."""

    __slots__ = (
        "config",
        "enqueued",
        "id",
        "in_sync_replicas",
        "internal",
        "key",
        "leader_epoch",
        "log",
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
        assignment: Assignment,
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
        self.leader_epoch = assignment.leader_epoch
        self.in_sync_replicas = len(assignment.isr)
        self.traffic = traffic
        self.enqueued = LaneRates()
        self.unreadable = UnreadableStretches(unpacked_bytes_max)
        self.waiters = Waiters()
        self.writer = LocalWriter(
            log,
            syncer,
            self.waiters,
            leader_epoch=assignment.leader_epoch,
            syncs_every_batch=config.syncs_every_batch,
        )

    def reconfigure(self, config: TopicConfig, log_config: LogConfig) -> None:
        """Obey new settings from the next batch on."""
        self.config = config
        self.steps.clear()
        self.writer.syncs_every_batch = config.syncs_every_batch
        self.log.reconfigure(log_settings(config, log_config))


class Partitions:
    """All partitions of this node, by topic and number."""

    def __init__(
        self,
        *,
        files: Files,
        metadata: MetadataStore,
        syncer: Syncer,
        offload: Offload,
        clock: Clock,
        log_config: LogConfig,
        unpacked_bytes_max: int = RECORDS_BYTES_MAX,
        observer: WriteObserver | None = None,
    ) -> None:
        self._files = PartitionFiles(files)
        self._metadata = metadata
        self._syncer = syncer
        self._offload = offload
        self._clock = clock
        self._log_config = log_config
        # With the defaults that were altered at run time. The broker's own topics keep to its file.
        self._altered_log_config = with_defaults(log_config, metadata.image.broker_defaults)
        self._unpacked_bytes_max = unpacked_bytes_max
        self._open: dict[tuple[str, int], Partition] = {}
        self._configs: dict[UUID, tuple[Topic, TopicConfig]] = {}
        self._turns: dict[UUID, RoundRobin] = {}
        self._removals: set[asyncio.Task[None]] = set()
        self.traffic = Traffic()
        # One bound on open segments for all partitions together.
        open_files_max = log_config.open_files_max or OPEN_FILES_DEFAULT
        self.open_segments = SegmentCache(
            open_files_max,
            kept_files_max=max(open_files_max * 3 // 2, _KEPT_FILES_MIN),
            on_crowded=syncer.flush_soon,
            may_close_unsynced=files.sync_all_reports_closed_files,
        )
        self._observer = observer
        self._closed = False
        metadata.subscribe(self._on_delta)

    def get(self, topic: str, partition: int) -> Partition:
        """The partition, opened if need be; raises TopicNotFound or PartitionNotFound."""
        found = self._open.get((topic, partition))
        return found if found is not None else self._open_partition(topic, partition)

    def all_open(self) -> list[Partition]:
        """The partitions that were used since the start."""
        return list(self._open.values())

    def on_disk(self) -> list[TopicPartition]:
        """Every partition that has a directory, open or not: what retention must look at."""
        return [
            TopicPartition(topic.name, partition)
            for topic in self._metadata.image.topics()
            for partition in range(topic.partition_count)
            if self._files.exists(topic.name, partition)
        ]

    def size_bytes(self, topic: str, partition: int) -> int:
        """Bytes on the disk; does not open the partition."""
        found = self._open.get((topic, partition))
        return found.log.size_bytes if found is not None else self._files.size_bytes(topic, partition)

    def topic(self, name: str) -> Topic:
        """The topic of that name, or TopicNotFound."""
        topic = self._metadata.image.topic(name)
        if topic is None:
            raise TopicNotFound(name)
        return topic

    def turns(self, topic: Topic) -> RoundRobin:
        """Whose turn it is among the topic's partitions, for records without a key."""
        return self._turns.setdefault(topic.topic_id, RoundRobin())

    def config(self, topic: Topic) -> TopicConfig:
        """The topic's settings, parsed once per change."""
        known = self._configs.get(topic.topic_id)
        if known is None or known[0] is not topic:
            known = (topic, parse_topic_config(topic.config, self.log_config(topic)))
            self._configs[topic.topic_id] = known
        return known[1]

    def log_config(self, topic: Topic) -> LogConfig:
        """The broker's settings that the topic follows where it has none of its own."""
        return self._log_config if topic.internal else self._altered_log_config

    async def start(self) -> None:
        """Finish deletions that a crash interrupted. Opens nothing."""
        deletions = self._metadata.image.deletions()
        for topic_id, name in deletions.items():
            if self._metadata.image.topic(name) is None:
                self._files.discard_topic(name, topic_id)
            else:
                self._files.discard_partitions_of(name, topic_id)
        self._remove_in_background(self._files.discarded(), list(deletions))

    async def close(self) -> list[tuple[TopicPartition, Exception]]:
        """Close every log, side by side; returns those that failed. A second close does no harm."""
        self._closed = True
        if self._removals:
            await asyncio.wait(self._removals)
        partitions, self._open = list(self._open.values()), {}
        for one in partitions:
            one.waiters.wake_all()
        outcomes = await asyncio.gather(*(self._close(one) for one in partitions))
        return [(one.key, error) for one, error in zip(partitions, outcomes, strict=True) if error is not None]

    async def _close(self, partition: Partition) -> Exception | None:
        try:
            await self._offload(partition.log.close)
        except Exception as error:  # noqa: BLE001 - one bad log must not keep the others from closing
            return error
        return None

    def _open_partition(self, name: str, partition: int) -> Partition:
        if self._closed:
            raise ShuttingDown("the node is stopping")
        topic = self.topic(name)
        if not 0 <= partition < topic.partition_count:
            raise PartitionNotFound(name, partition)
        config = self.config(topic)
        directory = self._files.directory(name, partition)
        try:
            self._files.set_aside_stranger(name, partition, topic.topic_id)
            log = PartitionLog.open(
                self._files.files,
                directory,
                settings=log_settings(config, self._log_config),
                topic_id=topic.topic_id,
                now_ms=self._clock.now_ms(),
                cache=self.open_segments,
                observer=self._observer,
            )
        except OSError as error:
            if self._observer is not None and lacks_handles(error):
                # Writes are refused for it. What else keeps a log from being opened is told to whoever asks for it.
                self._observer.failed(directory, error)
            raise storage_error(directory, error, failed="opened") from error
        # There is no other copy to wait for: what was recovered may be read.
        log.high_watermark = log.end_offset
        if log.is_dirty:
            # Written in a former life and perhaps never synced: what can be read must not wait for the next append.
            self._syncer.mark_dirty(log)
        assignment = self._metadata.image.assignments(topic.topic_id)[partition]
        opened = Partition(
            topic, partition, assignment, log, config, self._syncer, self.traffic.of(name), self._unpacked_bytes_max
        )
        self._open[name, partition] = opened
        return opened

    def _on_delta(self, delta: Delta) -> None:
        for event in delta.events:
            if isinstance(event, TopicDeleted):
                self._drop(event.name, event.topic_id)
            elif isinstance(event, TopicConfigChanged):
                topic = self._metadata.image.topic_by_id(event.topic_id)
                for partition in self._of_topic(event.name):
                    if topic is not None:
                        partition.reconfigure(self.config(topic), self._log_config)
            elif isinstance(event, BrokerDefaultsChanged):
                self._alter_defaults(event.defaults)

    def _alter_defaults(self, defaults: Mapping[str, str]) -> None:
        self._altered_log_config = with_defaults(self._log_config, defaults)
        self._configs.clear()
        for partition in self._open.values():
            topic = self._metadata.image.topic_by_id(partition.topic_id)
            if topic is not None:
                partition.reconfigure(self.config(topic), self._log_config)

    def _drop(self, name: str, topic_id: UUID) -> None:
        for partition in self._of_topic(name):
            del self._open[partition.key]
            partition.log.abandon()
            partition.waiters.wake_all()
        self.traffic.forget(name)
        self._configs.pop(topic_id, None)
        self._turns.pop(topic_id, None)
        try:
            discarded = self._files.discard_topic(name, topic_id)
        except OSError:
            # The deletion stays on record and is tried again at the next start; a new topic
            # of the name would set these directories aside.
            return
        self._remove_in_background(discarded, [topic_id])

    def _of_topic(self, name: str) -> list[Partition]:
        return [partition for partition in self._open.values() if partition.topic_name == name]

    def _remove_in_background(self, discarded: list[str], topic_ids: list[UUID]) -> None:
        if discarded or topic_ids:
            task = asyncio.get_running_loop().create_task(self._remove(discarded, topic_ids))
            self._removals.add(task)
            task.add_done_callback(self._removals.discard)

    async def _remove(self, discarded: list[str], topic_ids: list[UUID]) -> None:
        try:
            await self._offload(lambda: self._files.remove_discarded(discarded))
            if topic_ids:
                await self._metadata.commit([DeletionFinished(topic_id) for topic_id in topic_ids])
        except (OSError, GoQueueError):
            # Still on record as unfinished: the next start tries again.
            return
