"""The log inside a node: how fast it starts, and how many writers one sync serves."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from tests.bench.log_workload import NOW_MS, Scale, a_batch, empty, open_log
from tests.bench.measure import Bar, at_least, at_most, told

from goqueue.broker.topics import NewTopic
from goqueue.config import BrokerConfig, Config, DurabilityConfig, ListenersConfig
from goqueue.node.assemble import assemble
from goqueue.node.disk.flusher import Flusher
from goqueue.node.disk.offload import ThreadOffload
from goqueue.node.disk.os_files import OsFiles
from goqueue.ports import Files
from goqueue.records import Acks
from goqueue.testing.memory_files import MemoryFiles


def bench_start(root: str, scale: Scale) -> Iterator[Bar]:
    with empty(root):
        asyncio.run(fill_topic(root, scale.partitions))
        to_ready = [seconds_to_ready(root) for _ in range(min(5, scale.rounds))]
        to_open = [asyncio.run(seconds_to_open(root, scale.partitions)) for _ in range(min(5, scale.rounds))]
    count = f"{scale.partitions:,} partitions"
    yield at_most(f"clean start with {count}: process to ready file", median(to_ready), 3, unit=" s")
    yield at_most(f"clean start with {count}: node started and every log opened", median(to_open), 3, unit=" s")


def config_for(root: str) -> Config:
    return Config(
        broker=BrokerConfig(data_dir=root), listeners=ListenersConfig(kafka="127.0.0.1:0", http="127.0.0.1:0")
    )


async def fill_topic(root: str, partitions: int) -> None:
    """A topic with something in every partition, and a clean stop."""
    node = assemble(config_for(root))
    services = (await node.start()).services
    await services.topics.create(NewTopic("t", partitions=partitions))
    batch = a_batch(4096)
    for partition in range(partitions):
        services.publish.append("t", partition, batch, acks=Acks.LEADER)
    await node.stop()


def seconds_to_ready(root: str) -> float:
    ready = Path(root) / "ready"
    command = [str(Path(sys.executable).with_name("goqueue"))]
    command += ["server", "--data-dir", root, "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    command += ["--ready-file", str(ready)]
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        while not ready.exists():
            if process.poll() is not None or time.perf_counter() - started > 60:
                raise SystemExit("the broker did not start")
            time.sleep(0.005)
        return time.perf_counter() - started
    finally:
        process.terminate()
        process.wait(30)


async def seconds_to_open(root: str, partitions: int) -> float:
    started = time.perf_counter()
    node = assemble(config_for(root))
    services = (await node.start()).services
    for partition in range(partitions):
        if services.queries.offsets("t", partition).end_offset == 0:
            raise SystemExit("a partition came up empty")
    seconds = time.perf_counter() - started
    await node.stop()
    return seconds


async def commits(files: Files, writers: int, seconds: float) -> tuple[float, float]:
    """Appends per second with that many writers who wait for the disk, and sync rounds per append."""
    offload = ThreadOffload("bench", threads_max=4)
    flusher = Flusher(files, offload, DurabilityConfig())
    log = open_log(files, f"logs/t/{writers}")
    batch, done, deadline = a_batch(1000), 0, time.perf_counter() + seconds

    async def writer() -> None:
        nonlocal done
        while time.perf_counter() < deadline:
            appended = log.append_batch(batch, now_ms=NOW_MS, leader_epoch=0)
            await flusher.synced(log, appended.end_offset)
            done += 1

    started = time.perf_counter()
    await asyncio.gather(*(writer() for _ in range(writers)))
    elapsed = time.perf_counter() - started
    rounds = flusher.stats.rounds
    await flusher.close()
    log.abandon()
    offload.close()
    return done / elapsed, rounds / done


def bench_commit(root: str, scale: Scale) -> Iterator[Bar]:
    files = MemoryFiles()
    files.faults.on_sync = lambda _: time.sleep(0.005)
    one, _ = asyncio.run(commits(files, 1, scale.commit_seconds))
    many, _ = asyncio.run(commits(files, 64, scale.commit_seconds))
    yield at_least("group commit, sync of 5 ms: 64 writers against one", many / one, 20, unit="x", digits=1)
    with empty(root):
        disk = OsFiles(root)
        before = fdatasync_ms(root)
        one, _ = asyncio.run(commits(disk, 1, scale.commit_seconds))
        many, rounds = asyncio.run(commits(disk, 64, scale.commit_seconds))
        after = fdatasync_ms(root)
        disk.close()
    yield at_most("group commit on disk, 64 writers: sync rounds per append", rounds, 0.05, digits=4)
    yield told("group commit on disk: acks=all per second, one writer", one, digits=0)
    yield told("group commit on disk: acks=all per second, 64 writers", many, digits=0)
    yield told("bare append of 1 KB + fdatasync, before", before, unit=" ms")
    yield told("bare append of 1 KB + fdatasync, after", after, unit=" ms")


def fdatasync_ms(root: str, times: int = 100) -> float:
    descriptor = os.open(f"{root}/bare", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    data, took = bytes(1000), []
    for _ in range(times):
        os.write(descriptor, data)
        started = time.perf_counter()
        os.fdatasync(descriptor)
        took.append(time.perf_counter() - started)
    os.close(descriptor)
    return median(took) * 1000
