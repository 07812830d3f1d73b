"""Acks of a queue's receipts in a transaction: they count with it, and the messages are nobody's until it ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from unittest.mock import patch

import pytest

from goqueue.broker.replicas.partitions import Partitions
from goqueue.broker.topics import NewTopic
from goqueue.config import Config, DeliveryConfig
from goqueue.coordinator.shard import Transaction
from goqueue.delivery.values import Action, Delivery, Receive, Settlement
from goqueue.errors import (
    CoordinatorFenced,
    GroupInFlight,
    InvalidTransactionState,
    NotEnoughReplicas,
    ProducerFenced,
    ReceiptExpired,
)
from goqueue.metadata.events import Assignment, AssignmentsChanged
from goqueue.node.assemble import assemble
from goqueue.node.node import Node
from goqueue.records import Acks, NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.clock import ManualClock, seeded_rng
from goqueue.testing.memory_files import MemoryFiles
from goqueue.testing.sim_loop import InlineOffload
from goqueue.transactions.commands import Producer
from goqueue.transactions.records import TransactionState
from goqueue.transactions.service import TRANSACTION_STATE

PLACE = TopicPartition("work", 0)
VISIBILITY_MS = 1000
CONFIG = Config(delivery=DeliveryConfig(visibility_ms=VISIBILITY_MS, retries_max=1))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles()


def new_node(files: MemoryFiles, clock: ManualClock) -> Node:
    return assemble(CONFIG, files=files, clock=clock, rng=seeded_rng(1), offload=InlineOffload())


@pytest.fixture
async def services(files: MemoryFiles, clock: ManualClock) -> AsyncIterator[Services]:
    node = new_node(files, clock)
    running = (await node.start()).services
    await running.topics.create(NewTopic("work", partitions=1))
    records = [NewRecord(None, b"%d" % number) for number in range(3)]
    await running.publish.publish_records("work", records, acks=Acks.ALL, partition=0)
    yield running
    await node.stop()


async def receive(services: Services, limit: int = 10) -> list[Delivery]:
    return await services.delivery.receive(Receive("g", "c", [PLACE], limit))


async def begin(services: Services) -> Producer:
    producer = await services.transactions.init_producer("tx")
    await services.transactions.begin("tx", producer)
    return producer


async def promise(services: Services, producer: Producer, *messages: Delivery, rejected: bool = False) -> None:
    receipts = [message.receipt for message in messages]
    await services.transactions.take_part("tx", producer, services.delivery.places_of(receipts))
    transaction = Transaction(producer.producer_id, producer.epoch)
    await services.delivery.promise(receipts, transaction, rejected=rejected, reason="bad")


async def end(services: Services, producer: Producer, *, commit: bool) -> None:
    await services.transactions.end("tx", producer, commit=commit)
    await ended(services)


async def ended(services: Services) -> None:
    deadline = time.monotonic() + 5
    while (await services.transactions.describe("tx")).state not in {
        TransactionState.COMPLETE_COMMIT,
        TransactionState.COMPLETE_ABORT,
    }:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.001)


async def committed(services: Services) -> int:
    return (await services.delivery.positions.committed("g", [PLACE]))[PLACE]


async def test_nothing_is_promised_while_too_few_replicas_are_in_sync(services: Services) -> None:
    """It would be written and then refused, which drops the queues of the partition, at every attempt."""
    producer, found = await begin(services), await receive(services)
    with (
        patch.object(Partitions, "check_copies", side_effect=NotEnoughReplicas("work-0 has 1 in-sync replica")),
        pytest.raises(NotEnoughReplicas),
    ):
        await promise(services, producer, *found)
    await end(services, producer, commit=True)
    assert await committed(services) == 0


async def test_acks_count_when_the_transaction_is_committed(services: Services, clock: ManualClock) -> None:
    messages = await receive(services)
    producer = await begin(services)
    await promise(services, producer, *messages[:2])
    assert await committed(services) == 0
    await end(services, producer, commit=True)
    assert await committed(services) == 2
    clock.advance(ms=VISIBILITY_MS)
    assert [one.offset for one in await receive(services)] == [2]


async def test_aborted_acks_leave_the_messages_to_others(services: Services, clock: ManualClock) -> None:
    messages = await receive(services)
    producer = await begin(services)
    await promise(services, producer, *messages)
    await end(services, producer, commit=False)
    clock.advance(ms=VISIBILITY_MS)
    assert [(one.offset, one.delivery_count) for one in await receive(services)] == [(0, 2), (1, 2), (2, 2)]


async def test_nobody_gets_a_promised_message_although_its_visibility_ends(
    services: Services, clock: ManualClock
) -> None:
    messages = await receive(services)
    producer = await begin(services)
    await promise(services, producer, messages[0])
    clock.advance(ms=2 * VISIBILITY_MS)
    assert [one.offset for one in await receive(services)] == [1, 2]
    await end(services, producer, commit=False)
    assert [one.offset for one in await receive(services)] == [0]


async def test_a_message_whose_last_delivery_ran_out_while_promised_dies_after_an_abort(
    services: Services, clock: ManualClock
) -> None:
    await receive(services, 1)
    clock.advance(ms=VISIBILITY_MS)
    (last,) = await receive(services, 1)
    assert last.delivery_count == 2
    producer = await begin(services)
    await promise(services, producer, last)
    clock.advance(ms=VISIBILITY_MS)
    assert [one.offset for one in await receive(services)] == [1, 2]
    assert services.topics.find("work.dlq") is None
    await end(services, producer, commit=False)
    deadline = time.monotonic() + 5
    while services.topics.find("work.dlq") is None:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.001)


async def test_a_rejection_moves_the_message_when_the_transaction_is_committed(services: Services) -> None:
    messages = await receive(services)
    producer = await begin(services)
    await promise(services, producer, messages[0], rejected=True)
    assert services.topics.find("work.dlq") is None
    await end(services, producer, commit=True)
    deadline = time.monotonic() + 5
    while await committed(services) != 1:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.001)
    dead = TopicPartition("work.dlq", 0)
    read = (await services.reads.read({dead: 0}, limit=9, max_bytes=9999))[dead]
    assert [record.value for record in read.records] == [b"0"]


async def test_a_promised_receipt_is_good_for_nothing_else_and_promising_again_is_the_same(services: Services) -> None:
    messages = await receive(services)
    producer = await begin(services)
    await promise(services, producer, messages[0])
    await promise(services, producer, messages[0])
    for action in (Action.ACK, Action.NACK, Action.EXTEND, Action.REJECT):
        (outcome,) = await services.delivery.settle([Settlement(messages[0].receipt, action)])
        assert isinstance(outcome.error, ReceiptExpired), action
    await services.delivery.release_consumer("g", "c")
    assert [one.offset for one in await receive(services)] == [1, 2]
    await end(services, producer, commit=True)
    assert await committed(services) == 1


async def test_one_bad_receipt_promises_nothing(services: Services) -> None:
    messages = await receive(services)
    await services.delivery.settle([Settlement(messages[0].receipt, Action.ACK)])
    producer = await begin(services)
    with pytest.raises(ReceiptExpired):
        await promise(services, producer, *messages)
    await end(services, producer, commit=True)
    assert await committed(services) == 1


async def test_a_promise_needs_an_open_transaction_that_has_its_partition(services: Services) -> None:
    messages = await receive(services)
    producer = await begin(services)
    transaction = Transaction(producer.producer_id, producer.epoch)
    with pytest.raises(InvalidTransactionState):
        await services.delivery.promise([messages[0].receipt], transaction)
    await promise(services, producer, messages[0])
    await end(services, producer, commit=True)
    with pytest.raises(InvalidTransactionState):
        await services.delivery.promise([messages[1].receipt], transaction)


async def test_a_coordinator_that_was_replaced_does_not_end_the_next_transaction(services: Services) -> None:
    """The late end of one transaction comes while the next one of the same producer is open."""
    messages = await receive(services)
    producer = await begin(services)
    await promise(services, producer, messages[0])
    await end(services, producer, commit=False)
    await new_coordinator(services, epoch=5)
    await services.transactions.begin("tx", producer)
    await promise(services, producer, messages[1])
    transaction = Transaction(producer.producer_id, producer.epoch)
    for coordinator_epoch in (0, 4):
        with pytest.raises(CoordinatorFenced):
            await services.delivery.end_promises(PLACE, transaction, commit=True, coordinator_epoch=coordinator_epoch)
    with pytest.raises(CoordinatorFenced):
        await services.transactions._markers._end_at(PLACE, transaction, commit=True, coordinator_epoch=4)
    await end(services, producer, commit=True)
    assert await committed(services) == 0, "the first message was given back, the second is settled"
    assert [one.offset for one in await receive(services)] == [], "the third is still leased"


async def test_an_end_of_an_earlier_epoch_of_the_producer_leaves_the_promises_of_the_next(services: Services) -> None:
    messages = await receive(services)
    first = await begin(services)
    second = await begin(services)
    assert second.epoch > first.epoch
    await promise(services, second, messages[0])
    late = Transaction(first.producer_id, first.epoch)
    with pytest.raises(ProducerFenced):
        await services.delivery.end_promises(PLACE, late, commit=False, coordinator_epoch=0)
    await end(services, second, commit=True)
    assert await committed(services) == 1


async def test_a_partition_in_which_a_transaction_only_settles_gets_no_marker(services: Services) -> None:
    messages = await receive(services)
    end_offset = services.queries.offsets(*PLACE).end_offset
    producer = await begin(services)
    await promise(services, producer, *messages)
    assert (await services.transactions.describe("tx")).partitions == (PLACE,)
    await end(services, producer, commit=True)
    assert services.queries.offsets(*PLACE).end_offset == end_offset
    assert await committed(services) == 3


async def new_coordinator(services: Services, epoch: int) -> None:
    """A new term begins in every partition of the coordinator's topic."""
    topic = services.topics.get(TRANSACTION_STATE)
    assignments = {
        number: Assignment(leader=1, leader_epoch=epoch, replicas=(1,), isr=(1,))
        for number in range(topic.partition_count)
    }
    await services.topics._metadata.commit([AssignmentsChanged(topic.name, topic.topic_id, assignments)])


