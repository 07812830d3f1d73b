"""One producer's entry, and the file that carries all of them over a restart.

The file: magic `GQPS`, version, CRC-32C of all that follows, count, then the entries.
Unlike Kafka's it holds the whole window, so a retry is recognised after a restart too.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Collection
from typing import NamedTuple

from goqueue.codec.crc32c import crc32c
from goqueue.errors import DamagedIndex
from goqueue.ports import Buffer

_MAGIC = b"GQPS"
_VERSION = 1
_HEADER = struct.Struct(">4sHII")  # magic, version, crc, count
_CRC_FROM = 10  # the checksum covers everything behind itself
# id, epoch, coordinator epoch, last timestamp, open first offset, last offset, next sequence, known, batches
_ENTRY = struct.Struct(">qhiqqqiiH")
_BATCH = struct.Struct(">iiqqq")


class StoredBatch(NamedTuple):
    """A batch in the window: its sequences, its offsets and when it was appended."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp_ms: int


class ProducerEntry:
    """What is known of one producer. Mutable: only ProducerState touches it."""

    __slots__ = (
        "coordinator_epoch",
        "epoch",
        "known",
        "last_offset",
        "last_timestamp_ms",
        "next_sequence",
        "open_first_offset",
        "producer_id",
        "window",
    )

    def __init__(self, producer_id: int, epoch: int, window_batches: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.coordinator_epoch = -1
        self.last_timestamp_ms = -1
        self.open_first_offset = -1
        self.last_offset = -1  # of the last data batch in this epoch
        self.next_sequence = 0
        self.known = 0  # sequences stored without a gap, counted back from the next one
        self.window: deque[StoredBatch] = deque(maxlen=window_batches)

    def begin_epoch(self, epoch: int) -> None:
        """A re-initialised producer starts anew: its old sequences mean nothing any more."""
        self.epoch = epoch
        self.last_offset = -1
        self.next_sequence = 0
        self.known = 0
        self.window.clear()


def encode_producers(entries: Collection[ProducerEntry]) -> bytes:
    """The snapshot of all entries."""
    body = bytearray()
    for entry in entries:
        body += _ENTRY.pack(
            entry.producer_id,
            entry.epoch,
            entry.coordinator_epoch,
            entry.last_timestamp_ms,
            entry.open_first_offset,
            entry.last_offset,
            entry.next_sequence,
            entry.known,
            len(entry.window),
        )
        for stored in entry.window:
            body += _BATCH.pack(*stored)
    count = len(entries).to_bytes(4, "big")
    crc = crc32c(body, crc32c(count))
    return _HEADER.pack(_MAGIC, _VERSION, crc, len(entries)) + bytes(body)


def decode_producers(data: Buffer, window_batches: int, *, where: str) -> list[ProducerEntry]:
    """The entries of a snapshot, or DamagedIndex."""
    view = memoryview(data)
    if len(view) < _HEADER.size:
        raise DamagedIndex(where, f"only {len(view)} bytes")
    magic, version, crc, count = _HEADER.unpack_from(view)
    if magic != _MAGIC or version != _VERSION:
        raise DamagedIndex(where, "not a producer snapshot of a version we know")
    if crc32c(view[_CRC_FROM:]) != crc:
        raise DamagedIndex(where, "checksum does not match")
    try:
        entries, end = _read_entries(view, count, window_batches)
    except struct.error as error:
        raise DamagedIndex(where, "ends inside an entry") from error
    if end != len(view):
        raise DamagedIndex(where, "bytes behind the last entry")
    return entries


def _read_entries(view: memoryview, count: int, window_batches: int) -> tuple[list[ProducerEntry], int]:
    entries = []
    position = _HEADER.size
    for _ in range(count):
        producer_id, epoch, coordinator, timestamp_ms, first, last, sequence, known, batches = _ENTRY.unpack_from(
            view, position
        )
        position += _ENTRY.size
        entry = ProducerEntry(producer_id, epoch, window_batches)
        entry.coordinator_epoch = coordinator
        entry.last_timestamp_ms = timestamp_ms
        entry.open_first_offset = first
        entry.last_offset = last
        entry.next_sequence = sequence
        entry.known = known
        for _ in range(batches):
            entry.window.append(StoredBatch._make(_BATCH.unpack_from(view, position)))
            position += _BATCH.size
        entries.append(entry)
    return entries, position
