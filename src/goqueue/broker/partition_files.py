"""Where partitions lie on the disk, and how their directories change hands.

logs/{topic}/{partition}/      a partition that is served
deleted/{topic id}/            a deleted topic, moved here in one step, then removed
set-aside/{topic}/             directories that belong to no topic of ours, kept for a human
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from goqueue.ids import parse_topic_name
from goqueue.log.state.checkpoint import stored_topic_id
from goqueue.ports import Files

LOGS = "logs"
DELETED = "deleted"
SET_ASIDE = "set-aside"


class PartitionFiles:
    """Moves, lists and removes the directories of topics. Never reads their logs."""

    def __init__(self, files: Files) -> None:
        self.files = files

    def directory(self, topic: str, partition: int) -> str:
        """The place of a partition. The name was checked when the topic was made; here it becomes a path."""
        return f"{LOGS}/{parse_topic_name(topic)}/{partition:d}"

    def exists(self, topic: str, partition: int) -> bool:
        """Whether anything was ever written there."""
        return self.files.exists(self.directory(topic, partition))

    def size_bytes(self, topic: str, partition: int) -> int:
        """Bytes of a partition that need not be open."""
        directory = self.directory(topic, partition)
        return sum(self.files.size(f"{directory}/{name}") for name in self.files.list(directory))

    def set_aside_stranger(self, topic: str, partition: int, topic_id: UUID) -> str | None:
        """Move a directory of another topic out of the way; returns where to, None if there was none."""
        directory = self.directory(topic, partition)
        if not self.files.exists(directory):
            return None
        owner = stored_topic_id(self.files, directory)
        if owner is None or owner == topic_id:
            return None
        parent = f"{SET_ASIDE}/{topic}"
        self.files.make_dirs(parent)
        target = self._free_name(f"{parent}/{partition}.{owner}")
        self._move(directory, target)
        return target

    def discard_topic(self, topic: str, topic_id: UUID) -> list[str]:
        """Take a deleted topic out of service in one step; returns its name among the discarded."""
        place = f"{LOGS}/{parse_topic_name(topic)}"
        return [self._discard(place, topic_id)] if self.files.exists(place) else []

    def discard_partitions_of(self, topic: str, topic_id: UUID) -> list[str]:
        """Take what a deleted topic left under a name that another topic has now."""
        place = f"{LOGS}/{parse_topic_name(topic)}"
        return [
            self._discard(f"{place}/{partition}", topic_id)
            for partition in self.files.list(place)
            if stored_topic_id(self.files, f"{place}/{partition}") == topic_id
        ]

    def discarded(self) -> list[str]:
        """Deleted topics whose files are still there."""
        return self.files.list(DELETED)

    def remove_discarded(self, names: Sequence[str]) -> None:
        """Remove these deleted topics for good. Blocks for as long as that takes."""
        for name in names:
            self.files.remove_tree(f"{DELETED}/{name}")
        # Both ends of the moves must be on the disk before the deletions are reported as finished.
        for place in (LOGS, DELETED):
            if self.files.exists(place):
                self.files.sync_dir(place)

    def _discard(self, directory: str, topic_id: UUID) -> str:
        self.files.make_dirs(DELETED)
        target = self._free_name(f"{DELETED}/{topic_id}")
        self.files.rename(directory, target)
        return target.removeprefix(f"{DELETED}/")

    def _move(self, old: str, new: str) -> None:
        self.files.rename(old, new)
        self.files.sync_dir(old.rpartition("/")[0])
        self.files.sync_dir(new.rpartition("/")[0])

    def _free_name(self, wanted: str) -> str:
        name, number = wanted, 1
        while self.files.exists(name):
            name, number = f"{wanted}.{number}", number + 1
        return name
