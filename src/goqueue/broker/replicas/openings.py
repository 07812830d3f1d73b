"""Openings: partitions on their way to be open, and followers whose logs are worked on as a whole.

Each has one opening at a time, and whoever wants the partition meanwhile waits for it. The role of a partition is the
one that the metadata gives it when its opening is done, not when it was begun.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from goqueue.broker.replicas.local_writer import Syncer
from goqueue.broker.replicas.log_opener import LogOpener
from goqueue.broker.replicas.open_partitions import OpenPartitions
from goqueue.broker.replicas.opening import Opening
from goqueue.broker.replicas.partition import Partition
from goqueue.broker.replicas.repair_stats import RepairStats
from goqueue.broker.replicas.roles import Leading, Role, not_leader, role_of
from goqueue.errors import GoQueueError, NotLeader, ShuttingDown, StorageError, TopicNotFound
from goqueue.log.partition_log import PartitionLog
from goqueue.metadata.events import Assignment, Topic
from goqueue.metadata.settings.topic_config import TopicConfig
from goqueue.ports import Offload
from goqueue.records import LogKind, TopicPartition

if TYPE_CHECKING:
    from goqueue.metadata.store import MetadataStore

# The partition with this log, in this role.
MakePartition = Callable[[Topic, int, Role, PartitionLog], Partition]
_Key = tuple[str, int]


class Openings:
    """Opens the partitions of one node, in threads or on the spot."""

    def __init__(
        self,
        *,
        node_id: int,
        metadata: MetadataStore,
        opener: LogOpener,
        syncer: Syncer,
        offload: Offload,
        partitions: OpenPartitions,
        config_of: Callable[[Topic], TopicConfig],
        make_partition: MakePartition,
    ) -> None:
        self.repairs = RepairStats()
        # Since the start: partitions that somebody who could not wait had opened on the event loop.
        self.opened_on_loop = 0
        self._node_id = node_id
        self._metadata = metadata
        self._opener = opener
        self._syncer = syncer
        self._offload = offload
        self._partitions = partitions
        self._config_of = config_of
        self._make_partition = make_partition
        self._under_way: dict[_Key, Opening] = {}
        # Open partitions with a log that a thread is cutting or replacing: nobody is given them meanwhile.
        self._aside: dict[_Key, Partition] = {}
        self._closed = False

    def __bool__(self) -> bool:
        return bool(self._under_way)

    def get(self, key: _Key) -> Opening | None:
        """The opening that is under way."""
        return self._under_way.get(key)

    async def close(self) -> None:
        """Open nothing more, and wait for what is under way."""
        self._closed = True
        tasks = [one.task for one in self._under_way.values() if one.task is not None]
        if tasks:
            await asyncio.wait(tasks)

    def drop_topic(self, name: str) -> None:
        """The topic is gone: let no thread begin with its partitions any more."""
        for key in [key for key in self._under_way if key[0] == name]:
            log = self._under_way.pop(key).make_void()
            aside = self._aside.pop(key, None)
            if aside is not None:
                aside.abandon(NotLeader(f"topic {name!r} is deleted"))
            elif log is not None and key not in self._partitions.all:
                log.abandon()

    # --- opening --------------------------------------------------------------------------

    def open_now(self, topic: Topic, partition: int) -> Partition:
        """Open the partition on the event loop, or share the outcome of a thread that is opening it."""
        if self._closed:
            raise ShuttingDown("the node is stopping")
        self.opened_on_loop += 1
        opening = self._under_way.get((topic.name, partition))
        open_log = self._opener.opener(topic, partition, self._config_of(topic))
        try:
            log = open_log() if opening is None else opening.run(open_log)
        except OSError as error:
            raise self._opener.failure(topic, partition, error) from error
        if log is None:
            raise TopicNotFound(topic.name)
        return self._install(topic, partition, log)

    def begin(self, topic: Topic, partition: int, role: Role | None, *, to_write: bool) -> Opening | None:
        """Have a thread open the partition, or make its first segment; None if there is nothing to be done."""
        key = (topic.name, partition)
        found = self._partitions.all.get(key)
        makes_segment = to_write and isinstance(role, Leading)
        if role is None or self._closed or (found is not None and (not makes_segment or found.log.has_segments)):
            return None
        opening = Opening(None if found is None else found.log, self._opener.make_lock(), makes_segment=makes_segment)
        self._spawn(topic, partition, opening)
        return opening

    def _spawn(self, topic: Topic, partition: int, opening: Opening) -> None:
        self._under_way[topic.name, partition] = opening
        opening.task = asyncio.get_running_loop().create_task(self._run(topic, partition, opening))

    async def _run(self, topic: Topic, partition: int, opening: Opening) -> None:
        error: GoQueueError | None = None
        open_log = self._opener.opener(topic, partition, self._config_of(topic))
        try:
            while not opening.is_void:
                log = await self._offload(partial(opening.run, open_log))
                if log is not None and not opening.is_void:
                    self._install(topic, partition, log)
                    if log.has_segments or not opening.makes_segment:
                        break
            else:
                error = TopicNotFound(topic.name)
        except GoQueueError as failure:
            error = failure
        except OSError as failure:
            error = self._opener.failure(topic, partition, failure, opening.log)
        except Exception as failure:  # noqa: BLE001 - whoever waits must be told, whatever it was
            error = StorageError(f"{topic.name}-{partition} could not be opened: {failure!r}")
        if self._under_way.get((topic.name, partition)) is opening:
            # Whoever waited for it asks again what to wait for, and would be told to wait for this one for ever: on a
            # follower there is nothing more to come, and one that was made leader meanwhile begins anew.
            del self._under_way[topic.name, partition]
        opening.finish(error)

    def _install(self, topic: Topic, partition: int, log: PartitionLog) -> Partition:
        """The partition with this log, in the role that the metadata gives it now."""
        key = TopicPartition(topic.name, partition)
        found = self._partitions.all.get(key)
        if found is not None:
            return found
        assignment = self._metadata.image.assignments(topic.topic_id)[partition]
        role = role_of(assignment, self._node_id)
        aside = self._aside.pop(key, None)
        if aside is not None:
            return self._reinstate(aside, role, assignment)
        if role is None:
            log.abandon()
            raise not_leader(key, assignment)
        opened = self._make_partition(topic, partition, role, log)
        if log.is_dirty:
            # Written in a former life and perhaps never synced: what can be read must not wait for the next append.
            self._syncer.mark_dirty(log)
        self._partitions.put(opened)
        return opened

    # --- work on the whole log of a follower ------------------------------------------------

    async def rework(self, partition: Partition, kind: LogKind, what: str, work: Callable[[], None]) -> None:
        """Cut, reset or repair a log of a partition that this node follows, in a thread; raises what `work` raises.

        Until it is done the partition counts as not open: whoever wants it waits as for one that is being opened. The
        role that the metadata gives this node meanwhile is taken then.
        """
        key = partition.key
        await self._others_finished(key)
        topic, member = self._metadata.image.topic_by_id(partition.topic_id), partition.member(kind)
        if not self._is_followed(partition) or topic is None or member is None:
            raise NotLeader(f"{key} is not followed here any more")
        errors = list[Exception]()
        member.log.begin_work(what)
        self._partitions.remove(key)
        self._aside[key] = partition

        def guarded() -> PartitionLog:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - the partition must come back, whatever it was
                errors.append(error)
            return partition.log

        opening = Opening(None, self._opener.make_lock(), makes_segment=False, work=guarded)
        self._spawn(topic, key.partition, opening)
        await opening
        if errors:
            raise errors[0]

    async def let_go(self, partition: Partition) -> bool:
        """Abandon the logs of a follower, one of which takes no more writes; False if it is not followed any more."""
        key = partition.key
        await self._others_finished(key)
        if not self._is_followed(partition):
            return False
        self._partitions.remove(key)
        partition.abandon(NotLeader(f"{key} is opened again: a log of it takes no more writes"))
        self.repairs.reopened += 1
        return True

    def _is_followed(self, partition: Partition) -> bool:
        return not self._closed and self._partitions.is_open(partition) and not partition.is_led_here

    async def _others_finished(self, key: _Key) -> None:
        """Wait until nobody is at work on a partition, well or not."""
        while (under_way := self._under_way.get(key)) is not None:
            with suppress(GoQueueError):
                await under_way

    def _reinstate(self, partition: Partition, role: Role | None, assignment: Assignment) -> Partition:
        """A thread is done with a log: the partition is open again, in the role that it has by now."""
        for member in partition.members():
            member.log.end_work()
        if role is None:
            reason = not_leader(partition.key, assignment)
            partition.abandon(reason)
            raise reason
        partition.become(role)
        self._partitions.put(partition)
        for member in partition.members():
            if member.log.is_dirty:
                self._syncer.mark_dirty(member.log)
        return partition
