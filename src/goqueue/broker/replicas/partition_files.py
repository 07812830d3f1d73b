"""Where partitions lie on the disk, and how their directories change hands.

logs/{topic}/{partition}/           a partition that is served: its messages
logs/{topic}/{partition}.delivery/  what its queue groups have leased, settled and retried
logs/{topic}/{partition}.delay/     messages that are held for it until they are due
deleted/{topic id}/                 a deleted topic, moved here in one step, then removed
set-aside/{topic}/                  directories that belong to no topic of ours, kept for a human
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from uuid import UUID

from goqueue.ids import parse_topic_name
from goqueue.log.state.checkpoint import stored_topic_id
from goqueue.ports import Files
from goqueue.records import LogKind

LOGS = "logs"
DELETED = "deleted"
SET_ASIDE = "set-aside"

_SUFFIXES = {LogKind.DATA: "", LogKind.DELIVERY: ".delivery", LogKind.DELAY: ".delay"}
_KINDS = {suffix: kind for kind, suffix in _SUFFIXES.items()}


def directory_name(partition: int, kind: LogKind) -> str:
    """The name, below its topic, of a log's directory."""
    return f"{partition:d}{_SUFFIXES[kind]}"


def parse_directory_name(name: str) -> tuple[int, LogKind] | None:
    """The partition and the kind of log that a directory below a topic belongs to; None if it is no log's."""
    number, dot, suffix = name.partition(".")
    kind = _KINDS.get(dot + suffix)
    return None if kind is None or not number.isdecimal() else (int(number), kind)


def log_name(directory: str) -> str:
    """How a log is named to people, by its directory: `orders-0`, or `orders-0 (delivery log)`."""
    topic, _, name = directory.removeprefix(f"{LOGS}/").rpartition("/")
    parsed = parse_directory_name(name)
    if parsed is None:
        return directory
    partition, kind = parsed
    return f"{topic}-{partition}" if kind is LogKind.DATA else f"{topic}-{partition} ({kind.name.lower()} log)"


def _is_left(directory: str, held: AbstractSet[int]) -> bool:
    """Whether it is the log of a partition that this node holds no replica of."""
    parsed = parse_directory_name(directory)
    return parsed is not None and parsed[0] not in held


class PartitionFiles:
    """Moves, lists and removes the directories of topics. Never reads their logs."""

    def __init__(self, files: Files) -> None:
        self.files = files

    def directory(self, topic: str, partition: int, kind: LogKind = LogKind.DATA) -> str:
        """The place of a log. The name was checked when the topic was made; here it becomes a path."""
        return f"{LOGS}/{parse_topic_name(topic)}/{directory_name(partition, kind)}"

    def exists(self, topic: str, partition: int) -> bool:
        """Whether anything was ever written there."""
        return self.files.exists(self.directory(topic, partition))

    def members(self, topic: str) -> set[tuple[int, LogKind]]:
        """The delivery and delay logs of a topic that have a directory."""
        found = map(parse_directory_name, self.files.list(f"{LOGS}/{parse_topic_name(topic)}"))
        return {one for one in found if one is not None and one[1] is not LogKind.DATA}

    def size_bytes(self, topic: str, partition: int, kind: LogKind = LogKind.DATA) -> int:
        """Bytes of a log that need not be open."""
        directory = self.directory(topic, partition, kind)
        return sum(self.files.size(f"{directory}/{name}") for name in self.files.list(directory))

    def set_aside_stranger(
        self, topic: str, partition: int, topic_id: UUID, kind: LogKind = LogKind.DATA
    ) -> str | None:
        """Move a directory of another topic out of the way; returns where to, None if there was none."""
        directory = self.directory(topic, partition, kind)
        if not self.files.exists(directory):
            return None
        owner = stored_topic_id(self.files, directory)
        if owner is None or owner == topic_id:
            return None
        parent = f"{SET_ASIDE}/{topic}"
        self.files.make_dirs(parent)
        target = self._free_name(f"{parent}/{directory_name(partition, kind)}.{owner}")
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

    def discard_replica(self, topic: str, partition: int, topic_id: UUID) -> list[str]:
        """Take all logs of a partition out of service, unless they are another topic's."""
        places = [self.directory(topic, partition, kind) for kind in LogKind]
        return [
            self._discard(place, topic_id)
            for place in places
            if self.files.exists(place) and stored_topic_id(self.files, place) in (None, topic_id)
        ]

    def discard_unknown(self, known: Mapping[str, UUID], held: Mapping[str, AbstractSet[int]]) -> list[str]:
        """Take what belongs to none of the known topics, or to partitions that are not `held` here, out of service.

        Reads every checkpoint: blocks for a while.
        """
        taken = []
        for name in self.files.list(LOGS):
            place = f"{LOGS}/{name}"
            logs = {one: stored_topic_id(self.files, f"{place}/{one}") for one in self.files.list(place)}
            if name not in known:
                owner = next((one for one in logs.values() if one is not None), UUID(int=0))
                taken.append(self._discard(place, owner))
                continue
            taken += [
                self._discard(f"{place}/{one}", owner)
                for one, owner in logs.items()
                if owner is not None and (owner != known[name] or _is_left(one, held[name]))
            ]
        return taken

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
