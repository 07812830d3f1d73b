"""`make bench-log`: the partition log against the bare system calls it is made of.

    python -m tests.bench.bench_log [--quick] [--cpu] [--only NAME ...] [--directory DIR]

Every ratio compares two things of the same run that take turns. The bare loops compute the
same checksums as the log and make the same system calls, and do nothing else. Prints a
Markdown table; exit code 1 if a bar was not met.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from crc32c import crc32c
from tests.bench.command import command, finish, run
from tests.bench.log_in_node import bench_commit, bench_start
from tests.bench.log_workload import FULL, NOW_MS, QUICK, READ_BYTES, SEGMENT_BYTES, Scale, a_batch, empty, open_log
from tests.bench.measure import (
    MIB,
    Bar,
    Stopwatch,
    alternate,
    at_least,
    at_most,
    rss_bytes,
    seconds_of,
    speed_ratio,
    told,
)

from goqueue.codec.frame_walk import walk_frames
from goqueue.log.partition_log import PartitionLog
from goqueue.node.disk.os_files import OsFiles

# --- the log and the bare loops -----------------------------------------------------------


def append_with_log(root: str, batch: bytes, count: int) -> float:
    with empty(root):
        log = open_log(OsFiles(root), "logs/t/0")
        # The very first append makes the directory and syncs it: that is not what is measured.
        log.append_batch(batch, now_ms=NOW_MS, leader_epoch=0)

        def work() -> None:
            append = log.append_batch
            for _ in range(count):
                append(batch, now_ms=NOW_MS, leader_epoch=0)

        seconds = seconds_of(work)
        log.abandon()
    return seconds


def append_bare(root: str, batch: bytes, count: int) -> float:
    """What the log must do at least: the batch's checksum, the frame's checksum, writev."""
    with empty(root):
        view, header, prefix = memoryview(batch), bytes(34), bytes(16)
        rest, checked, tail, end = view[16:], view[21:], memoryview(header)[8:], len(batch) + 34

        def work() -> None:
            descriptor, size = -1, SEGMENT_BYTES
            for offset in range(count):
                if size + end > SEGMENT_BYTES:
                    descriptor, size = roll(root, descriptor, offset), 0
                crc32c(checked)
                crc32c(rest, crc32c(prefix, crc32c(tail)))
                os.writev(descriptor, (header, prefix, rest))
                size += end
            os.close(descriptor)

        return seconds_of(work)


def append_raw(root: str, batch: bytes, count: int) -> float:
    """The system call alone."""
    with empty(root):
        header, end = bytes(34), len(batch) + 34

        def work() -> None:
            descriptor, size = -1, SEGMENT_BYTES
            for offset in range(count):
                if size + end > SEGMENT_BYTES:
                    descriptor, size = roll(root, descriptor, offset), 0
                os.writev(descriptor, (header, batch))
                size += end
            os.close(descriptor)

        return seconds_of(work)


def roll(root: str, descriptor: int, offset: int) -> int:
    if descriptor >= 0:
        os.close(descriptor)
    return os.open(f"{root}/{offset:020d}.bare", os.O_RDWR | os.O_CREAT, 0o600)


# --- the bars -----------------------------------------------------------------------------


def bench_append(root: str, scale: Scale) -> Iterator[Bar]:
    for name, size, bar in (("64 KB", 64 * 1024, 0.7), ("1 MB", MIB, 0.85)):
        batch = a_batch(size)
        count = scale.round_bytes // len(batch)
        works = [
            lambda work=work, batch=batch, count=count: work(root, batch, count)  # type: ignore[misc]
            for work in (append_with_log, append_bare, append_raw)
        ]
        ours, bare, raw = alternate(scale.rounds, *works)
        yield at_least(f"append, {name} batches: share of bare CRCs + writev", speed_ratio(ours, bare), bar)
        yield told(f"append, {name} batches: share of raw writev", speed_ratio(ours, raw))
        yield told(f"append, {name} batches", count * len(batch) / MIB / median(ours), unit=" MB/s", digits=0)


def bench_read(root: str, scale: Scale) -> Iterator[Bar]:
    batch = a_batch(64 * 1024)
    count = scale.round_bytes // len(batch)
    with empty(root):
        log = open_log(OsFiles(root), "logs/t/0")
        for _ in range(count):
            log.append_batch(batch, now_ms=NOW_MS, leader_epoch=0)
        log.high_watermark = end = log.end_offset
        paths = sorted(Path(root).rglob("*.log"))

        def read_log() -> None:
            offset = 0
            while offset < end:
                offset = log.read_batches(offset, max_bytes=READ_BYTES, upper=end).next_offset

        def read_files(use: Callable[[bytes], object]) -> None:
            for path in paths:
                descriptor = os.open(path, os.O_RDONLY)
                position = 0
                while data := os.pread(descriptor, READ_BYTES, position):
                    use(data)
                    position += len(data)
                os.close(descriptor)

        ours, bare, raw = alternate(
            scale.rounds,
            lambda: seconds_of(read_log),
            lambda: seconds_of(lambda: read_files(crc32c)),
            lambda: seconds_of(lambda: read_files(len)),
        )
        log.abandon()
    yield at_least("sequential read, 64 KB batches: share of bare pread + CRC", speed_ratio(ours, bare), 0.8)
    yield told("sequential read: share of raw pread", speed_ratio(ours, raw))
    yield told("sequential read", count * len(batch) / MIB / median(ours), unit=" MB/s", digits=0)


def bench_recovery(root: str, scale: Scale) -> Iterator[Bar]:
    for name, size, total, bar in (
        ("64 KB frames", 64 * 1024, SEGMENT_BYTES, 400),
        ("200-byte frames", 200, scale.small_frames_bytes, 50),
    ):
        batch = a_batch(size)
        with empty(root):
            log = open_log(OsFiles(root), "logs/t/0")
            while log.size_bytes + len(batch) + 34 < total:
                log.append_batch(batch, now_ms=NOW_MS, leader_epoch=0)
            end, written = log.end_offset, log.size_bytes
            log.abandon()
            data = next(Path(root).rglob("*.log")).read_bytes()

            def recover(end: int = end) -> float:
                # Each round meets the directory as the crash left it: whatever recovery wrote is undone.
                clear_derived_files(root)
                files = OsFiles(root)
                opened: list[PartitionLog] = []
                seconds = seconds_of(lambda: opened.append(open_log(files, "logs/t/0")))
                if opened[0].end_offset != end:
                    raise SystemExit(f"recovery found {opened[0].end_offset} of {end} offsets")
                opened[0].abandon()
                files.close()
                return seconds

            def walk(data: bytes = data) -> float:
                return seconds_of(lambda: sum(1 for _ in walk_frames(data)))

            ours, checked = alternate(min(5, scale.rounds), recover, walk)
        yield at_least(f"recovery scan, {name}", written / MIB / median(ours), bar, unit=" MB/s", digits=0)
        yield told(f"checking alone, {name}", written / MIB / median(checked), unit=" MB/s", digits=0)


def clear_derived_files(root: str) -> None:
    for path in Path(root).rglob("*"):
        if path.is_file() and path.suffix != ".log":
            path.unlink()


def bench_memory(root: str, scale: Scale) -> Iterator[Bar]:
    # A process of its own, for nothing else shall have left memory behind.
    parent = str(Path(root).parent)
    command = [sys.executable, "-m", "tests.bench.bench_log", "--grow", str(scale.growth_bytes), "--directory", parent]
    grown = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    yield at_most(
        f"memory gained by writing {scale.growth_bytes / 1024**3:g} GB", grown / MIB, 64, unit=" MB", digits=1
    )


def grow(root: str, total: int) -> int:
    """Write `total` bytes of small and large batches and return by how much the process grew."""
    with empty(root):
        log = open_log(OsFiles(root), "logs/t/0")
        small, large = a_batch(2000), a_batch(64 * 1024)

        def write(until: int) -> None:
            while log.size_bytes < until:
                log.append_batch(small, now_ms=NOW_MS, leader_epoch=0)
                log.append_batch(large, now_ms=NOW_MS, leader_epoch=0)
                sync = log.begin_sync() if log.size_bytes % (4 * MIB) < 70_000 else None
                if sync is not None:
                    sync.run()
                    log.end_sync(sync, None)

        write(min(total // 16, SEGMENT_BYTES))
        before = rss_bytes()
        write(total)
        return rss_bytes() - before


BENCHES: dict[str, Callable[[str, Scale], Iterator[Bar]]] = {
    "append": bench_append,
    "read": bench_read,
    "recovery": bench_recovery,
    "start": bench_start,
    "memory": bench_memory,
    "commit": bench_commit,
}


def main() -> int:
    parser = command(__doc__, only=BENCHES, directory=True)
    parser.add_argument("--cpu", action="store_true", help="count processor seconds where nothing waits for the disk")
    parser.add_argument("--grow", type=int, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="goqueue-bench-", dir=options.directory) as directory:
        root = f"{directory}/data"
        if options.grow is not None:
            print(grow(root, options.grow))
            return 0
        scale = QUICK if options.quick else FULL
        if options.cpu:
            Stopwatch.clock = staticmethod(time.process_time)
        bars = run(options.only, lambda name: BENCHES[name](root, scale))
    return finish(bars, quick=options.quick)


if __name__ == "__main__":
    sys.exit(main())
