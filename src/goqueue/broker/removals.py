"""Removals: the files of deleted topics, taken out of service at once and removed in the background."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from uuid import UUID

from goqueue.broker.partition_files import PartitionFiles
from goqueue.errors import GoQueueError
from goqueue.metadata.events import DeletionFinished
from goqueue.ports import Offload

if TYPE_CHECKING:
    from goqueue.metadata.store import MetadataStore


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

    def remove(self, name: str, topic_id: UUID) -> None:
        """Take a topic's directory out of service, then remove it."""
        try:
            discarded = self._files.discard_topic(name, topic_id)
        except OSError:
            # The deletion stays on record and is tried again at the next start; a new topic
            # of the name would set these directories aside.
            return
        self._begin(discarded, [topic_id])

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
