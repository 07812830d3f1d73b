"""What went in and out of each topic, counted once."""

from __future__ import annotations

import pytest
from tests.unit.broker.stack import Stack

from goqueue.codec.batch_encode import encode_batch
from goqueue.errors import CorruptBatch
from goqueue.records import Acks, NewRecord
from goqueue.testing.clock import ManualClock
from goqueue.testing.memory_files import MemoryFiles
from goqueue.testing.sim_loop import simulated


async def test_what_is_published_is_counted_and_a_retry_is_not() -> None:
    stack = Stack()
    await stack.topic()
    batch = encode_batch(
        [NewRecord(None, b"a"), NewRecord(None, b"b")],
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
        now_ms=stack.clock.now_ms(),
    )
    for _ in range(2):
        stack.publish.append("t", 0, batch, acks=Acks.LEADER)
    counted = stack.partitions.traffic.of("t")
    assert (counted.messages_in, counted.bytes_in) == (2, len(batch))


async def test_what_is_refused_is_counted_by_its_error() -> None:
    stack = Stack()
    await stack.topic()
    for _ in range(2):
        with pytest.raises(CorruptBatch):
            stack.publish.append("t", 0, b"nonsense", acks=Acks.LEADER)
    counted = stack.partitions.traffic.of("t")
    assert counted.failures == {"corrupt_message": 2}
    assert counted.messages_in == 0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@simulated
async def test_what_was_read_for_an_answer_that_was_not_given_is_not_counted(clock: ManualClock) -> None:
    files = MemoryFiles()
    stack = Stack(files, clock)
    await stack.topic()
    await stack.write(b"a", b"b", b"c")
    counted = stack.partitions.traffic.of("t")
    # Read when asked, and again when the time is up; given once.
    fetched = await stack.read(1, min_bytes=10**6, max_wait_ms=100)
    size = len(fetched.batches[0])
    assert (counted.messages_out, counted.bytes_out) == (2, size)
    files.faults.cold = lambda path: path.startswith("logs/")
    await stack.read()
    assert (counted.messages_out, counted.bytes_out) == (5, 2 * size)


async def test_the_counters_of_a_deleted_topic_go_with_it() -> None:
    stack = Stack()
    await stack.topic()
    await stack.write(b"a")
    await stack.topics.delete("t")
    assert stack.partitions.traffic.items() == []
