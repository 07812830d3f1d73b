"""What the benchmarks of the log share: how much work, of what, and where."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from tests.bench.measure import MIB

from goqueue.codec.batch_encode import encode_batch
from goqueue.log.partition_log import PartitionLog
from goqueue.log.settings import LogSettings
from goqueue.ports import Files
from goqueue.records import NewRecord

TOPIC_ID = UUID(int=7)
NOW_MS = 1_700_000_000_000
SEGMENT_BYTES = 64 * MIB
READ_BYTES = MIB
SETTINGS = LogSettings(segment_bytes=SEGMENT_BYTES, max_message_bytes=4 * MIB, retention_ms=-1)


@dataclass(frozen=True, slots=True)
class Scale:
    """How much work the figures rest on."""

    rounds: int
    round_bytes: int
    small_frames_bytes: int
    partitions: int
    growth_bytes: int
    commit_seconds: float


FULL = Scale(9, 256 * MIB, SEGMENT_BYTES, 1000, 4096 * MIB, 3.0)
QUICK = Scale(3, 64 * MIB, 8 * MIB, 100, 256 * MIB, 0.5)


def a_batch(size: int) -> bytes:
    """One batch of about `size` bytes, of records of about 1 KB or less."""
    record = min(1000, size - 110) if size > 300 else size - 61 - 34 - 9
    count = max(1, size // (record + 12))
    return encode_batch([NewRecord(None, os.urandom(record)) for _ in range(count)], now_ms=NOW_MS)


def open_log(files: Files, directory: str) -> PartitionLog:
    return PartitionLog.open(files, directory, settings=SETTINGS, topic_id=TOPIC_ID, now_ms=NOW_MS)


@contextmanager
def empty(root: str) -> Iterator[None]:
    """A directory that is empty before and gone after."""
    shutil.rmtree(root, ignore_errors=True)
    Path(root).mkdir(parents=True)
    try:
        yield
    finally:
        shutil.rmtree(root, ignore_errors=True)
