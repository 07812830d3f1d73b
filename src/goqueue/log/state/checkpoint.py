"""`partition.ckpt`: what a log knows that its segments do not say, or would say only after a scan.

Whose log it is, where it starts, how far it is known to be on the disk, the high
watermark, the leader epochs, whether it was closed in order, the producers, and the
lane and aborted indexes of the active segment, which have no file of their own yet.
Binary, with a CRC-32C, replaced atomically. Without it a log is scanned from its
beginning.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from struct import error as struct_error
from struct import pack as struct_pack
from struct import unpack as struct_unpack
from typing import NamedTuple
from uuid import UUID

from goqueue.codec.crc32c import crc32c
from goqueue.errors import DamagedIndex
from goqueue.log.segment.file_names import CHECKPOINT
from goqueue.ports import Files


class LogPoint(NamedTuple):
    """A place between two frames: the next offset, and where it lies or would lie."""

    offset: int
    base_offset: int
    position: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The content of `partition.ckpt`."""

    topic_id: UUID
    start_offset: int
    # Everything below is on the disk: it was synced before this was written.
    recovery: LogPoint
    high_watermark: int
    is_clean: bool
    # The end of the log at this moment; only a clean stop promises that it is still there.
    end: LogPoint
    # Whatever lies behind `end` is being cut off: whoever finds this finishes it.
    is_cut: bool = False
    # Entries that the active segment's index files had, so that a lost one is noticed.
    index_entries: int = 0
    time_entries: int = 0
    # The active segment's largest timestamp, part of which its time index may not have yet.
    max_timestamp_ms: int = -1
    max_timestamp_offset: int = 0
    epochs: tuple[tuple[int, int], ...] = ()
    # The producers, and the active segment's indexes that are still in memory, all as of `end`.
    producers: bytes = b""
    lanes: bytes = b""
    aborted: bytes = b""
    # Below it tombstones may be gone. -1: written by an earlier version, which did not know.
    tombstones_gone_to: int = -1
    # Where the segments begin, so that one whose file is gone is missed. Empty: written by an earlier version.
    bases: tuple[int, ...] = ()

    @property
    def has_unknown_times(self) -> bool:
        """Whether the active segment has frames and their largest timestamp is not known.

        An earlier version wrote this, for which "no timestamp" in a batch was the year 1970.
        """
        return self.max_timestamp_ms <= 0 < self.end.position

    def encode(self) -> bytes:
        """The file's content."""
        fixed = _FIXED.pack(
            self.topic_id.bytes,
            self.is_clean,
            self.is_cut,
            self.start_offset,
            *self.recovery,
            self.high_watermark,
            *self.end,
            self.index_entries,
            self.time_entries,
            self.max_timestamp_ms,
            self.max_timestamp_offset,
            len(self.epochs),
            len(self.producers),
            len(self.lanes),
            len(self.aborted),
        )
        epochs = b"".join(_EPOCH.pack(*entry) for entry in self.epochs)
        # Behind all that earlier versions know, who do not look there.
        rest = struct_pack(f">{1 + len(self.bases)}q", self.tombstones_gone_to, *self.bases)
        body = b"".join((fixed, epochs, self.producers, self.lanes, self.aborted, rest))
        return _HEAD.pack(_MAGIC, _VERSION, crc32c(body)) + body

    @classmethod
    def decode(cls, data: bytes, *, where: str = CHECKPOINT) -> Checkpoint:
        """What `encode` wrote, or DamagedIndex."""
        view = memoryview(data)
        if len(view) < _HEAD.size + _FIXED.size:
            raise DamagedIndex(where, f"only {len(view)} bytes")
        magic, version, crc = _HEAD.unpack_from(view)
        if magic != _MAGIC or version != _VERSION:
            raise DamagedIndex(where, "not a checkpoint of a version we know")
        if crc32c(view[_HEAD.size :]) != crc:
            raise DamagedIndex(where, "checksum does not match")
        try:
            return _parse(view[_HEAD.size :])
        except struct_error as error:
            raise DamagedIndex(where, "ends too early") from error


def read_checkpoint(files: Files, directory: str) -> Checkpoint | None:
    """The checkpoint of the log in `directory`; None if there is none or it is damaged."""
    path = f"{directory}/{CHECKPOINT}"
    try:
        return Checkpoint.decode(files.read(path), where=path)
    except (FileNotFoundError, DamagedIndex):
        return None


def write_checkpoint(files: Files, directory: str, checkpoint: Checkpoint) -> None:
    """Put the checkpoint on the disk, durably, in place of the last one."""
    files.replace(f"{directory}/{CHECKPOINT}", checkpoint.encode())


def stored_topic_id(files: Files, directory: str) -> UUID | None:
    """Whose log lies in `directory`; None if that cannot be said."""
    checkpoint = read_checkpoint(files, directory)
    return checkpoint.topic_id if checkpoint is not None else None


_MAGIC = b"GQCK"
_VERSION = 1
_HEAD = Struct(">4sHI")  # magic, version, crc of all that follows
_FIXED = Struct(">16s??qqqqqqqqIIqqIIII")
_EPOCH = Struct(">iq")


def _parse(view: memoryview) -> Checkpoint:
    topic_id, is_clean, is_cut, start, *numbers = _FIXED.unpack_from(view)
    index_entries, time_entries, max_timestamp_ms, max_timestamp_offset, epoch_count, *sizes = numbers[7:]
    position = _FIXED.size
    epochs = tuple(_EPOCH.unpack_from(view, position + at * _EPOCH.size) for at in range(epoch_count))
    position += epoch_count * _EPOCH.size
    parts = []
    for size in sizes:
        parts.append(bytes(view[position : position + size]))
        position += size
    producers, lanes, aborted = parts
    count = max(len(view) - position, 0) // 8
    gone_to, *bases = struct_unpack(f">{count}q", view[position : position + count * 8]) if count else (-1,)
    return Checkpoint(
        topic_id=UUID(bytes=bytes(topic_id)),
        start_offset=start,
        recovery=LogPoint(*numbers[:3]),
        high_watermark=numbers[3],
        is_clean=is_clean,
        end=LogPoint(*numbers[4:7]),
        is_cut=is_cut,
        index_entries=index_entries,
        time_entries=time_entries,
        max_timestamp_ms=max_timestamp_ms,
        max_timestamp_offset=max_timestamp_offset,
        epochs=epochs,
        producers=producers,
        lanes=lanes,
        aborted=aborted,
        tombstones_gone_to=gone_to,
        bases=tuple(bases),
    )
