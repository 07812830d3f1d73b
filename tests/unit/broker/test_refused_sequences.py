"""Refused sequences: what a new producer has sent behind a batch that was sent away is not written before it."""

from __future__ import annotations

import pytest
from tests.unit.broker.stack import Stack, values_in

from goqueue.broker.arrivals.refused_sequences import KEPT_MAX, KEPT_MS, RefusedSequences
from goqueue.codec.batch import BatchHeader, parse_batch_header
from goqueue.codec.batch_encode import encode_batch
from goqueue.errors import DiskFull, InvalidRecord, NotLeader, OutOfOrderSequence, TopicNotFound
from goqueue.metadata.events import Assignment, AssignmentsChanged
from goqueue.records import Acks, NewRecord
from goqueue.testing.clock import ManualClock
from goqueue.testing.memory_files import MemoryFiles


def batch(sequence: int, producer_id: int = 7, epoch: int = 0) -> bytes:
    return encode_batch(
        [NewRecord(None, b"%d" % sequence)],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        now_ms=1,
    )


async def send(stack: Stack, data: bytes, topic: str = "t") -> None:
    pending = stack.publish.append(topic, 0, data, acks=Acks.ALL)
    if pending.durable is not None:
        await pending.durable


async def test_the_second_batch_waits_for_the_first_which_came_before_the_topic_was_known() -> None:
    stack = await Stack().start()
    with pytest.raises(TopicNotFound):
        await send(stack, batch(0))
    await stack.topic()
    with pytest.raises(NotLeader, match="sequence 0 before it was refused"):
        await send(stack, batch(1))
    for sequence in (0, 1, 2):
        await send(stack, batch(sequence))
    assert values_in(await stack.read()) == [b"0", b"1", b"2"]
    await stack.stop()


async def test_another_producer_and_one_whose_history_is_gone_begin_where_they_like() -> None:
    stack = await Stack().start()
    with pytest.raises(TopicNotFound):
        await send(stack, batch(0))
    await stack.topic()
    await send(stack, batch(41, producer_id=8))
    assert values_in(await stack.read()) == [b"41"]
    await stack.stop()


async def test_a_refusal_is_forgotten_after_a_while() -> None:
    clock = ManualClock()
    stack = await Stack(clock=clock).start()
    with pytest.raises(TopicNotFound):
        await send(stack, batch(0))
    await stack.topic()
    clock.advance(ms=KEPT_MS + 1)
    await send(stack, batch(1))
    await stack.stop()


