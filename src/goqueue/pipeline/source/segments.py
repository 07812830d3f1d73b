"""A data directory read without its broker: `logs/{topic}/{partition}/{base offset}.log`.

Frames are checked as the broker checks them. A frame that is cut short at the very end of a
partition is the torn tail of a crash and no data; damage anywhere else is an error.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple
from uuid import UUID

from goqueue.codec.batch import HEADER_BYTES as BATCH_HEADER_BYTES
from goqueue.codec.batch import BatchHeader, parse_batch_header
from goqueue.codec.frame import HEADER_BYTES, Flags, FrameDamage, Outline, outline_frames
from goqueue.errors import CorruptFrame
from goqueue.pipeline.errors import BadOption
from goqueue.pipeline.paths import local_path
from goqueue.records import TopicPartition

_CHECKPOINT = "partition.ckpt"
# Magic, version, checksum, topic id, two flags, and the offset at which the log starts.
_CHECKPOINT_START = Struct(">4sHI16s??q")
_DIGITS = 20
# Where frames are small, the headers of many are read at once.
_SMALL_BYTES_MAX = 8 * 1024
_LOOK_BYTES = 64 * 1024
_OF_TRANSACTIONS = Flags.TRANSACTIONAL | Flags.CONTROL


class Segment(NamedTuple):
    """One file: its first offset, and the first offset of the file behind it (None: it is the last)."""

    path: str
    base_offset: int
    next_offset: int | None


class Aborted(NamedTuple):
    """Records of a producer, from `first` to `last`, that never came to be."""

    producer_id: int
    first_offset: int
    last_offset: int


class Stored(NamedTuple):
    """What a look at all frame headers of a partition tells."""

    end_offset: int
    stable_offset: int
    aborted: tuple[Aborted, ...]


class DataDirectory:
    """The partitions below a data directory, or below its folder `logs`."""

    def __init__(self, path: str) -> None:
        root = local_path(path, "path")
        self.logs = root / "logs" if (root / "logs").is_dir() else root
        if not self.logs.is_dir():
            raise BadOption("path", f"{path} is not a data directory on this machine")

    def topics(self) -> dict[str, list[int]]:
        """The partitions of every topic that has been written to."""
        found = {}
        for topic in sorted(self.logs.iterdir()):
            if topic.is_dir():
                partitions = sorted(int(one.name) for one in topic.iterdir() if one.name.isdigit())
                if partitions:
                    found[topic.name] = partitions
        return found

    def segments(self, place: TopicPartition) -> list[Segment]:
        """The files of a partition, in order."""
        directory = self.logs / place.topic / str(place.partition)
        try:
            names = sorted(
                one.name for one in directory.iterdir() if one.suffix == ".log" and len(one.name) == _DIGITS + 4
            )
        except FileNotFoundError:
            return []
        bases = [int(name[:_DIGITS]) for name in names]
        behind = [*bases[1:], None]
        return [
            Segment(str(directory / name), base, after) for name, base, after in zip(names, bases, behind, strict=True)
        ]

    def start_offset(self, place: TopicPartition) -> int:
        """Where the log starts: what was deleted before a checkpoint is not read again."""
        segments = self.segments(place)
        first = segments[0].base_offset if segments else 0
        known = self._checkpoint(place)
        return first if known is None else max(first, int(known[-1]))

    def topic_id(self, place: TopicPartition) -> str | None:
        """The id of the topic that the partition belongs to; None if it has no checkpoint yet."""
        known = self._checkpoint(place)
        return None if known is None else str(UUID(bytes=known[3]))

    def _checkpoint(self, place: TopicPartition) -> tuple[Any, ...] | None:
        try:
            data = (self.logs / place.topic / str(place.partition) / _CHECKPOINT).read_bytes()
        except FileNotFoundError:
            return None
        if len(data) < _CHECKPOINT_START.size or data[:4] != b"GQCK":
            return None
        return _CHECKPOINT_START.unpack_from(data)

    def look(self, place: TopicPartition) -> Stored:
        """Pass over all frames: where the partition ends, and what was aborted."""
        end = self.start_offset(place)
        opened: dict[int, int] = {}
        aborted = []
        for segment in self.segments(place):
            # Retention may take a file since the folder was listed: what lies in the others still counts.
            with contextlib.suppress(FileNotFoundError), Path(segment.path).open("rb", buffering=0) as file:
                last: Outline | None = None
                for last in outlines(file.fileno(), segment):
                    if not last.flags & _OF_TRANSACTIONS:
                        continue
                    header = _batch_header(file.fileno(), last)
                    if not last.flags & Flags.CONTROL:
                        opened.setdefault(header.producer_id, header.base_offset)
                        continue
                    first = opened.pop(header.producer_id, None)
                    if first is not None and not last.flags & Flags.COMMIT:
                        aborted.append(Aborted(header.producer_id, first, header.last_offset))
                if last is not None:
                    end = _batch_header(file.fileno(), last).last_offset + 1
        return Stored(end, min(opened.values(), default=end), tuple(aborted))

    def bytes_of(self, place: TopicPartition) -> int:
        """How large the partition's files are."""
        return sum(Path(segment.path).stat().st_size for segment in self.segments(place))


def outlines(handle: int, segment: Segment) -> Iterator[Outline]:
    """The whole frames of a file, by their headers alone. Of large frames nothing else is read."""
    size = os.fstat(handle).st_size
    position, ahead = 0, HEADER_BYTES
    try:
        while True:
            last: Outline | None = None
            for last in outline_frames(os.pread(handle, ahead, position), position, size):
                yield last
            if last is None:
                return
            position = last.end
            ahead = HEADER_BYTES if last.end - last.position > _SMALL_BYTES_MAX else _LOOK_BYTES
    except FrameDamage as damage:
        raise CorruptFrame(segment.path, damage.position, damage.reason) from None


def _batch_header(handle: int, frame: Outline) -> BatchHeader:
    return parse_batch_header(os.pread(handle, BATCH_HEADER_BYTES, frame.position + HEADER_BYTES))
