"""Partitions: opened when used, never somebody else's, gone when deleted."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from uuid import UUID

import pytest
from tests.unit.broker.stack import Stack, values_in

from goqueue.broker.topics import NewTopic
from goqueue.errors import PartitionNotFound, ShuttingDown, TopicNotFound
from goqueue.log.state.checkpoint import stored_topic_id
from goqueue.records import Acks, NewRecord, TopicPartition
from goqueue.testing.disk import Survival
from goqueue.testing.faults import Crash
from goqueue.testing.memory_files import MemoryFiles
from goqueue.testing.sim_loop import Stuck, run


async def test_nothing_is_opened_until_it_is_used() -> None:
    files = MemoryFiles()
    stack = Stack(files)
    for number in range(10):
        await stack.topic(f"t{number}", 100)
    await stack.write(b"v", topic="t3", partition=7)
    await stack.stop()
    opened_before = files.faults.counts["open"]
    again = await Stack(files).start()
    assert again.partitions.all_open() == []
    assert files.faults.counts["open"] - opened_before < 10
    assert again.partitions.on_disk() == [TopicPartition("t3", 7)]
    assert again.queries.offsets("t3", 7).end_offset == 1
    assert [one.key for one in again.partitions.all_open()] == [("t3", 7)]


async def test_a_partition_has_no_directory_until_its_first_append() -> None:
    stack = Stack()
    await stack.topic("t", 3)
    assert stack.partitions.leader("t", 1).log.end_offset == 0
    assert stack.files.list("logs") == []
    await stack.write(b"v", partition=1)
    assert stack.files.list("logs/t") == ["1"]


async def test_the_same_partition_is_opened_once() -> None:
    stack = Stack()
    await stack.topic()
    assert stack.partitions.leader("t", 0) is stack.partitions.leader("t", 0)


async def test_what_is_not_there_is_not_found() -> None:
    stack = Stack()
    await stack.topic("t", 2)
    with pytest.raises(TopicNotFound):
        stack.partitions.leader("nope", 0)
    for partition in (2, -1, 2**31):
        with pytest.raises(PartitionNotFound):
            stack.partitions.leader("t", partition)


async def test_after_stop_nothing_is_opened_and_everything_is_kept() -> None:
    files = MemoryFiles()
    stack = Stack(files)
    await stack.topic("t", 20)
    for partition in range(20):
        await stack.write(b"%d" % partition, partition=partition)
    await stack.stop()
    assert await stack.partitions.close() == []
    with pytest.raises(ShuttingDown):
        stack.partitions.leader("t", 0)
    again = Stack(files.crash(Survival.NOTHING))
    for partition in range(20):
        assert [record.value for record in await again.read_all("t", partition)] == [b"%d" % partition]


async def test_a_log_that_cannot_be_closed_is_reported_and_the_others_are_closed() -> None:
    files = MemoryFiles()
    stack = Stack(files)
    await stack.topic("t", 3)
    for partition in range(3):
        await stack.write(b"v", partition=partition)
    # Dirty again, so that closing has something to sync.
    for partition in range(3):
        stack.publish.append("t", partition, stack.batch(b"w"), acks=1)
    files.faults.fail("sync", "logs/t/1/*", times=100)
    failed = await stack.partitions.close()
    assert [key for key, _ in failed] == [TopicPartition("t", 1)]


async def test_a_deleted_topic_leaves_nothing_and_its_name_starts_clean() -> None:
    """A recreated topic inherited what the old one had left."""
    files = MemoryFiles()
    stack = Stack(files)
    await stack.topic("t", 2)
    for partition in (0, 1):
        await stack.write(b"old", partition=partition)
    old = await stack.topics.delete("t")
    with pytest.raises(TopicNotFound):
        stack.partitions.leader("t", 0)
    new = await stack.topic("t", 1)
    assert new.topic_id != old.topic_id
    assert stack.queries.offsets("t", 0).end_offset == 0
    assert await stack.write(b"new") == 0
    await stack.stop()
    assert files.list("deleted") == []
    assert stack.metadata.image.deletions() == {}
    again = Stack(files.crash(Survival.NOTHING))
    assert [record.value for record in await again.read_all()] == [b"new"]
    with pytest.raises(PartitionNotFound):
        again.partitions.leader("t", 1)


async def test_a_deletion_that_is_reported_as_finished_stays_finished_after_a_power_cut() -> None:
    files = MemoryFiles()
    stack = Stack(files)
    await stack.topic("t")
    await stack.write(b"old")
    await stack.topics.delete("t")
    await stack.stop()
    assert stack.metadata.image.deletions() == {}
    survivor = files.crash(Survival.NOTHING)
    assert survivor.list("logs") == []
    assert survivor.list("deleted") == []


async def test_a_deleted_topic_leaves_nothing_in_memory() -> None:
    """Whatever is kept per topic goes with it."""
    stack = Stack()
    for number in range(3):
        await stack.topic(f"t{number}", 2)
        await stack.publish.publish_records(f"t{number}", [NewRecord(None, b"v")] * 2, acks=Acks.LEADER)
        await stack.topics.delete(f"t{number}")
    partitions = stack.partitions
    assert (partitions.all_open(), len(partitions._settings)) == ([], 0)


async def test_deleting_wakes_those_who_wait_for_records() -> None:
    stack = Stack()
    await stack.topic()
    waiting = asyncio.create_task(stack.read(0, max_wait_ms=60_000))
    await asyncio.sleep(0)
    await stack.topics.delete("t")
    fetched = await asyncio.wait_for(waiting, 5)
    assert isinstance(fetched.error, TopicNotFound)


async def test_a_directory_of_another_topic_is_set_aside_and_never_served() -> None:
    """Restored or copied files that the metadata does not know."""
    files = MemoryFiles()
    donor = Stack(files)
    await donor.topic("t")
    await donor.write(b"stranger")
    await donor.stop()
    stranger = donor.topics.get("t").topic_id
    for name in files.list("metadata"):
        files.remove(f"metadata/{name}")
    stack = Stack(files, seed=99)
    await stack.topic("t")
    assert values_in(await stack.read()) == []
    assert await stack.write(b"mine") == 0
    assert values_in(await stack.read()) == [b"mine"]
    (kept,) = files.list("set-aside/t")
    assert stored_topic_id(files, f"set-aside/t/{kept}") == stranger
    assert b"stranger" in b"".join(data for path, data in files.tree().items() if path.startswith("set-aside/"))


async def test_strangers_of_the_same_name_are_all_kept() -> None:
    files = MemoryFiles()
    for seed in range(3):
        stack = Stack(files, seed=seed)
        await stack.topic("t")
        await stack.write(b"%d" % seed)
        await stack.stop()
        if seed < 2:
            for name in files.list("metadata"):
                files.remove(f"metadata/{name}")
    assert len(files.list("set-aside/t")) == 2


async def test_a_deletion_that_cannot_move_its_files_is_finished_at_the_next_start() -> None:
    files = MemoryFiles()
    stack = Stack(files)
    await stack.topic("t")
    await stack.write(b"old")
    files.faults.fail("rename", "logs/t", times=1)
    await stack.topics.delete("t")
    assert files.list("logs/t") == ["0"]
    assert len(stack.metadata.image.deletions()) == 1
    new = await stack.topic("t")
    assert await stack.write(b"new") == 0
    await stack.stop()
    again = await Stack(files).start()
    await again.stop()
    assert again.metadata.image.deletions() == {}
    assert again.topics.get("t") == new
    final = Stack(files)
    assert [record.value for record in await final.read_all()] == [b"new"]


@pytest.mark.parametrize("survival", list(Survival))
def test_a_crash_at_any_step_of_delete_and_recreate_never_mixes_the_two(survival: Survival) -> None:
    """With the plug pulled at every change to the disk."""
    crashes = 0
    for step in range(1, 1000):
        files = MemoryFiles(seed=step)
        life = Life(files, crash_after_steps=step)
        # Without power nothing goes on: whoever still waits is stuck, and that is no failure here.
        with suppress(Crash, Stuck, asyncio.CancelledError):
            run(life.run())
        if "stopped" in life.reached:
            break
        crashes += 1
        run(_check_survivor(files.crash(survival), life.reached, life.ids, step))
    assert crashes > 10


class Life:
    """A topic is written, deleted and made anew; the power goes at some step after the writing."""

    def __init__(self, files: MemoryFiles, *, crash_after_steps: int) -> None:
        self.files = files
        self.crash_after_steps = crash_after_steps
        self.reached: list[str] = []
        self.ids: dict[str, UUID] = {}

    async def run(self) -> None:
        stack = await Stack(self.files).start()
        self.ids["old"] = (await stack.topic("t", 2)).topic_id
        for partition in (0, 1):
            await stack.write(b"old", partition=partition)
        self.files.faults.crash_at_step = self.files.faults.steps + self.crash_after_steps
        await stack.topics.delete("t")
        self.reached.append("deleted")
        self.ids["new"] = (await stack.topics.create(NewTopic("t", 2))).topic_id
        self.reached.append("created")
        await stack.write(b"new", partition=0)
        self.reached.append("written")
        await stack.stop()
        self.reached.append("stopped")


async def _check_survivor(files: MemoryFiles, reached: list[str], ids: dict[str, UUID], step: int) -> None:
    stack = await Stack(files, seed=1000).start()
    where = f"step {step}, reached {reached}"
    topic = stack.topics.find("t")
    if topic is None:
        assert "created" not in reached, where
        topic = await stack.topic("t", 2)
    found = [[record.value for record in await stack.read_all("t", partition)] for partition in (0, 1)]
    if topic.topic_id == ids["old"]:
        assert "deleted" not in reached, where
        assert found == [[b"old"], [b"old"]], where
    else:
        assert found[1] == [], where
        assert found[0] in ([], [b"new"]), where
        assert found[0] == [b"new"] or "written" not in reached, where
    await stack.stop()
    assert stack.metadata.image.deletions() == {}, where
    assert files.list("deleted") == [], where
    stray = b"".join(data for path, data in files.tree().items() if path.startswith("logs/"))
    assert topic.topic_id == ids["old"] or b"old" not in stray, where
