"""The partitions this node has a replica of: opened when first used, closed at stop, never mixed up.

Which they are, and which of them this node leads, the metadata says. What lies on the disk says nothing about it: a
node without a replica opens nothing. A directory belongs to the topic whose id is in its checkpoint. One that belongs
to another topic is set aside, and the partition starts clean.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING

from goqueue.broker.replicas.local_writer import Syncer
from goqueue.broker.replicas.log_opener import LogOpener
from goqueue.broker.replicas.members import MemberListener, Members
from goqueue.broker.replicas.open_partitions import OpenPartitions
from goqueue.broker.replicas.opening import Opening
from goqueue.broker.replicas.openings import Openings
from goqueue.broker.replicas.partition import Partition
from goqueue.broker.replicas.partition_files import PartitionFiles
from goqueue.broker.replicas.removals import Removals
from goqueue.broker.replicas.role_changes import RoleChanges
from goqueue.broker.replicas.roles import Role, RoleListener, not_leader, role_of
from goqueue.broker.replicas.topic_settings import TopicSettings
from goqueue.broker.replicas.writers import WriterFactory, local_writers
from goqueue.broker.traffic import Traffic
from goqueue.clock import Clock
from goqueue.codec.batch_decode import RECORDS_BYTES_MAX
from goqueue.config import LogConfig
from goqueue.errors import (
    GoQueueError,
    NotEnoughReplicas,
    NotFound,
    PartitionNotFound,
    TopicNotFound,
)
from goqueue.log.durability.write_failures import WriteObserver
from goqueue.log.partition_log import PartitionLog
from goqueue.metadata.events import (
    Assignment,
    Topic,
)
from goqueue.metadata.settings.topic_config import TopicConfig
from goqueue.partitioner import RoundRobin
from goqueue.ports import ColdRead, Files, MakeLock, Offload
from goqueue.records import LogKind, TopicPartition

if TYPE_CHECKING:
    from goqueue.broker.replicas.family import FamilyLog
    from goqueue.metadata.store import MetadataStore

__all__ = ["Partition", "Partitions"]


class Partitions:
    """All replicas of this node, by topic and number."""

    def __init__(
        self,
        *,
        node_id: int,
        files: Files,
        metadata: MetadataStore,
        syncer: Syncer,
        offload: Offload,
        clock: Clock,
        log_config: LogConfig,
        unpacked_bytes_max: int = RECORDS_BYTES_MAX,
        observer: WriteObserver | None = None,
        make_lock: MakeLock = nullcontext,
        writers: WriterFactory | None = None,
    ) -> None:
        self._node_id = node_id
        self._files = PartitionFiles(files)
        self._metadata = metadata
        # Without other nodes there is one kind of writer.
        self._writers = writers or local_writers(syncer)
        self._offload = offload
        self._settings = TopicSettings(log_config, metadata.image.broker_defaults)
        self._unpacked_bytes_max = unpacked_bytes_max
        self._open = OpenPartitions()
        self._leading = self._open.leading
        self._removals = Removals(self._files, metadata, offload)
        self.traffic = Traffic()
        opener = LogOpener(self._files, syncer, clock, log_config, observer, make_lock)
        self.open_segments = opener.open_segments
        self._openings = Openings(
            node_id=node_id,
            metadata=metadata,
            opener=opener,
            syncer=syncer,
            offload=offload,
            partitions=self._open,
            config_of=self._settings.of,
            make_partition=self._make_partition,
        )
        self.repairs = self._openings.repairs
        self._members = Members(self._files, opener, syncer, offload, self._open.is_open)
        self._roles = RoleChanges(
            node_id=node_id,
            metadata=metadata,
            settings=self._settings,
            files=self._files,
            partitions=self._open,
            openings=self._openings,
            members=self._members,
            removals=self._removals,
            traffic=self.traffic,
        )
        metadata.subscribe(self._roles.on_delta)

    def leader(self, topic: str, partition: int) -> Partition:
        """The partition, which this node leads; raises NotLeader, TopicNotFound or PartitionNotFound.

        One that is not open is opened on the spot. Whoever can wait asks `opening` first.
        """
        found = self._leading.get((topic, partition))
        return found if found is not None else self._find_leader(topic, partition)

    def replica(self, topic: str, partition: int) -> Partition:
        """The partition, whatever its role is here: for inspection and upkeep. Raises as `leader`."""
        found = self._open.all.get((topic, partition))
        if found is not None:
            return found
        found_topic, assignment = self._assigned(topic, partition)
        role = role_of(assignment, self._node_id)
        if role is None:
            raise not_leader(TopicPartition(topic, partition), assignment)
        return self._openings.open_now(found_topic, partition)

    def opening(self, topic: str, partition: int, *, to_write: bool = False) -> Opening | None:
        """What to wait for before the partition can be used, or written, without holding up the event loop.

        None if there is nothing to wait for, also where it cannot be used at all: `leader` says why.
        """
        found = self._leading.get((topic, partition))
        if found is not None and (not to_write or found.log.has_segments):
            # A thread has made the segment, and those that wait for it have not had their turn yet: go behind them.
            return self._openings.get((topic, partition)) if to_write and self._openings else None
        return self._begin_opening(topic, partition, to_write=to_write)

    def at_hand(self, topic: str, partition: int) -> Partition | None:
        """A partition that this node leads and that is open."""
        return self._leading.get((topic, partition))

    def leader_now(self, topic: str, partition: int) -> Partition:
        """As `leader`; raises ColdRead if the partition must be opened first, which is begun."""
        found = self._leading.get((topic, partition))
        if found is not None:
            return found
        if self._begin_opening(topic, partition, to_write=False) is not None:
            raise ColdRead
        return self._find_leader(topic, partition)

    def check_copies(self, topic: str, partition: int) -> None:
        """Raise NotEnoughReplicas while what is settled here could be forgotten by the next leader.

        Of one that is not open this is known, and looked at, only when it has been written to.
        """
        found = self._leading.get((topic, partition))
        if found is not None and found.writer.is_short:
            raise NotEnoughReplicas(
                f"{found.key} has {found.in_sync_replicas} in-sync replicas, fewer than min.insync.replicas: the next "
                "leader may not know what is settled now"
            )

    async def open_leader(self, topic: str, partition: int) -> Partition:
        """As `leader`; the partition is opened in a thread if need be."""
        await self.opened(TopicPartition(topic, partition))
        return self.leader(topic, partition)

    async def opened(self, place: TopicPartition) -> None:
        """Wait until nothing has to be waited for: one cut of a log may follow upon another."""
        while (opening := self.opening(*place)) is not None:
            await opening

    # --- further logs of the family ---------------------------------------------------------

    async def open_member(self, place: TopicPartition, kind: LogKind) -> FamilyLog:
        """A log of the family of a partition that this node leads, made on first use. Raises as `leader`."""
        partition = await self.open_leader(*place)
        return await self._members.open(self.topic(place.topic), partition, kind)

    async def follow_member(self, place: TopicPartition, kind: LogKind) -> FamilyLog:
        """As `open_member`, whatever this node's role is: for the copy of what a leader has made."""
        await self.opened(place)
        return await self._members.open(self.topic(place.topic), self.replica(*place), kind)

    def has_member(self, place: TopicPartition, kind: LogKind) -> bool:
        """Whether a log of the family was ever made here. Opens nothing."""
        return (place.partition, kind) in self._members.exist(place.topic)

    def led_with_member(self, kind: LogKind) -> list[TopicPartition]:
        """The partitions that this node leads and whose family has a log of this kind. Opens nothing."""
        image = self._metadata.image
        return [
            TopicPartition(topic.name, partition)
            for topic in image.topics()
            for partition, found in sorted(self._members.exist(topic.name))
            if found is kind and self.is_led(topic.name, partition)
        ]

    def remove_members(self, kind: LogKind) -> None:
        """Remove every log of a kind, before any of them is opened: a migration begins anew. Blocks."""
        for topic in self._metadata.image.topics():
            self._members.remove(topic.name, kind)

    def on_member(self, listener: MemberListener) -> None:
        """Call `listener` whenever a delivery or delay log is opened or created."""
        self._members.listen(listener)

    # --- what there is ----------------------------------------------------------------------

    def is_led(self, topic: str, partition: int) -> bool:
        """Whether the metadata says that this node leads the partition. Opens nothing."""
        try:
            return self._assigned(topic, partition)[1].leader == self._node_id
        except NotFound:
            return False

    def on_role(self, listener: RoleListener) -> None:
        """Call `listener` whenever the metadata gives this node another role in a partition, or a new term in one."""
        self._roles.listeners.append(listener)

    def all_open(self) -> list[Partition]:
        """The partitions that were used since the start."""
        return list(self._open.all.values())

    def held(self) -> Iterator[tuple[Topic, int]]:
        """Every replica that the metadata gives this node, open or not, also one that was never written."""
        for topic in self._metadata.image.topics():
            for partition, assignment in enumerate(self._metadata.image.assignments(topic.topic_id)):
                if role_of(assignment, self._node_id) is not None:
                    yield topic, partition

    def on_disk(self) -> list[TopicPartition]:
        """Every replica of this node that has a directory, open or not: what retention must look at."""
        return [
            TopicPartition(topic.name, partition)
            for topic, partition in self.held()
            if self._files.exists(topic.name, partition)
        ]

    def led_with_data(self, topic: str) -> list[int]:
        """The partitions of a topic that this node leads and in which anything was ever written."""
        found = self._metadata.image.topic(topic)
        if found is None:
            return []
        return [
            partition
            for partition, assignment in enumerate(self._metadata.image.assignments(found.topic_id))
            if assignment.leader == self._node_id and self._files.exists(topic, partition)
        ]

    def size_bytes(self, topic: str, partition: int) -> int:
        """Bytes on the disk, of all logs of the family; does not open the partition."""
        found = self._open.all.get((topic, partition))
        data = found.log.size_bytes if found is not None else self._files.size_bytes(topic, partition)
        return data + self._members.size_bytes(topic, partition, found)

    def open_logs(self) -> Iterator[PartitionLog]:
        """Every log that is open, of all families."""
        return (member.log for partition in self._open.all.values() for member in partition.members())

    def topic(self, name: str) -> Topic:
        """The topic of that name, or TopicNotFound."""
        topic = self._metadata.image.topic(name)
        if topic is None:
            raise TopicNotFound(name)
        return topic

    def topic_at(self, topic: str, partition: int) -> Topic:
        """The topic that has this partition, whoever leads it; raises TopicNotFound or PartitionNotFound."""
        return self._assigned(topic, partition)[0]

    def turns(self, topic: Topic) -> RoundRobin:
        """Whose turn it is among the topic's partitions, for records without a key."""
        return self._settings.turns(topic)

    def config(self, topic: Topic) -> TopicConfig:
        """The topic's settings, parsed once per change."""
        return self._settings.of(topic)

    def log_config(self, topic: Topic) -> LogConfig:
        """The broker's settings that the topic follows where it has none of its own."""
        return self._settings.log_config(topic)

    @property
    def opened_on_loop(self) -> int:
        """Since the start: partitions that somebody who could not wait had opened on the event loop."""
        return self._openings.opened_on_loop

    async def start(self, *, remove_unknown: bool = False, remove_left: bool = False) -> None:
        """Finish deletions that a crash interrupted. Opens nothing.

        `remove_unknown`: what this node has no part in was deleted or moved while it was away, and goes as well.
        `remove_left`: so does, from now on, every replica that is moved to other nodes.
        """
        self._removals.resume()
        self._roles.removes_left = remove_left
        if remove_unknown:
            await self._removals.remove_unknown(self._node_id)

    async def close(self) -> list[tuple[TopicPartition, Exception]]:
        """Close every log, side by side; returns those that failed. A second close does no harm."""
        self._roles.is_closed = True
        removing = list(self._removals.under_way)
        await self._openings.close()
        if removing:
            await asyncio.wait(removing)
        await self._members.close()
        partitions = self._open.clear()
        for one in partitions:
            for member in one.members():
                member.waiters.wake_all()
        outcomes = await asyncio.gather(*(self._close(one) for one in partitions))
        return [(one.key, error) for one, error in zip(partitions, outcomes, strict=True) if error is not None]

    async def _close(self, partition: Partition) -> Exception | None:
        try:
            await self._offload(partition.close)
        except Exception as error:  # noqa: BLE001 - one bad log must not keep the others from closing
            return error
        return None

    # --- opening --------------------------------------------------------------------------

    def _assigned(self, name: str, partition: int) -> tuple[Topic, Assignment]:
        topic = self.topic(name)
        if not 0 <= partition < topic.partition_count:
            raise PartitionNotFound(name, partition)
        return topic, self._metadata.image.assignments(topic.topic_id)[partition]

    def _find_leader(self, name: str, partition: int) -> Partition:
        topic, assignment = self._assigned(name, partition)
        if assignment.leader != self._node_id:
            # No log is opened for it: an empty one would take writes, and be believed.
            raise not_leader(TopicPartition(name, partition), assignment)
        return self._openings.open_now(topic, partition)

    def _begin_opening(self, name: str, partition: int, *, to_write: bool) -> Opening | None:
        under_way = self._openings.get((name, partition))
        if under_way is not None:
            under_way.makes_segment |= to_write
            return under_way
        try:
            topic, assignment = self._assigned(name, partition)
        except GoQueueError:
            return None
        return self._openings.begin(topic, partition, role_of(assignment, self._node_id), to_write=to_write)

    def _make_partition(self, topic: Topic, partition: int, role: Role, log: PartitionLog) -> Partition:
        traffic = self.traffic.of(topic.name)
        config = self.config(topic)
        opened = Partition(topic, partition, role, log, config, self._writers, traffic, self._unpacked_bytes_max)
        current = self._metadata.image.topic_by_id(topic.topic_id)
        if current is not None and current is not topic:
            # Its settings were changed while a thread was opening it.
            opened.reconfigure(self.config(current), self._settings.broker)
        return opened

    async def rework(self, partition: Partition, kind: LogKind, what: str, work: Callable[[], None]) -> None:
        """Cut, reset or repair a log of a partition that this node follows, in a thread; raises what `work` raises.

        Whoever wants the partition meanwhile waits as for one that is being opened.
        """
        await self._openings.rework(partition, kind, what, work)

    async def reopen(self, partition: Partition) -> None:
        """Let go of a follower's logs and recover them from the disk: one of them takes no more writes."""
        if await self._openings.let_go(partition):
            await self.opened(partition.key)
