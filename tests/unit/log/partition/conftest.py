"""A partition log on a disk in memory, and short words for what is done to it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from uuid import UUID

import pytest

from goqueue.codec.batch import parse_batch_header
from goqueue.codec.batch_decode import decode_records
from goqueue.codec.batch_encode import encode_batch
from goqueue.codec.markers import encode_marker
from goqueue.log.partition_log import PartitionLog
from goqueue.log.segment.file_names import CHECKPOINT, LOG, file_name
from goqueue.log.settings import LogSettings
from goqueue.records import NewRecord
from goqueue.testing.disk import Survival
from goqueue.testing.memory_files import MemoryFiles

HERE = "logs/orders/0"
TOPIC = UUID(int=7)


@pytest.fixture
def desk():
    """A log without a directory, segments of about 1000 bytes, an index entry per 200."""
    return Desk()


@pytest.fixture(scope="session")
def make_desk():
    """For tests that need more than one."""
    return Desk


@dataclass
class Desk:
    """One log, its disk, and the time."""

    files: MemoryFiles = field(default_factory=MemoryFiles)
    settings: LogSettings = field(
        default_factory=lambda: LogSettings(segment_bytes=1000, index_interval_bytes=200, retention_ms=-1)
    )
    now_ms: int = 1_000_000
    log: PartitionLog = None

    def __post_init__(self):
        self.reopen()

    def reopen(self, **changes):
        """Open what the disk holds, as a restart does."""
        self.settings = replace(self.settings, **changes)
        self.log = PartitionLog.open(self.files, HERE, settings=self.settings, topic_id=TOPIC, now_ms=self.now_ms)
        self.log.high_watermark = self.log.end_offset
        return self.log

    def restart(self):
        self.log.close()
        return self.reopen()

    def kill(self):
        self.files = self.files.kill()
        return self.reopen()

    def crash(self, survival=Survival.NOTHING, **options):
        self.files = self.files.crash(survival, **options)
        return self.reopen()

    def batch(self, *values, stamps=None, key=b"k", **producer):
        records = [
            NewRecord(key, value, timestamp_ms=stamps[at] if stamps else None) for at, value in enumerate(values)
        ]
        return encode_batch(records, now_ms=self.now_ms, **producer)

    def append(self, *values, epoch=0, priority=2, flags=0, **batch):
        done = self.log.append_batch(
            self.batch(*values, **batch), now_ms=self.now_ms, leader_epoch=epoch, priority=priority, flags=flags
        )
        self.log.high_watermark = self.log.end_offset
        return done

    def append_many(self, count, size=100):
        """`count` batches of one record, in which the number of the batch can be read."""
        for number in range(count):
            self.append(b"%d" % number + b"." * size)

    def send(self, *values, producer=5, sequence=0, transactional=False, producer_epoch=0, epoch=0):
        return self.append(
            *values,
            epoch=epoch,
            producer_id=producer,
            producer_epoch=producer_epoch,
            base_sequence=sequence,
            transactional=transactional,
        )

    def mark(self, *, commit, producer=5, epoch=0):
        marker = encode_marker(commit, producer_id=producer, producer_epoch=0, coordinator_epoch=0, now_ms=self.now_ms)
        done = self.log.append_batch(marker, now_ms=self.now_ms, leader_epoch=epoch, marker=True)
        self.log.high_watermark = self.log.end_offset
        return done

    def sync(self):
        begun = self.log.begin_sync()
        if begun is not None:
            begun.run()
            self.log.end_sync(begun, None)

    def read(self, offset=None, *, max_bytes=300, upper=None):
        """The batches from `offset` to the end, by as many reads as it takes."""
        at = self.log.start_offset if offset is None else offset
        upper = self.log.end_offset if upper is None else upper
        found = []
        while at < upper:
            read = self.log.read_batches(at, max_bytes=max_bytes, upper=upper)
            if not read.batches:
                break
            found += [bytes(batch) for batch in read.batches]
            at = read.next_offset
        return found

    def offsets(self, offset=None, **options):
        return [record.offset for batch in self.read(offset, **options) for record in decode_records(batch)]

    def values(self):
        return [
            record.value
            for batch in self.read()
            if not parse_batch_header(batch).is_control
            for record in decode_records(batch)
        ]

    def path(self, base=0, suffix=LOG):
        return f"{HERE}/{file_name(base, suffix)}"

    def lose_checkpoint(self):
        self.files.remove(f"{HERE}/{CHECKPOINT}")

    def rewrite(self, path, content):
        """Put other bytes into a file, as a bad disk or a bad operator does."""
        file = self.files.open(path, create=True)
        file.truncate(0)
        file.append([content])
        file.sync()

    def names(self, suffix):
        return [name for name in self.files.list(HERE) if name.endswith(suffix)]
