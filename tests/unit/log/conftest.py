"""A bench for compaction: a log of sealed segments without the log around it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from goqueue.codec.batch import parse_batch_header
from goqueue.codec.batch_decode import decode_records
from goqueue.codec.batch_encode import encode_batch
from goqueue.codec.frame import HEADER_BYTES, Flags, encode_frame_header
from goqueue.codec.markers import encode_marker
from goqueue.log.compaction.compaction_pass import Compaction, finish_interrupted
from goqueue.log.index.batch_lanes import PRIORITY_HEADER
from goqueue.log.segment.file_names import LOG, offsets_of
from goqueue.log.segment.handle_cache import SegmentCache
from goqueue.log.segment.segment import Segment
from goqueue.log.state.producer_state import ProducerState
from goqueue.records import NewRecord
from goqueue.testing.memory_files import MemoryFiles

HERE = "topic/0"
DAY_MS = 24 * 3600 * 1000


@pytest.fixture
def bench():
    """An empty log."""
    return Bench()


@pytest.fixture(scope="module")
def make_bench():
    """For tests that need more than one."""
    return Bench


def keyed(key, value, lane=None):
    """A record from texts; a lane goes into its header."""
    headers = () if lane is None else ((PRIORITY_HEADER, lane),)
    as_bytes = [None if part is None else part.encode() for part in (key, value)]
    return NewRecord(*as_bytes, headers, timestamp_ms=5)


@dataclass
class Bench:
    """A log of sealed segments, without the log: what compaction sees of it."""

    files: MemoryFiles = field(default_factory=MemoryFiles)
    segments: list = field(default_factory=list)
    producers: ProducerState = field(default_factory=ProducerState)
    aborted: list = field(default_factory=list)
    sequences: dict = field(default_factory=dict)
    end: int = 0
    now_ms: int = 1_000_000

    def __post_init__(self):
        self.cache = SegmentCache(100)
        self.files.make_dirs(HERE)
        self.open = None

    def segment(self, base, size_bytes=0, end=None):
        end = base if end is None else end
        return Segment(self.files, self.cache, HERE, base, size_bytes=size_bytes, end_offset=end, interval_bytes=64)

    def frame(self, batch, *, flags=0, priority=2, headers=b""):
        """Append a batch at the end of the log, as the log would."""
        if self.open is None:
            self.open = self.segment(self.end)
            self.open.begin(create=True)
        body = self.end.to_bytes(8, "big") + batch[8:]
        header = encode_frame_header(
            [body], flags=flags, offset=self.end, timestamp_ns=self.now_ms * 10**6, priority=priority, headers=headers
        )
        batch_header = parse_batch_header(body)
        end = self.end + batch_header.last_offset_delta + 1
        commit = bool(flags & Flags.COMMIT) if flags & Flags.CONTROL else None
        aborted = self.producers.apply(batch_header, self.end, commit=commit, now_ms=self.now_ms)
        if aborted is not None:
            self.aborted.append(aborted)
        parts = [header, body, headers]
        size = sum(map(len, parts))
        self.open.append(parts, size=size, offset=self.end, end_offset=end, timestamp_ms=batch_header.max_timestamp_ms)
        self.end = end

    def write(self, *records, producer=-1, transactional=False, codec=0, **frame):
        sequence = self.sequences.get(producer, 0) if producer >= 0 else -1
        batch = encode_batch(
            [record if isinstance(record, NewRecord) else keyed(*record) for record in records],
            codec=codec,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=sequence,
            transactional=transactional,
            now_ms=5,
        )
        self.sequences[producer] = sequence + len(records)
        if transactional:
            frame["flags"] = frame.get("flags", 0) | Flags.TRANSACTIONAL
        self.frame(batch, **frame)

    def mark(self, producer, *, commit):
        batch = encode_marker(commit, producer_id=producer, producer_epoch=0, coordinator_epoch=0, now_ms=5)
        flags = Flags.CONTROL | Flags.TRANSACTIONAL | (Flags.COMMIT if commit else 0)
        self.frame(batch, flags=flags)

    def roll(self):
        if self.open is None:
            return
        self.open.write_indexes()
        for name in self.files.list(HERE):
            self.files.open(f"{HERE}/{name}").sync()
        self.files.sync_dir(HERE)
        self.open.seal()
        self.segments.append(self.open)
        self.open = None

    def aborted_between(self, first, upper):
        return [e for e in self.aborted if e.first_offset < upper and e.last_offset >= first]

    def compaction(self, **changes):
        options = {
            "files": self.files,
            "directory": HERE,
            "segments": tuple(self.segments),
            "aborted_between": self.aborted_between,
            "last_batches": self.producers.last_batches(),
            "now_ms": self.now_ms,
            "segment_bytes": 10**6,
            "index_interval_bytes": 64,
            "tombstone_retention_ms": DAY_MS,
        }
        return Compaction(**(options | changes))

    def replace(self, one):
        at = self.segments.index(one.old[0])
        self.segments[at : at + len(one.old)] = [self.segment(one.base_offset, one.size_bytes, one.end_offset)]
        for old in one.old:
            old.release()

    def compact(self, **changes):
        self.roll()
        pass_ = self.compaction(**changes)
        report = pass_.run()
        pass_.swap(self.replace)
        return report

    def compact_fully(self, **changes):
        reports = [self.compact(**changes)]
        while not reports[-1].is_complete:
            reports.append(self.compact(**changes))
            assert reports[-1].cleaned_to > reports[-2].cleaned_to, "a pass that got no further"
        return reports

    def reopened(self, files):
        """The log as a restart finds it: from the names on the disk alone."""
        bench = Bench(files, producers=self.producers, aborted=self.aborted, sequences=dict(self.sequences))
        finish_interrupted(files, HERE)
        bases = offsets_of(files.list(HERE), LOG)
        for base, end in zip(bases, [*bases[1:], self.end], strict=False):
            size = files.size(f"{HERE}/{base:020d}.log")
            bench.segments.append(bench.segment(base, size, end))
        bench.end, bench.now_ms = self.end, self.now_ms
        return bench

    def batches(self):
        """(header, batch) of every frame."""
        found = []
        for segment in self.segments:
            for _, header, frame in segment.frames():
                found.append((header, bytes(frame[HEADER_BYTES : HEADER_BYTES + header.value_bytes])))
        return found

    def records(self):
        """(offset, key, value) of every data record."""
        return [
            (r.offset, *(None if part is None else part.decode() for part in (r.key, r.value)))
            for header, batch in self.batches()
            if not header.flags & Flags.CONTROL
            for r in decode_records(batch)
        ]

    def newest(self):
        """The latest value of every key: what compaction must never lose."""
        return {key: (offset, value) for offset, key, value in self.records() if key is not None}
