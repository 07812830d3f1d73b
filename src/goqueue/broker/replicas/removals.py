"""Removals: files of deleted topics and of replicas that moved to other nodes, removed in the background."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING
from uuid import UUID

from goqueue.broker.replicas.partition_files import PartitionFiles
from goqueue.broker.replicas.roles import role_of
from goqueue.errors import GoQueueError
from goqueue.metadata.events import DeletionFinished
from goqueue.ports import Offload
from goqueue.records import TopicPartition

if TYPE_CHECKING:
    from goqueue.metadata.store import MetadataStore

# What still opens logs of a replica that this node gave up; None if it did not, or not any more.
IsLeft = Callable[[], "Collection[asyncio.Task[None]] | None"]

_log = logging.getLogger(__name__)


class Removals:
    """What is on record as deleted and still on the disk."""

    def __init__(self, files: PartitionFiles, metadata: MetadataStore, offload: Offload) -> None:
        self._files = files
        self._metadata = metadata
        self._offload = offload
        self.under_way: set[asyncio.Task[None]] = set()

    def resume(self) -> None:
        """Finish deletions that a crash interrupted."""
        deletions = self._metadata.image.deletions()
        for topic_id, name in deletions.items():
            if self._metadata.image.topic(name) is None:
                self._files.discard_topic(name, topic_id)
            else:
                self._files.discard_partitions_of(name, topic_id)
        self._begin(self._files.discarded(), list(deletions))

    async def remove_unknown(self, node_id: int) -> None:
        """Remove what this node has no part in: deleted or moved while it was away, and finished by the others."""
        image = self._metadata.image
        known = {topic.name: topic.topic_id for topic in image.topics()}
        held = {
            topic.name: {
                number
                for number, one in enumerate(image.assignments(topic.topic_id))
                if role_of(one, node_id) is not None
            }
            for topic in image.topics()
        }
        discarded = await self._offload(lambda: self._files.discard_unknown(known, held))
        if discarded:
            _log.warning("%d directories of topics or replicas that are gone meanwhile are removed", len(discarded))
        self._begin(discarded, [])

    def remove(self, name: str, topic_id: UUID) -> None:
        """Take a topic's directory out of service, then remove it."""
        try:
            discarded = self._files.discard_topic(name, topic_id)
        except OSError:
            # The deletion stays on record and is tried again at the next start; a new topic
            # of the name would set these directories aside.
            return
        self._begin(discarded, [topic_id])

    def remove_replica(self, place: TopicPartition, topic_id: UUID, is_left: IsLeft) -> None:
        """Remove a replica that the metadata does not name any more, once no thread opens a log of it."""
        task = asyncio.get_running_loop().create_task(self._leave(place, topic_id, is_left))
        self.under_way.add(task)
        task.add_done_callback(self.under_way.discard)

    async def _leave(self, place: TopicPartition, topic_id: UUID, is_left: IsLeft) -> None:
        while (waited_for := is_left()) is not None and waited_for:
            await asyncio.wait(waited_for)
        if waited_for is None:
            # The replica came back, or its topic is gone, and so are its files.
            return
        try:
            # Not in a thread: nobody can begin to open it in between.
            discarded = self._files.discard_replica(place.topic, place.partition, topic_id)
        except OSError:
            # It stays where it is; the next start removes it.
            return
        if discarded:
            _log.info("%s is removed from the disk: this node is not among its replicas any more", place)
            await self._run(discarded, [])

    def _begin(self, discarded: list[str], topic_ids: list[UUID]) -> None:
        if discarded or topic_ids:
            task = asyncio.get_running_loop().create_task(self._run(discarded, topic_ids))
            self.under_way.add(task)
            task.add_done_callback(self.under_way.discard)

    async def _run(self, discarded: list[str], topic_ids: list[UUID]) -> None:
        try:
            await self._offload(lambda: self._files.remove_discarded(discarded))
            if topic_ids:
                await self._metadata.commit([DeletionFinished(topic_id) for topic_id in topic_ids])
        except (OSError, GoQueueError):
            # Still on record as unfinished: the next start tries again.
            return
