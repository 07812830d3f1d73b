"""Snapshots: a shard's state as a file, so that replay need not begin at the beginning.

A snapshot is derived and may always be thrown away. It is stamped with the log it was taken
from (topic id, leader epoch, offset) and used only if that log still says the same; whatever
is damaged, foreign, or ahead of the log is removed, so that it cannot agree by chance later.
It must be saved only once its offset is durable: a state that the log may yet forget is none.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar
from uuid import UUID

from goqueue.codec.crc32c import crc32c
from goqueue.coordinator.journal import ReadableLog
from goqueue.ports import Files

_MAGIC = b"GQS1"
# magic, CRC of all that follows, topic id, leader epoch, offset
_HEADER = struct.Struct(">4sI16siq")
_CRC_END = 8
_ShardId = TypeVar("_ShardId", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state that the first `offset` offsets of a log add up to."""

    topic_id: UUID
    leader_epoch: int
    offset: int
    data: bytes


class Snapshots(Generic[_ShardId]):
    """The snapshot files of one kind of shards. Every call may block."""

    def __init__(self, files: Files, name: str) -> None:
        self._files = files
        self._directory = f"snapshots/{name}"

    def save(self, shard: _ShardId, snapshot: Snapshot) -> None:
        """Replace the shard's snapshot."""
        self._files.make_dirs(self._directory)
        self._files.replace(self._path(shard), _encode(snapshot))

    def load(self, shard: _ShardId, log: ReadableLog) -> Snapshot | None:
        """The shard's snapshot if the log agrees with it; else it is removed."""
        path = self._path(shard)
        if not self._files.exists(path):
            return None
        snapshot = _decode(self._files.read(path))
        if snapshot is not None and _agrees(snapshot, log):
            return snapshot
        self.discard(shard)
        return None

    def discard(self, shard: _ShardId) -> None:
        """Remove the shard's snapshot for good."""
        self._files.remove(self._path(shard))
        if self._files.is_dir(self._directory):
            self._files.sync_dir(self._directory)

    def _path(self, shard: _ShardId) -> str:
        return f"{self._directory}/{shard}.snapshot"


def _agrees(snapshot: Snapshot, log: ReadableLog) -> bool:
    if snapshot.topic_id != log.topic_id or not log.start_offset <= snapshot.offset <= log.end_offset:
        return False
    epoch, end_offset = log.end_offset_for_epoch(snapshot.leader_epoch)
    return epoch == snapshot.leader_epoch and end_offset >= snapshot.offset


def _encode(snapshot: Snapshot) -> bytes:
    body = _HEADER.pack(_MAGIC, 0, snapshot.topic_id.bytes, snapshot.leader_epoch, snapshot.offset) + snapshot.data
    return _MAGIC + struct.pack(">I", crc32c(body[_CRC_END:])) + body[_CRC_END:]


def _decode(content: bytes) -> Snapshot | None:
    if len(content) < _HEADER.size:
        return None
    magic, crc, topic_id, leader_epoch, offset = _HEADER.unpack_from(content)
    if magic != _MAGIC or crc != crc32c(content[_CRC_END:]):
        return None
    return Snapshot(UUID(bytes=topic_id), leader_epoch, offset, content[_HEADER.size :])
