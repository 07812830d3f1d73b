"""A node that comes to lead, or must cut, a thousand partitions at once: its event loop goes on.

Files on a real disk, real threads. What blocks (syncs, truncations, atomic replacements) must never be called on the
thread of the loop; the longest step of the loop is measured, and printed with `-s`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest

from goqueue.broker.replicas.partitions import Partitions
from goqueue.cluster.replication.terms import Terms
from goqueue.codec.batch_encode import encode_batch
from goqueue.config import DurabilityConfig, LogConfig
from goqueue.metadata.events import Assignment, AssignmentsChanged, FeatureFinalised, Topic, TopicCreated
from goqueue.metadata.features import METADATA_VERSION
from goqueue.metadata.shared.kv_store import KvMetadata
from goqueue.node.disk.flusher import Flusher
from goqueue.node.disk.offload import ThreadOffload
from goqueue.node.disk.os_file import OsFile
from goqueue.node.disk.os_files import OsFiles
from goqueue.node.system_clock import SystemClock
from goqueue.records import LogKind, NewRecord
from goqueue.testing.kv_model import KvModel

PARTITIONS = 1_000
# As many as the controller puts into one transaction.
BATCH = 50
STALL_MS_MAX = 200
TOPIC, TOPIC_ID = "orders", UUID(int=7)
HERE, THERE = 1, 2


def assignments(leader: int, epoch: int, numbers: range) -> dict[int, Assignment]:
    one = Assignment(leader=leader, leader_epoch=epoch, replicas=(HERE, THERE), isr=(HERE, THERE))
    return dict.fromkeys(numbers, one)


class Ticks:
    """Notes the longest pass of the loop, by the processor time of its thread, which other processes do not change."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0)
            self.longest_s = max(self.longest_s, time.thread_time() - before)

    def stop(self) -> float:
        self._task.cancel()
        return self.longest_s * 1000


@pytest.mark.slow
async def test_a_thousand_new_leaders_and_a_thousand_cuts_do_not_stall_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop_thread, blocking = threading.get_ident(), list[str]()
    is_watched = False

    def watched(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any, **kwargs: Any) -> Any:
            if is_watched and threading.get_ident() == loop_thread:
                blocking.append(name)
            return call(*args, **kwargs)

        return noted

    for owner, name in ((OsFile, "sync"), (OsFile, "truncate"), (OsFiles, "replace"), (OsFiles, "sync_dir")):
        monkeypatch.setattr(owner, name, watched(name, getattr(owner, name)))
    files, clock = OsFiles(tmp_path, create=True), SystemClock()
    work, syncs = ThreadOffload("work", threads_max=4), ThreadOffload("sync", threads_max=4)
    metadata = await KvMetadata.open(KvModel().client(), prefix="/goqueue", rng=Random(1))
    await metadata.commit([FeatureFinalised(METADATA_VERSION, 1)])
    flusher = Flusher(files, syncs, DurabilityConfig())
    terms = Terms(node_id=HERE, metadata=metadata, syncer=flusher, clock=clock, acks_written=False)
    partitions = Partitions(
        node_id=HERE,
        files=files,
        metadata=metadata,
        syncer=flusher,
        offload=work,
        clock=clock,
        log_config=LogConfig(),
        make_lock=threading.Lock,
        writers=terms.writer,
    )
    terms.bind(partitions)
    topic = Topic(TOPIC, TOPIC_ID, PARTITIONS, 2, {})
    alone = Assignment(leader=HERE, leader_epoch=0, replicas=(HERE, THERE), isr=(HERE,))
    await metadata.commit([TopicCreated(topic, (alone,) * PARTITIONS)])
    batch = encode_batch([NewRecord(None, b"x" * 100)], now_ms=clock.now_ms())
    for number in range(PARTITIONS):
        await partitions.opening(TOPIC, number, to_write=True)  # type: ignore[misc]
        writer = partitions.leader(TOPIC, number).writer
        for _ in range(3):
            writer.append(batch, now_ms=clock.now_ms())
    await flusher.flush()

    async def elect(leader: int, epoch: int) -> None:
        for first in range(0, PARTITIONS, BATCH):
            changed = assignments(leader, epoch, range(first, min(first + BATCH, PARTITIONS)))
            await metadata.commit([AssignmentsChanged(TOPIC, TOPIC_ID, changed)])

    await elect(THERE, 1)
    is_watched = True
    ticks, began = Ticks(), time.perf_counter()
    opened = [partitions.replica(TOPIC, number) for number in range(PARTITIONS)]
    await asyncio.gather(
        *(partitions.rework(one, LogKind.DATA, "a test cuts it", partial(one.log.truncate_to, 2)) for one in opened)
    )
    cut_ms, cut_s = ticks.stop(), time.perf_counter() - began
    assert {one.log.end_offset for one in opened} == {2}
    ticks, began = Ticks(), time.perf_counter()
    await elect(HERE, 2)
    assert all(partitions.leader(TOPIC, number).is_led_here for number in range(PARTITIONS))
    lead_ms, lead_s = ticks.stop(), time.perf_counter() - began
    is_watched = False
    print(f"\n{PARTITIONS} cuts in {cut_s:.2f} s, longest step {cut_ms:.0f} ms of the loop's processor time")
    print(f"{PARTITIONS} new leaders in {lead_s:.2f} s, longest step {lead_ms:.0f} ms")
    assert blocking == [], f"{len(blocking)} blocking calls on the event loop: {sorted(set(blocking))}"
    assert cut_ms <= STALL_MS_MAX
    assert lead_ms <= STALL_MS_MAX
    await partitions.close()
    await flusher.close()
    await metadata.close()
    work.close()
    syncs.close()
