"""Damage to the files of one replica: it is never served, the replica does not lead, and it is made whole from others.

Every kind of file is harmed in every way: a bit is flipped, the file is cut, or it is gone. Once while the node is
down, once while it runs.
"""

from __future__ import annotations

import asyncio
import logging

import pytest
from tests.sim.cluster_stories import PLACE, end_of, produce, until

from goqueue.errors import CorruptFrame
from goqueue.log.partition_log import PartitionLog
from goqueue.records import LogKind
from goqueue.testing.cluster.checks import settle
from goqueue.testing.cluster.cluster import TOPIC, SimCluster
from goqueue.testing.memory_files import MemoryFiles

RECORDS = 30
SMALL = {"segment.bytes": "1024"}
HOME = f"logs/{TOPIC}/0"


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="goqueue.cluster")


def frames_of(log: PartitionLog) -> list[bytes]:
    found: list[bytes] = []
    offset = log.start_offset
    while offset < log.end_offset:
        read = log.read_frames(offset, max_bytes=1 << 20, upper=log.end_offset)
        assert read.batches, f"nothing at {offset}"
        found += [bytes(frame) for frame in read.batches]
        offset = read.next_offset
    return found


def log_of(cluster: SimCluster, number: int, kind: LogKind = LogKind.DATA) -> PartitionLog:
    node = cluster.slots[number].node
    assert node is not None
    member = node.partitions.replica(*PLACE).member(kind)
    assert member is not None
    return member.log


def harm(files: MemoryFiles, path: str, how: str) -> None:
    size = files.size(path)
    if how == "deleted":
        files.remove(path)
        files.sync_all()
    elif how == "flipped":
        if size:
            files.flip_bit(path, size // 2)
    else:
        file = files.open(path)
        file.truncate(size // 2)
        file.sync()
        file.close()


async def fill(cluster: SimCluster) -> None:
    """Records in several segments, some of them with a slot in the delay log."""
    for sequence in range(RECORDS):
        await produce(cluster, 1, sequence, slot=sequence % 3 == 0)
    await settle(cluster)
    assert len(log_of(cluster, 1).segments) > 3


async def whole_again(cluster: SimCluster, harmed: int) -> None:
    """Wait until all is repaired; until then, the harmed replica leads for a second at most."""
    led_s = 0.0
    for _ in range(3000):
        assignment = cluster.metadata.image.assignments(cluster.topic_id)[0]
        node = cluster.slots[harmed].node
        damaged = [] if node is None else [log for log in node.partitions.open_logs() if log.damage]
        led_s = led_s + 0.02 if damaged and assignment.leader == harmed else 0.0
        assert led_s <= 1.0, "a damaged replica leads although others are healthy"
        if node is not None and not damaged and set(assignment.isr) == {1, 2, 3}:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"after a minute: {damaged}, {assignment}, {[log.damage for log in damaged]}")


def check_the_same(cluster: SimCluster) -> None:
    expected = frames_of(log_of(cluster, 1))
    assert len(expected) == RECORDS
    for number in (2, 3):
        assert frames_of(log_of(cluster, number)) == expected, f"node {number}"
    slots = {number: frames_of(log_of(cluster, number, LogKind.DELAY)) for number in (1, 2, 3)}
    assert slots[1] == slots[2] == slots[3]
    assert len(slots[1]) >= RECORDS // 3


def paths_of_every_kind(files: MemoryFiles) -> dict[str, str]:
    """One file of each kind, of a sealed segment where there is one, and those of the active one."""
    found: dict[str, str] = {}
    for directory in (HOME, f"{HOME}.delay"):
        names = [name for name in sorted(files.list(directory)) if "." in name]
        for name in names:
            kind = name.rpartition(".")[2]
            found.setdefault(f"{directory} first {kind}", f"{directory}/{name}")
            found[f"{directory} last {kind}"] = f"{directory}/{name}"
    return found


@pytest.mark.parametrize("how", ["flipped", "deleted", "cut"])
@pytest.mark.parametrize("harmed", [1, 3])
def test_files_of_every_kind_harmed_while_the_node_is_down(how: str, harmed: int) -> None:
    cluster = SimCluster(harmed, config=SMALL)

    async def story() -> None:
        await fill(cluster)
        kinds = paths_of_every_kind(cluster.slots[harmed].files)
        assert len(kinds) >= 12, kinds
        counted = 0
        for name in kinds:
            cluster.kill(harmed)
            await cluster.controller.end_session(harmed)
            files = cluster.slots[harmed].files
            path = paths_of_every_kind(files).get(name)
            if path is not None:
                harm(files, path, how)
            await cluster.start(harmed)
            # Long enough for everything to be read once.
            await asyncio.sleep(8)
            await whole_again(cluster, harmed)
            await settle(cluster)
            check_the_same(cluster)
            node = cluster.slots[harmed].node
            assert node is not None
            counted += node.partitions.repairs.segments + node.partitions.repairs.resets
        # A cut active segment looks like a torn write, and is sent again by the leader.
        assert counted >= 1, f"{counted} repairs were counted"

    cluster.run(story())


@pytest.mark.parametrize("how", ["flipped", "cut"])
@pytest.mark.parametrize("harmed", [1, 2])
def test_a_segment_harmed_while_the_node_runs(how: str, harmed: int) -> None:
    cluster = SimCluster(harmed, config=SMALL)

    async def story() -> None:
        await fill(cluster)
        node = cluster.slots[harmed].node
        assert node is not None
        segments = log_of(cluster, harmed).segments
        for segment in (segments[0], segments[1], segments[-2]):
            harm(cluster.slots[harmed].files, segment.path, how)
        with pytest.raises(CorruptFrame):
            frames_of(log_of(cluster, harmed))
        # A leader learns of it by a reader, a follower by its own reading.
        await until(lambda: node.partitions.repairs.segments >= 3, seconds=60)
        await whole_again(cluster, harmed)
        check_the_same(cluster)
        assert node.partitions.repairs.records > 0

    cluster.run(story())


def test_what_is_damaged_on_all_replicas_is_shown_and_one_leads() -> None:
    cluster = SimCluster(5, config=SMALL)

    async def story() -> None:
        await fill(cluster)
        for number in (1, 2, 3):
            harm(cluster.slots[number].files, log_of(cluster, number).segments[0].path, "flipped")
        await asyncio.sleep(20)
        assignment = cluster.metadata.image.assignments(cluster.topic_id)[0]
        assert assignment.leader > 0
        leader = log_of(cluster, assignment.leader)
        assert leader.damage
        with pytest.raises(CorruptFrame):
            frames_of(leader)
        await produce(cluster, assignment.leader, 0, producer_id=2)
        assert end_of(cluster, assignment.leader) == RECORDS + 1

    cluster.run(story())


def test_ranges_damaged_on_different_replicas_repair_each_other() -> None:
    cluster = SimCluster(6, config=SMALL)

    async def story() -> None:
        await fill(cluster)
        for number in (1, 2, 3):
            harm(cluster.slots[number].files, log_of(cluster, number).segments[number - 1].path, "flipped")
        await asyncio.sleep(20)
        for number in (1, 2, 3):
            await whole_again(cluster, number)
        check_the_same(cluster)

    cluster.run(story())
