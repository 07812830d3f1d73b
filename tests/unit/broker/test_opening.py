"""Opening: recovery and first segments are a thread's work, and what waits for them keeps its order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest
from tests.unit.broker.stack import Stack, at_once

from goqueue.broker.reading.fetch import FetchQuery, PartitionRead
from goqueue.broker.replicas.opening import Awaited, Then
from goqueue.errors import DiskFull, GoQueueError, NotLeader, StorageError, TopicNotFound
from goqueue.metadata.events import Assignment, AssignmentsChanged
from goqueue.records import Acks
from goqueue.testing.memory_files import MemoryFiles

T = TypeVar("T")


class Gate:
    """An offload that does its work when it is opened, in the order of asking."""

    def __init__(self) -> None:
        self.is_open = asyncio.Event()
        self.is_open.set()
        self.asked = 0

    async def __call__(self, work: Callable[[], T]) -> T:
        self.asked += 1
        await self.is_open.wait()
        return work()


async def restarted(gate: Gate, *, partitions: int = 1) -> Stack:
    """A stack over a topic with a record in each partition, none of them open."""
    files = MemoryFiles()
    stack = await Stack(files, offload=at_once).start()
    await stack.topic(partitions=partitions)
    for number in range(partitions):
        await stack.write(b"before", partition=number)
    await stack.stop()
    return await Stack(files, offload=gate).start()


async def test_what_is_open_waits_for_nothing() -> None:
    stack = await Stack().start()
    await stack.topic()
    await stack.write(b"a")
    assert stack.partitions.opening("t", 0) is None
    assert stack.partitions.opening("t", 0, to_write=True) is None
    assert stack.partitions.opening("nope", 0) is None, "the question itself says what is wrong"
    await stack.stop()


async def test_a_partition_is_opened_once_for_all_who_wait_and_never_on_the_loop() -> None:
    gate = Gate()
    stack = await restarted(gate)
    gate.is_open.clear()
    openers = [asyncio.ensure_future(stack.partitions.open_leader("t", 0)) for _ in range(3)]
    gate.is_open.set()
    opened = await asyncio.gather(*openers)
    assert gate.asked == 1
    assert len({id(one) for one in opened}) == 1
    assert stack.partitions.opened_on_loop == 0
    await stack.stop()


async def test_a_read_of_a_partition_that_is_not_open_is_a_cold_read() -> None:
    gate = Gate()
    stack = await restarted(gate, partitions=2)
    reads = [PartitionRead("t", number, 0, 2**20) for number in range(2)]
    assert stack.fetch.fetch_now(FetchQuery(reads, max_bytes=2**20)) is None
    fetched = await stack.fetch.fetch(FetchQuery(reads, max_bytes=2**20))
    assert [one.high_watermark for one in fetched] == [1, 1]
    assert stack.partitions.opened_on_loop == 0
    await stack.stop()


async def test_the_first_segment_is_made_before_the_write() -> None:
    gate = Gate()
    stack = await Stack(offload=gate).start()
    await stack.topic()
    assert stack.partitions.opening("t", 0) is not None
    await stack.partitions.open_leader("t", 0)
    assert not stack.files.exists("logs/t/0"), "a reader leaves nothing behind"
    opening = stack.publish.opening("t", 0)
    assert opening is not None
    await opening
    assert stack.files.exists("logs/t/0/00000000000000000000.log")
    assert stack.publish.opening("t", 0) is None
    await stack.write(b"a")
    assert [record.value for record in await stack.read_all()] == [b"a"]
    await stack.stop()


async def test_a_segment_that_is_wanted_while_a_reader_opens_the_partition_is_made_as_well() -> None:
    gate = Gate()
    stack = await Stack(offload=gate).start()
    await stack.topic()
    gate.is_open.clear()
    reading = stack.partitions.opening("t", 0)
    await asyncio.sleep(0)
    assert stack.publish.opening("t", 0) is reading
    gate.is_open.set()
    assert reading is not None
    await reading
    assert stack.publish.opening("t", 0) is None
    await stack.stop()


async def test_work_that_waits_is_done_in_its_order_and_before_anybody_finds_the_partition_open() -> None:
    gate = Gate()
    stack = await restarted(gate)
    gate.is_open.clear()
    opening = stack.publish.opening("t", 0)
    assert opening is not None
    for value in (b"1", b"2", b"3"):
        opening.then(lambda _, value=value: stack.publish.append("t", 0, stack.batch(value), acks=Acks.LEADER))
    gate.is_open.set()
    await opening
    assert stack.publish.opening("t", 0) is None
    stack.publish.append("t", 0, stack.batch(b"4"), acks=Acks.LEADER)
    assert [record.value for record in await stack.read_all()] == [b"before", b"1", b"2", b"3", b"4"]
    await stack.stop()


async def test_who_cannot_wait_shares_the_log_with_the_thread_that_opens_it() -> None:
    gate = Gate()
    stack = await restarted(gate)
    gate.is_open.clear()
    opening = stack.publish.opening("t", 0)
    await asyncio.sleep(0)
    at_once_opened = stack.partitions.leader("t", 0)
    stack.publish.append("t", 0, stack.batch(b"now"), acks=Acks.LEADER)
    assert stack.partitions.opened_on_loop == 1
    gate.is_open.set()
    assert opening is not None
    await opening
    assert stack.partitions.leader("t", 0) is at_once_opened
    assert [record.value for record in await stack.read_all()] == [b"before", b"now"]
    await stack.stop()


async def test_a_topic_that_is_deleted_while_a_thread_is_about_to_open_it_gets_no_directory_back() -> None:
    gate = Gate()
    stack = await restarted(gate)
    files = stack.files
    # Only the opening waits: the deletion's own work goes on.
    waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def held_up(work: Callable[[], T]) -> T:
        await waiting
        return work()

    stack.partitions._openings._offload = held_up
    opening = stack.publish.opening("t", 0)
    await asyncio.sleep(0)
    stack.partitions._openings._offload = gate
    await stack.topics.delete("t")
    waiting.set_result(None)
    assert opening is not None
    with pytest.raises(TopicNotFound):
        await opening
    assert not files.exists("logs/t/0")
    assert stack.partitions.all_open() == []
    await stack.stop()


async def test_a_failure_to_open_is_told_to_all_who_wait_and_tried_again_for_the_next() -> None:
    gate = Gate()
    stack = await Stack(offload=gate).start()
    await stack.topic()
    make_dirs, stack.files.make_dirs = stack.files.make_dirs, _no_space  # type: ignore[method-assign]
    told: list[GoQueueError | None] = []
    opening = stack.publish.opening("t", 0)
    assert opening is not None
    opening.then(told.append)
    with pytest.raises(DiskFull):
        await opening
    assert isinstance(told[0], StorageError)
    stack.files.make_dirs = make_dirs  # type: ignore[method-assign]
    again = stack.publish.opening("t", 0)
    assert again is not None
    await again
    await stack.write(b"a")
    await stack.stop()


def _no_space(path: str) -> None:
    raise OSError(28, "No space left on device", path)


async def test_a_node_that_stops_waits_for_what_it_was_opening_and_closes_it() -> None:
    gate = Gate()
    stack = await restarted(gate)
    gate.is_open.clear()
    opening = stack.partitions.opening("t", 0)
    await asyncio.sleep(0)
    stopping = asyncio.ensure_future(stack.stop())
    await asyncio.sleep(0)
    gate.is_open.set()
    await stopping
    assert opening is not None
    await opening
    assert stack.partitions.all_open() == []


async def test_a_thousand_partitions_are_opened_without_work_on_the_loop() -> None:
    gate = Gate()
    stack = await restarted(gate, partitions=1000)
    await stack.queries.opened(("t", number) for number in range(1000))
    assert len(stack.partitions.all_open()) == 1000
    assert stack.partitions.opened_on_loop == 0
    assert gate.asked >= 1000
    await stack.stop()


async def test_a_write_that_waits_for_a_follower_to_open_is_refused_when_it_is_open() -> None:
    """A client that knows the leader of before asks a node that has just come back."""
    stack = await restarted(Gate())
    found = stack.topics.get("t")
    elsewhere = Assignment(leader=2, leader_epoch=1, replicas=(1, 2), isr=(1, 2))
    await stack.metadata.commit([AssignmentsChanged("t", found.topic_id, {0: elsewhere})])
    asked_again: list[Awaited | None] = []

    def write(_: GoQueueError | None) -> None:
        asked_again.append(stack.publish.opening("t", 0))
        assert len(asked_again) < 5, "it is told to wait for what it has waited for"
        if asked_again[-1] is not None:
            asked_again[-1].then(write)

    opening = stack.publish.opening("t", 0)
    assert opening is not None
    opening.then(write)
    await opening
    assert asked_again == [None]
    with pytest.raises(NotLeader, match="node 2 does"):
        stack.publish.append("t", 0, stack.batch(b"b"), acks=Acks.ALL)
    await stack.stop()


async def test_writes_that_wait_for_a_follower_are_done_in_order_when_it_was_made_leader_meanwhile() -> None:
    gate = Gate()
    stack = await Stack(offload=gate).start()
    await stack.topic()
    found = stack.topics.get("t")

    async def lead(node: int, epoch: int) -> None:
        assignment = Assignment(leader=node, leader_epoch=epoch, replicas=(1, 2), isr=(1, 2))
        await stack.metadata.commit([AssignmentsChanged("t", found.topic_id, {0: assignment})])

    await lead(2, 1)
    opening = stack.publish.opening("t", 0)
    assert opening is not None
    done: list[int] = []

    def write(number: int) -> Then:
        def work(_: GoQueueError | None) -> None:
            following = stack.publish.opening("t", 0)
            if following is not None:
                following.then(work)
            else:
                done.append(number)

        return work

    gate.is_open.clear()
    opening.then(write(1))
    opening.then(write(2))
    leading = asyncio.ensure_future(lead(1, 2))
    await asyncio.sleep(0)
    gate.is_open.set()
    await asyncio.gather(opening, leading)
    await stack.publish.open("t", 0)
    assert done == [1, 2]
    await stack.stop()


async def test_a_write_goes_behind_those_that_wait_for_a_segment_which_is_there_already() -> None:
    """A thread makes the segment, and the event loop hears of it a moment later."""
    gate = Gate()
    stack = await Stack(offload=gate).start()
    await stack.topic()
    await stack.partitions.open_leader("t", 0)
    gate.is_open.clear()
    first = stack.publish.opening("t", 0)
    assert first is not None
    done: list[int] = []
    first.then(lambda _: done.append(1))
    # As the thread does.
    stack.partitions.leader("t", 0).log.make_first_segment()
    second = stack.publish.opening("t", 0)
    assert second is first
    second.then(lambda _: done.append(2))
    gate.is_open.set()
    await first
    assert done == [1, 2]
    assert stack.publish.opening("t", 0) is None
    await stack.stop()