async def test_a_producer_that_has_given_the_first_batch_up_does_not_wait_for_ever() -> None:
    clock = ManualClock()
    stack = await Stack(clock=clock).start()
    with pytest.raises(TopicNotFound):
        await send(stack, batch(0))
    await stack.topic()
    for _ in range(6):
        with pytest.raises(NotLeader):
            await send(stack, batch(1))
        clock.advance(ms=KEPT_MS // 6)
    clock.advance(ms=10)
    await send(stack, batch(1))
    assert values_in(await stack.read()) == [b"1"]
    await stack.stop()


async def test_what_a_known_producer_sent_behind_a_batch_that_a_full_disk_refused_waits_for_it() -> None:
    # An error of its sequence would make librdkafka send all that is not acknowledged again, in a new epoch.
    files = MemoryFiles()
    stack = await Stack(files).start()
    await stack.topic()
    await send(stack, batch(0))
    files.faults.capacity_bytes = 1
    with pytest.raises(DiskFull):
        await send(stack, batch(1))
    files.faults.capacity_bytes = None
    for sequence in (2, 3):
        with pytest.raises(NotLeader, match="sequence 1 before it was refused"):
            await send(stack, batch(sequence))
    for sequence in (0, 1, 2, 3):
        await send(stack, batch(sequence))
    assert values_in(await stack.read()) == [b"0", b"1", b"2", b"3"]
    await stack.stop()


async def test_a_new_epoch_of_a_known_producer_begins_with_its_first_batch() -> None:
    files = MemoryFiles()
    stack = await Stack(files).start()
    await stack.topic()
    await send(stack, batch(0))
    files.faults.capacity_bytes = 1
    with pytest.raises(DiskFull):
        await send(stack, batch(0, epoch=1))
    files.faults.capacity_bytes = None
    with pytest.raises(NotLeader):
        await send(stack, batch(1, epoch=1))
    for sequence in (0, 1):
        await send(stack, batch(sequence, epoch=1))
    await stack.stop()


async def test_sequences_that_begin_again_behind_the_greatest_wait_as_well() -> None:
    files = MemoryFiles()
    stack = await Stack(files).start()
    await stack.topic()
    await send(stack, batch(2**31 - 2))
    files.faults.capacity_bytes = 1
    with pytest.raises(DiskFull):
        await send(stack, batch(2**31 - 1))
    files.faults.capacity_bytes = None
    with pytest.raises(NotLeader):
        await send(stack, batch(0))
    for sequence in (2**31 - 1, 0):
        await send(stack, batch(sequence))
    await stack.stop()


async def test_a_refused_batch_that_is_stored_by_now_holds_nobody_up() -> None:
    files = MemoryFiles()
    stack = await Stack(files).start()
    await stack.topic()
    await send(stack, batch(0))
    files.faults.capacity_bytes = 1
    with pytest.raises(DiskFull):
        await send(stack, batch(1))
    files.faults.capacity_bytes = None
    # As a follower gets it, from the node that led meanwhile.
    place = stack.partitions.leader("t", 0)
    place.log.append_batch(batch(1), now_ms=1, leader_epoch=place.leader_epoch)
    await send(stack, batch(2))
    await stack.stop()


async def test_a_gap_that_no_refusal_explains_is_an_error_of_the_sequence() -> None:
    stack = await Stack().start()
    await stack.topic()
    await send(stack, batch(0))
    stack.publish.refused("t", 0, batch(5), NotLeader("not yet"))
    with pytest.raises(OutOfOrderSequence):
        await send(stack, batch(6))
    await stack.stop()


async def lead(stack: Stack, node: int, epoch: int) -> None:
    found = stack.topics.get("t")
    assignment = Assignment(leader=node, leader_epoch=epoch, replicas=(1, 2), isr=(1, 2))
    await stack.metadata.commit([AssignmentsChanged("t", found.topic_id, {0: assignment})])


async def test_the_first_batches_of_a_producer_may_be_under_way_to_the_former_leader() -> None:
    # Kafka's Java client does not wait for them. Once a later one is acknowledged it sends them in vain until it
    # gives up: an error of their sequences makes it try again.
    stack = await Stack().start()
    await stack.topic()
    await lead(stack, 2, 1)
    await lead(stack, stack.config.broker.node_id, 2)
    with pytest.raises(NotLeader, match="nothing before it has come"):
        await send(stack, batch(3))
    for sequence in range(4):
        await send(stack, batch(sequence))
    assert values_in(await stack.read()) == [b"0", b"1", b"2", b"3"]
    await stack.stop()


async def test_one_whose_history_is_gone_waits_no_longer_than_a_batch_may_be_under_way() -> None:
    clock = ManualClock()
    stack = await Stack(clock=clock).start()
    await stack.topic()
    await lead(stack, 2, 1)
    await lead(stack, stack.config.broker.node_id, 2)
    for _ in range(2):
        with pytest.raises(NotLeader):
            await send(stack, batch(3))
        clock.advance(ms=KEPT_MS // 2 + 1)
    await send(stack, batch(3))
    assert values_in(await stack.read()) == [b"3"]
    await stack.stop()


async def test_a_producer_that_a_new_leader_knows_goes_on() -> None:
    stack = await Stack().start()
    await stack.topic()
    await send(stack, batch(0))
    await lead(stack, 2, 1)
    await lead(stack, stack.config.broker.node_id, 2)
    await send(stack, batch(1))
    await stack.stop()


def header(sequence: int, producer_id: int) -> BatchHeader:
    return parse_batch_header(batch(sequence, producer_id))


def test_what_is_remembered_is_bounded_and_only_what_comes_again() -> None:
    refused = RefusedSequences()
    for producer_id in range(KEPT_MAX + 10):
        refused.note("t", 0, header(0, producer_id), TopicNotFound("t"), now_ms=1)
    assert len(refused) == KEPT_MAX
    refused.note("t", 0, header(0, 1), TopicNotFound("t"), now_ms=KEPT_MS + 2)
    assert len(refused) == 1, "what is older has expired"
    refused.note("t", 0, header(0, 2), InvalidRecord("no"), now_ms=KEPT_MS + 2)
    assert len(refused) == 1, "a producer does not send again what is wrong"
