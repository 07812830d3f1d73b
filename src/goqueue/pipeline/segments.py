"""A data directory read without its broker: `logs/{topic}/{partition}/{base offset}.log`.

Frames are checked as the broker checks them. A frame that is cut short at the very end of a
partition is the torn tail of a crash and no data; damage anywhere else is an error.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from goqueue.codec.batch import parse_batch_header
from goqueue.codec.frame import HEADER_BYTES, Flags, FrameDamage, Outline, outline_frames, walk_frames
from goqueue.errors import CorruptFrame
from goqueue.pipeline.errors import BadOption
from goqueue.pipeline.layout import Span
from goqueue.pipeline.varints import ROOM_BYTES
from goqueue.records import TopicPartition

_CHECKPOINT = "partition.ckpt"
# Magic, version, checksum, topic id, two flags, and the offset at which the log starts.
_CHECKPOINT_START = Struct(">4sHI16s??q")
_DIGITS = 20
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
        root = Path(path.removeprefix("file:"))
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
        try:
            data = (self.logs / place.topic / str(place.partition) / _CHECKPOINT).read_bytes()
        except FileNotFoundError:
            return first
        if len(data) < _CHECKPOINT_START.size or data[:4] != b"GQCK":
            return first
        return max(first, int(_CHECKPOINT_START.unpack_from(data)[-1]))

    def look(self, place: TopicPartition) -> Stored:
        """Pass over all frames: where the partition ends, and what was aborted."""
        end = self.start_offset(place)
        opened: dict[int, int] = {}
        aborted = []
        for segment in self.segments(place):
            if not Path(segment.path).stat().st_size:
                continue
            with Path(segment.path).open("rb") as file, _mapped(file.fileno()) as data:
                last: Outline | None = None
                for last in _outlines(data, segment):
                    if not last.flags & _OF_TRANSACTIONS:
                        continue
                    header = parse_batch_header(data, last.position + HEADER_BYTES)
                    if not last.flags & Flags.CONTROL:
                        opened.setdefault(header.producer_id, header.base_offset)
                        continue
                    first = opened.pop(header.producer_id, None)
                    if first is not None and not last.flags & Flags.COMMIT:
                        aborted.append(Aborted(header.producer_id, first, header.last_offset))
                if last is not None:
                    end = parse_batch_header(data, last.position + HEADER_BYTES).last_offset + 1
        return Stored(end, min(opened.values(), default=end), tuple(aborted))

    def bytes_of(self, place: TopicPartition) -> int:
        """How large the partition's files are."""
        return sum(Path(segment.path).stat().st_size for segment in self.segments(place))


def read_segment(segment: Segment, start: int, end: int, chunk_bytes: int) -> Iterator[tuple[memoryview, list[Span]]]:
    """The batches of a file that reach into [start, end), in chunks that lie in one buffer each."""
    with Path(segment.path).open("rb", buffering=0) as file:
        file_bytes = os.fstat(file.fileno()).st_size
        position = _seek(file.fileno(), segment, start, file_bytes)
        wanted = chunk_bytes
        buffer = bytearray()
        while position < file_bytes:
            size = min(wanted, file_bytes - position)
            if len(buffer) < size + ROOM_BYTES:
                buffer = bytearray(size + ROOM_BYTES)
            view = memoryview(buffer)[:size]
            filled = 0
            while filled < size:
                count = os.preadv(file.fileno(), [view[filled:]], position + filled)
                if not count:
                    break
                filled += count
            spans, used, is_done = _spans(view[:filled], segment, position, start, end)
            if spans:
                yield view, spans
            if is_done:
                return
            # A frame larger than the chunk is read again with room for all of it.
            wanted = chunk_bytes if used else wanted * 2
            if not used and size == file_bytes - position:
                if segment.next_offset is None:
                    return
                raise CorruptFrame(segment.path, position, "the last frame is cut short")
            position += used


def without_aborted(spans: Sequence[Span], aborted: Sequence[Aborted]) -> list[Span]:
    """The batches that a committed reader may see, markers left out."""
    return [
        span
        for span in spans
        if not span.header.is_control
        and not (
            span.header.is_transactional
            and any(
                one.producer_id == span.header.producer_id
                and one.first_offset <= span.header.base_offset <= one.last_offset
                for one in aborted
            )
        )
    ]


def _seek(handle: int, segment: Segment, start: int, file_bytes: int) -> int:
    """The position of the last frame that begins at or before `start`: none in front of it reaches so far."""
    position = 0
    if start <= segment.base_offset or not file_bytes:
        return position
    with _mapped(handle) as data:
        for frame in _outlines(data, segment):
            if frame.offset > start:
                break
            position = frame.position
    return position


@contextmanager
def _mapped(handle: int) -> Iterator[memoryview]:
    """A file as bytes that are read when they are looked at."""
    with mmap.mmap(handle, 0, access=mmap.ACCESS_READ) as data, memoryview(data) as view:
        yield view


def _outlines(data: memoryview, segment: Segment) -> Iterator[Outline]:
    try:
        yield from outline_frames(data)
    except FrameDamage as damage:
        raise CorruptFrame(segment.path, damage.position, damage.reason) from None


def _spans(view: memoryview, segment: Segment, position: int, start: int, end: int) -> tuple[list[Span], int, bool]:
    """The batches in the view, how many of its bytes were used, and whether the end was reached."""
    spans: list[Span] = []
    used = 0
    try:
        for frame in walk_frames(view):
            if frame.header.offset >= end:
                return spans, used, True
            used = frame.end
            if frame.batch.last_offset >= start:
                spans.append(Span(frame.position + HEADER_BYTES, frame.batch))
    except FrameDamage as damage:
        if not damage.is_short:
            raise CorruptFrame(segment.path, position + damage.position, damage.reason) from None
    return spans, used, False