async def test_offsets_are_not_reset_under_a_promise(services: Services, clock: ManualClock) -> None:
    messages = await receive(services)
    producer = await begin(services)
    await promise(services, producer, *messages)
    clock.advance(ms=2 * VISIBILITY_MS)
    with pytest.raises(GroupInFlight):
        await services.delivery.positions.reset("g", {PLACE: 0})
    await end(services, producer, commit=True)
    assert await committed(services) == 3


@pytest.mark.parametrize("commit", [True, False])
async def test_promises_and_their_end_survive_a_restart(files: MemoryFiles, clock: ManualClock, commit: bool) -> None:
    node = new_node(files, clock)
    services = (await node.start()).services
    await services.topics.create(NewTopic("work", partitions=1))
    await services.publish.publish_records("work", [NewRecord(None, b"x")], acks=Acks.ALL, partition=0)
    messages = await receive(services)
    producer = await begin(services)
    await promise(services, producer, *messages)
    await node.stop()
    node = new_node(files, clock)
    services = (await node.start()).services
    clock.advance(ms=2 * VISIBILITY_MS)
    assert await receive(services) == []
    await services.transactions.end("tx", producer, commit=commit)
    await node.stop()
    node = new_node(files, clock)
    services = (await node.start()).services
    await ended(services)
    assert await committed(services) == (1 if commit else 0)
    assert len(await receive(services)) == (0 if commit else 1)
    await node.stop()
