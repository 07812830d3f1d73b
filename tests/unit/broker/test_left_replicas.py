"""A replica that moved to other nodes is removed from this node's disk, and no other."""

from __future__ import annotations

import asyncio

from tests.unit.broker.stack import Stack
from tests.unit.broker.test_roles import HERE, THERE, assign, led_by

from goqueue.metadata.events import AssignmentsChanged
from goqueue.records import LogKind, TopicPartition
from goqueue.testing.memory_files import MemoryFiles


async def started(files: MemoryFiles | None = None, *, remove_unknown: bool = False) -> Stack:
    stack = await Stack(files).start()
    await stack.partitions.start(remove_unknown=remove_unknown, remove_left=True)
    return stack


async def removals() -> None:
    """Let what runs in the background have its turns."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_the_logs_of_a_replica_that_moved_away_are_removed_and_its_neighbour_stays() -> None:
    stack = await started()
    await stack.topic(partitions=2)
    for partition in (0, 1):
        await stack.write(b"one", partition=partition)
    await stack.partitions.open_member(TopicPartition("t", 0), LogKind.DELIVERY)
    assert sorted(stack.files.list("logs/t")) == ["0", "0.delivery", "1"]
    await assign(stack, led_by(THERE, 4), partition=0)
    await removals()
    assert stack.files.list("logs/t") == ["1"]
    assert stack.files.list("deleted") == []
    await stack.stop()


async def test_a_replica_that_still_follows_stays() -> None:
    stack = await started()
    await stack.topic(partitions=1)
    await stack.write(b"one")
    await assign(stack, led_by(THERE, 4, THERE, HERE), partition=0)
    await removals()
    assert stack.files.list("logs/t") == ["0"]
    await stack.stop()


async def test_a_replica_that_comes_back_before_its_files_are_gone_keeps_them() -> None:
    stack = await started()
    await stack.topic(partitions=1)
    await stack.write(b"one")
    found = stack.topics.get("t")
    gone, back = led_by(THERE, 4), led_by(THERE, 5, THERE, HERE)
    # Both at once, before the removal has had its turn.
    await stack.metadata.commit([AssignmentsChanged("t", found.topic_id, {0: one}) for one in (gone, back)])
    await removals()
    assert stack.partitions.replica("t", 0).log.end_offset == 1
    await stack.stop()


async def test_a_replica_that_moved_while_the_node_was_away_is_removed_at_its_start() -> None:
    files = MemoryFiles()
    stack = await Stack(files).start()
    await stack.topic(partitions=2)
    for partition in (0, 1):
        await stack.write(b"one", partition=partition)
    await assign(stack, led_by(THERE, 4), partition=0)
    await stack.stop()
    assert sorted(files.list("logs/t")) == ["0", "1"]
    again = await started(files, remove_unknown=True)
    await removals()
    assert files.list("logs/t") == ["1"]
    await again.stop()
