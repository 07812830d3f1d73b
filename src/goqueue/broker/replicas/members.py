"""Members: the delivery and delay logs beside the data logs, opened when first used.

Which of them exist is known from one listing per topic. Opening and creating one is done in a thread. A log that is
opened while its topic is deleted, or while this node loses its replica, is let go again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from goqueue.broker.replicas.local_writer import Syncer
from goqueue.broker.replicas.log_opener import LogOpener
from goqueue.broker.replicas.opening import Opening
from goqueue.broker.replicas.partition import Partition
from goqueue.broker.replicas.partition_files import PartitionFiles
from goqueue.errors import GoQueueError, NotLeader, ShuttingDown, StorageError, TopicNotFound
from goqueue.ports import Offload
from goqueue.records import LogKind

if TYPE_CHECKING:
    from goqueue.broker.replicas.family import FamilyLog
    from goqueue.log.partition_log import PartitionLog
    from goqueue.metadata.events import Topic

# (partition, log): a log of the partition's family was opened or created.
MemberListener = Callable[[Partition, "FamilyLog"], None]
_Key = tuple[str, int, LogKind]


class Members:
    """Opens the further logs of open partitions. `is_open` says whether a partition is still served here."""

    def __init__(
        self,
        files: PartitionFiles,
        opener: LogOpener,
        syncer: Syncer,
        offload: Offload,
        is_open: Callable[[Partition], bool],
    ) -> None:
        self._files = files
        self._opener = opener
        self._syncer = syncer
        self._offload = offload
        self._is_open = is_open
        self._openings: dict[_Key, Opening] = {}
        self._on_disk: dict[str, set[tuple[int, LogKind]]] = {}
        self._listeners: list[MemberListener] = []
        self._closed = False

    def listen(self, listener: MemberListener) -> None:
        """Call `listener` for every log that is opened from now on."""
        self._listeners.append(listener)

    def exist(self, topic: str) -> set[tuple[int, LogKind]]:
        """The logs of a topic beside its data logs that have a directory, open or not."""
        known = self._on_disk.get(topic)
        if known is None:
            known = self._on_disk[topic] = self._files.members(topic)
        return known

    def remove(self, topic: str, kind: LogKind) -> None:
        """Remove all logs of a kind from the disk; none of them may be open. Blocks."""
        for partition, found in sorted(self.exist(topic)):
            if found is kind:
                self._files.files.remove_tree(self._files.directory(topic, partition, kind))
        self._on_disk.pop(topic, None)

    def size_bytes(self, topic: str, partition: int, opened: Partition | None) -> int:
        """Bytes of a partition's delivery and delay logs; opens nothing."""
        total = 0
        for number, kind in self.exist(topic):
            if number == partition:
                member = None if opened is None else opened.member(kind)
                total += self._files.size_bytes(topic, number, kind) if member is None else member.log.size_bytes
        return total

    async def open(self, topic: Topic, partition: Partition, kind: LogKind) -> FamilyLog:
        """A log of the partition's family, made if it is not there. Raises what keeps it from being opened."""
        found = partition.member(kind)
        if found is not None:
            return found
        if self._closed:
            raise ShuttingDown("the node is stopping")
        key = (topic.name, partition.id, kind)
        opening = self._openings.get(key)
        if opening is None:
            opening = self._openings[key] = Opening(None, self._opener.make_lock(), makes_segment=True)
            work = self._open_in_thread(topic, partition, kind, opening)
            opening.task = asyncio.get_running_loop().create_task(work)
        await opening
        found = partition.member(kind)
        if found is None:
            raise NotLeader(f"this node has no replica of {partition.key} any more")
        return found

    def drop_partition(self, topic: str, partition: int) -> None:
        """This node has no replica of it any more, and its logs are being removed."""
        if topic in self._on_disk:
            self._on_disk[topic] = {one for one in self._on_disk[topic] if one[0] != partition}

    def opening_tasks(self, topic: str, partition: int) -> list[asyncio.Task[None]]:
        """What opens logs of a partition in a thread just now."""
        keys = [(topic, partition, kind) for kind in LogKind]
        found = [self._openings[key].task for key in keys if key in self._openings]
        return [one for one in found if one is not None]

    def drop_topic(self, name: str) -> None:
        """The topic is gone: let nothing be created for it any more."""
        self._on_disk.pop(name, None)
        for key in [key for key in self._openings if key[0] == name]:
            log = self._openings.pop(key).make_void()
            if log is not None:
                log.abandon()

    async def close(self) -> None:
        """Open nothing more, and wait for what is being opened."""
        self._closed = True
        tasks = [one.task for one in self._openings.values() if one.task is not None]
        if tasks:
            await asyncio.wait(tasks)

    async def _open_in_thread(self, topic: Topic, partition: Partition, kind: LogKind, opening: Opening) -> None:
        error: GoQueueError | None = None
        open_log = self._opener.member_opener(topic, partition.id, kind)
        try:
            log = await self._offload(partial(opening.run, open_log))
            if log is None or opening.is_void:
                error = TopicNotFound(topic.name)
            else:
                self._install(topic, partition, kind, log)
        except GoQueueError as failure:
            error = failure
        except OSError as failure:
            error = self._opener.failure(topic, partition.id, failure, opening.log, kind)
        except Exception as failure:  # noqa: BLE001 - whoever waits must be told, whatever it was
            error = StorageError(f"the {kind.name.lower()} log of {partition.key} could not be opened: {failure!r}")
        if self._openings.get((topic.name, partition.id, kind)) is opening:
            del self._openings[topic.name, partition.id, kind]
        opening.finish(error)

    def _install(self, topic: Topic, partition: Partition, kind: LogKind, log: PartitionLog) -> None:
        if not self._is_open(partition):
            log.abandon()
            raise NotLeader(f"this node has no replica of {partition.key} any more")
        self.exist(topic.name).add((partition.id, kind))
        member = partition.add_member(kind, log)
        if log.is_dirty:
            # Written in a former life and perhaps never synced: what can be read must not wait for the next append.
            self._syncer.mark_dirty(log)
        for listener in self._listeners:
            listener(partition, member)
