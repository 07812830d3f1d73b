"""Features and leadership: shards work while this node leads their partition, and know nothing when it does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from goqueue.broker.topics import NewTopic
from goqueue.codec.batch_encode import encode_batch
from goqueue.config import Config
from goqueue.delay.values import Held, SlotId
from goqueue.errors import NotCoordinator, NotLeader, StorageError, TopicNotFound, wire_of
from goqueue.groups.service import CONSUMER_OFFSETS, NewOffset
from goqueue.metadata.events import Assignment, AssignmentsChanged
from goqueue.node.assemble import assemble
from goqueue.node.node import Node
from goqueue.records import Acks, NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.clock import ManualClock, seeded_rng
from goqueue.testing.memory_files import MemoryFiles
from goqueue.testing.sim_loop import InlineOffload
from goqueue.transactions.commands import Producer
from goqueue.transactions.service import TRANSACTION_STATE

HERE, THERE = 1, 2
ORDERS = TopicPartition("orders", 0)


def new_node(files: MemoryFiles) -> Node:
    return assemble(Config(), files=files, clock=ManualClock(), rng=seeded_rng(1), offload=InlineOffload())


@pytest.fixture
async def services() -> AsyncIterator[Services]:
    node = new_node(MemoryFiles())
    running = (await node.start()).services
    await running.topics.create(NewTopic("orders", partitions=1))
    yield running
    await node.stop()


def metadata_of(services: Services) -> Any:
    return services.topics._metadata


async def assign(services: Services, topic: str, leader: int, epoch: int) -> None:
    """Give all partitions of a topic to a node."""
    found = services.topics.get(topic)
    one = Assignment(leader=leader, leader_epoch=epoch, replicas=(leader,), isr=(leader,))
    changed = dict.fromkeys(range(found.partition_count), one)
    await metadata_of(services).commit([AssignmentsChanged(topic, found.topic_id, changed)])


async def publish(services: Services, *values: bytes) -> None:
    records = [NewRecord(None, value) for value in values]
    assert all(one.error is None for one in await services.publish.publish_records("orders", records, acks=Acks.ALL))


def offset(at: int) -> NewOffset:
    return NewOffset("orders", 0, at)


async def test_a_group_is_refused_by_who_does_not_lead_its_shard_and_is_whole_again_when_leadership_returns(
    services: Services,
) -> None:
    await publish(services, b"a", b"b")
    await services.groups.commit("g", [offset(1)])
    await assign(services, CONSUMER_OFFSETS, THERE, 1)
    with pytest.raises(NotCoordinator) as refused:
        await services.groups.fetch_offsets("g")
    assert refused.value.leader == THERE
    assert wire_of(refused.value).kafka == 16
    await assign(services, CONSUMER_OFFSETS, HERE, 2)
    assert (await services.groups.fetch_offsets("g"))[ORDERS].offset == 1


async def test_a_shard_is_loaded_when_leadership_comes_without_being_asked(services: Services) -> None:
    await publish(services, b"a")
    await services.groups.commit("g", [offset(1)])
    coordinator: Any = services.groups._coordinator
    shard = coordinator.partition_for("g")
    await assign(services, CONSUMER_OFFSETS, THERE, 1)
    assert coordinator.loaded() == []
    await assign(services, CONSUMER_OFFSETS, HERE, 2)
    async with asyncio.timeout(5):
        while shard not in coordinator.loaded():  # noqa: ASYNC110 - there is nothing to wait for
            await asyncio.sleep(0)


async def test_an_offset_is_not_committed_on_the_word_of_a_log_that_another_node_leads(services: Services) -> None:
    await publish(services, b"a")
    await assign(services, "orders", THERE, 1)
    outcomes = await services.groups.commit("g", [offset(1)])
    (error,) = outcomes.values() if isinstance(outcomes, dict) else outcomes
    assert error is not None
    assert wire_of(error).kafka == 15
    assert ORDERS not in await services.groups.fetch_offsets("g")


async def test_a_new_term_of_the_same_node_reads_its_shards_again(services: Services) -> None:
    await publish(services, b"a")
    await services.groups.commit("g", [offset(1)])
    coordinator: Any = services.groups._coordinator
    shard = coordinator.partition_for("g")
    former = coordinator._runners[shard]
    await assign(services, CONSUMER_OFFSETS, HERE, 1)
    assert (await services.groups.fetch_offsets("g"))[ORDERS].offset == 1
    assert coordinator._runners[shard] is not former


async def test_a_node_that_no_longer_coordinates_a_transaction_knows_nothing_about_its_producer(
    services: Services,
) -> None:
    transactions: Any = services.transactions
    producer = await transactions.init_producer("tx")
    await transactions.add_partitions("tx", producer, [ORDERS])
    assert transactions._open.get(producer.producer_id) is not None
    await assign(services, TRANSACTION_STATE, THERE, 1)
    assert transactions._open.get(producer.producer_id) is None
    with pytest.raises(NotCoordinator):
        await transactions.end("tx", producer, commit=True)
    async with asyncio.timeout(5):
        while transactions._markers._watchers:  # noqa: ASYNC110 - there is nothing to wait for
            await asyncio.sleep(0)
    await assign(services, TRANSACTION_STATE, HERE, 2)
    await transactions.end("tx", producer, commit=True)


@pytest.mark.parametrize("leader", [HERE, THERE])
async def test_a_coordinator_whose_log_failed_before_its_term_ended_forgets_its_transactions(
    services: Services, leader: int
) -> None:
    """A full disk drops the shard; then the leader hands over. Nothing of the shard was in memory to be dropped."""
    transactions: Any = services.transactions
    producer = await transactions.init_producer("tx")
    await transactions.add_partitions("tx", producer, [ORDERS])
    # The end cannot be written: its partition is led elsewhere.
    await services.queries.opened([ORDERS])
    services.publish.append("orders", 0, transactional_batch(services, producer), acks=Acks.LEADER)
    await assign(services, "orders", THERE, 1)
    await transactions.end("tx", producer, commit=True)
    coordinator, markers = transactions._coordinator, transactions._markers
    async with asyncio.timeout(5):
        while not markers.ending_count:  # noqa: ASYNC110 - there is nothing to wait for
            await asyncio.sleep(0)
    _, former = markers._ending["tx"]
    shard = coordinator.partition_for("tx")
    coordinator.drop(shard, StorageError("no space left on the disk of the test"))
    assert transactions._open.get(producer.producer_id) is not None, "until it is known who coordinates it next"
    await assign(services, TRANSACTION_STATE, leader, 1)
    await asyncio.wait([former], timeout=5)
    assert former.cancelled(), "it is ended in the next term, and in the name of that"
    if leader == THERE:
        assert transactions._open.get(producer.producer_id) is None
    await assign(services, "orders", HERE, 2)
    if leader == THERE:
        await assign(services, TRANSACTION_STATE, HERE, 2)
    async with asyncio.timeout(5):
        while services.queries.offsets("orders", 0).last_stable_offset < 2:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)


def transactional_batch(services: Services, producer: Producer) -> bytes:
    return encode_batch(
        [NewRecord(None, b"a")],
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=0,
        transactional=True,
        now_ms=services.clock.now_ms(),
    )


async def test_a_transaction_that_was_decided_before_is_ended_in_the_next_term(services: Services) -> None:
    transactions: Any = services.transactions
    producer = await transactions.init_producer("tx")
    await transactions.add_partitions("tx", producer, [ORDERS])
    batch = encode_batch(
        [NewRecord(None, b"a")],
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=0,
        transactional=True,
        now_ms=services.clock.now_ms(),
    )
    await services.queries.opened([ORDERS])
    services.publish.append("orders", 0, batch, acks=Acks.LEADER)
    await assign(services, "orders", THERE, 1)
    ending = asyncio.ensure_future(transactions.end("tx", producer, commit=True))
    async with asyncio.timeout(5):
        while not transactions._markers.ending_count:  # noqa: ASYNC110 - there is nothing to wait for
            await asyncio.sleep(0)
    await asyncio.wait([ending], timeout=0.1)
    await assign(services, TRANSACTION_STATE, THERE, 1)
    assert transactions._markers.ending_count == 0, "the next coordinator ends it"
    await assign(services, "orders", HERE, 2)
    await assign(services, TRANSACTION_STATE, HERE, 2)
    async with asyncio.timeout(5):
        while services.queries.offsets("orders", 0).last_stable_offset < 2:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
    await asyncio.gather(ending, return_exceptions=True)


async def test_a_topic_that_the_metadata_shows_late_gets_its_marker_all_the_same(services: Services) -> None:
    """The image lags: a topic that exists seems to be gone when the marker is written."""
    transactions: Any = services.transactions
    producer = await transactions.init_producer("tx")
    await transactions.add_partitions("tx", producer, [ORDERS])
    batch = encode_batch(
        [NewRecord(None, b"a")],
        now_ms=services.clock.now_ms(),
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=0,
        transactional=True,
    )
    services.publish.append(*ORDERS, batch, acks=Acks.ALL)
    partitions = transactions._markers._partitions
    open_leader, caught_up = partitions.open_leader, asyncio.Event()

    async def lagging(topic: str, partition: int) -> Any:
        if not caught_up.is_set():
            raise TopicNotFound(topic)
        return await open_leader(topic, partition)

    async def catch_up() -> None:
        caught_up.set()

    partitions.open_leader, transactions._markers._catch_up = lagging, catch_up
    await transactions.end("tx", producer, commit=True)
    async with asyncio.timeout(5):
        await caught_up.wait()
        while services.queries.offsets("orders", 0).end_offset < 2:  # noqa: ASYNC110 - there is nothing to wait for
            await asyncio.sleep(0.01)


async def test_delayed_messages_are_another_nodes_while_it_leads_their_partition(services: Services) -> None:
    clock: Any = services.clock
    (slot,) = await services.delay.hold("orders", [Held(NewRecord(None, b"later"), clock.now_ms() + 5_000)])
    assert isinstance(slot, SlotId)
    await assign(services, "orders", THERE, 1)
    assert services.delay.stores.loaded() == []
    with pytest.raises(NotLeader):
        await services.delay.get("orders", slot)
    clock.advance(ms=10_000)
    for _ in range(50):
        await asyncio.sleep(0)
    await assign(services, "orders", HERE, 2)
    async with asyncio.timeout(5):
        while services.queries.offsets("orders", 0).end_offset < 1:  # noqa: ASYNC110 - there is nothing to wait for
            await asyncio.sleep(0.01)
    assert services.queries.offsets("orders", 0).end_offset == 1, "the former term delivered nothing of it"


async def test_a_partition_that_loses_its_leader_while_it_loads_delivers_nothing(services: Services) -> None:
    clock: Any = services.clock
    await services.delay.hold("orders", [Held(NewRecord(None, b"later"), clock.now_ms() + 5_000)])
    await assign(services, "orders", THERE, 1)
    clock.advance(ms=10_000)
    # Leadership comes, and goes before the delayed messages are loaded.
    await asyncio.gather(assign(services, "orders", HERE, 2), assign(services, "orders", THERE, 3))
    for _ in range(100):
        await asyncio.sleep(0)
    assert services.delay.stats().delivered == {}
    with pytest.raises(NotLeader):
        await services.delay.stores.get(TopicPartition("orders", 0))
