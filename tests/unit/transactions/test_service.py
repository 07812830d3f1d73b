"""The service on a whole node in memory: markers that fail, topics that go, and who may write what."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from goqueue.broker.replicas.local_writer import LocalWriter
from goqueue.broker.topics import NewTopic
from goqueue.codec.batch_encode import encode_batch
from goqueue.config import Config
from goqueue.coordinator.shard import Transaction
from goqueue.errors import (
    ConcurrentTransactions,
    CoordinatorUnavailable,
    InvalidTransactionState,
    InvalidTransactionTimeout,
    ProducerFenced,
    StorageError,
    TransactionalIdNotFound,
    UnstableOffset,
)
from goqueue.groups.service import NewOffset
from goqueue.node.assemble import assemble
from goqueue.node.node import Node
from goqueue.records import Acks, NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.clock import ManualClock, seeded_rng
from goqueue.testing.memory_files import MemoryFiles
from goqueue.testing.sim_loop import InlineOffload
from goqueue.transactions.commands import Producer
from goqueue.transactions.records import TransactionState

from .driver import A0, A1, B0


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles()


def new_node(files: MemoryFiles) -> Node:
    return assemble(Config(), files=files, clock=ManualClock(), rng=seeded_rng(1), offload=InlineOffload())


@pytest.fixture
async def services(files: MemoryFiles) -> AsyncIterator[Services]:
    node = new_node(files)
    running = (await node.start()).services
    for name in ("a", "b"):
        await running.topics.create(NewTopic(name, partitions=2))
    yield running
    await node.stop()


async def until(is_so: Callable[[], Any], wanted: object = True) -> None:
    async with asyncio.timeout(5):
        while True:
            found = is_so()
            if (await found if asyncio.iscoroutine(found) else found) == wanted:
                return
            await asyncio.sleep(0.001)


async def state(services: Services, name: str = "tx") -> TransactionState:
    return (await services.transactions.describe(name)).state


def write(services: Services, producer: Producer, place: TopicPartition, sequence: int = 0, **more: Any) -> None:
    batch = encode_batch(
        [NewRecord(None, b"value")],
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
        transactional=more.get("transactional", True),
        now_ms=services.clock.now_ms(),
    )
    services.publish.append(*place, batch, acks=Acks.LEADER)


async def opened(services: Services, *places: TopicPartition) -> Producer:
    """A producer with an open transaction that has written to these partitions."""
    producer = await services.transactions.init_producer("tx")
    assert await services.transactions.add_partitions("tx", producer, places) == {}
    for place in places:
        write(services, producer, place)
    return producer


def open_producers(services: Services, place: TopicPartition) -> int:
    return sum(one.open_first_offset >= 0 for one in services.queries.producers(*place))


@pytest.mark.parametrize("failures", [1, 2, 3, 5])
@pytest.mark.parametrize("commit", [True, False])
async def test_a_marker_that_cannot_be_written_is_tried_again_until_it_is(
    services: Services, monkeypatch: pytest.MonkeyPatch, failures: int, commit: bool
) -> None:
    """Whichever of the markers fails, the transaction is ended everywhere in the end."""
    producer = await opened(services, A0, A1, B0)
    append, left = LocalWriter.append, [failures]

    def failing(self: LocalWriter, batch: Any, **more: Any) -> Any:
        if more.get("marker") and left[0]:
            left[0] -= 1
            raise StorageError("the disk is away")
        return append(self, batch, **more)

    monkeypatch.setattr(LocalWriter, "append", failing)
    await services.transactions.end("tx", producer, commit=commit)
    done = TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT
    await until(lambda: state(services), done)
    assert left == [0]
    assert [open_producers(services, place) for place in (A0, A1, B0)] == [0, 0, 0]


async def test_a_topic_that_is_deleted_does_not_keep_its_transaction_from_ending(services: Services) -> None:
    producer = await opened(services, A0, B0)
    await services.topics.delete("b")
    await services.transactions.end("tx", producer, commit=True)
    await until(lambda: state(services), TransactionState.COMPLETE_COMMIT)
    assert open_producers(services, A0) == 0


async def test_a_shard_that_is_dropped_between_decision_and_markers_ends_the_transaction_later(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = await opened(services, A0)
    await services.transactions.end("tx", producer, commit=True)
    coordinator = services.transactions._coordinator
    coordinator.drop(coordinator.partition_for("tx"), CoordinatorUnavailable("dropped by the test"))
    await until(lambda: state(services), TransactionState.COMPLETE_COMMIT)
    assert open_producers(services, A0) == 0
    await services.transactions.add_partitions("tx", producer, [A0])
    write(services, producer, A0, 1)


async def test_while_a_dropped_shard_is_read_again_nothing_is_admitted_that_was_so_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The replay went through all former states in the sight of those who write: a zombie's batch was let in."""

    async def yielding(work: Callable[[], Any]) -> Any:
        await asyncio.sleep(0)
        return work()

    # One batch at a time: others get their turn between any two records.
    monkeypatch.setattr("goqueue.coordinator.journal._READ_BYTES", 1)
    node = assemble(Config(), files=MemoryFiles(), clock=ManualClock(), rng=seeded_rng(1), offload=yielding)
    services = (await node.start()).services
    await services.topics.create(NewTopic("a", partitions=2))
    zombie = await opened(services, A0)
    fresh = await services.transactions.init_producer("tx")
    await services.transactions.add_partitions("tx", fresh, [A0])
    assert (zombie.producer_id, zombie.epoch) < (fresh.producer_id, fresh.epoch)
    coordinator = services.transactions._coordinator
    coordinator.drop(coordinator.partition_for("tx"), CoordinatorUnavailable("dropped by the test"))
    loading = asyncio.ensure_future(services.transactions.describe("tx"))
    steps, sequence = 0, 0
    while not loading.done():
        with pytest.raises((ProducerFenced, InvalidTransactionState)):
            write(services, zombie, A0, 1)
        write(services, fresh, A0, sequence)
        steps, sequence = steps + 1, sequence + 1
        await asyncio.sleep(0)
    assert steps > 5
    assert (await loading).producer_epoch == fresh.epoch
    await node.stop()


async def test_a_transaction_that_was_decided_before_the_stop_is_ended_after_the_start(
    files: MemoryFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = new_node(files)
    services = (await node.start()).services
    await services.topics.create(NewTopic("a", partitions=2))
    producer = await opened(services, A0, A1)

    def never(self: LocalWriter, batch: Any, **more: Any) -> Any:
        if more.get("marker"):
            raise StorageError("not in this life")
        return append(self, batch, **more)

    append = LocalWriter.append
    with monkeypatch.context() as patch:
        patch.setattr(LocalWriter, "append", never)
        await services.transactions.end("tx", producer, commit=True)
        await node.stop()
    node = new_node(files)
    services = (await node.start()).services
    await until(lambda: state(services), TransactionState.COMPLETE_COMMIT)
    assert [open_producers(services, place) for place in (A0, A1)] == [0, 0]
    await node.stop()


async def test_batches_outside_the_transaction_and_of_zombies_are_refused(services: Services) -> None:
    producer = await opened(services, A0)
    for refused, place in ((True, A1), (False, A0), (False, A1)):
        with pytest.raises(InvalidTransactionState):
            write(services, producer, place, 1, transactional=refused)
    successor = await services.transactions.init_producer("tx")
    assert successor.epoch == producer.epoch + 2
    with pytest.raises(ProducerFenced):
        write(services, producer, A0, 1)


async def test_the_next_transaction_waits_for_the_markers_of_the_last_and_no_longer_than_allowed(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = await opened(services, A0)
    append, is_away = LocalWriter.append, [True]

    def failing(self: LocalWriter, batch: Any, **more: Any) -> Any:
        if more.get("marker") and is_away[0]:
            raise StorageError("the disk is away")
        return append(self, batch, **more)

    monkeypatch.setattr(LocalWriter, "append", failing)
    monkeypatch.setattr("goqueue.transactions.submissions.HOLD_SECONDS_MAX", 0.05)
    await services.transactions.end("tx", producer, commit=True)
    with pytest.raises(ConcurrentTransactions):
        await services.transactions.add_partitions("tx", producer, [A0])
    monkeypatch.setattr("goqueue.transactions.submissions.HOLD_SECONDS_MAX", 5.0)
    waiting = asyncio.ensure_future(services.transactions.add_partitions("tx", producer, [A0]))
    await asyncio.sleep(0)
    assert not waiting.done()
    is_away[0] = False
    assert await waiting == {}


async def test_normal_messages_beside_a_transaction_are_unaffected(services: Services) -> None:
    """R9.45."""
    producer = await opened(services, A0)
    (stored,) = await services.publish.publish_records("a", [NewRecord(None, b"n")], acks=Acks.ALL, partition=0)
    assert stored.error is None
    await services.transactions.end("tx", producer, commit=False)
    await until(lambda: state(services), TransactionState.COMPLETE_ABORT)
    assert (await services.reads.read({A0: 0}, limit=9, max_bytes=9999))[A0].records[-1].value == b"n"


async def test_offsets_cannot_be_committed_behind_the_transactions_end(services: Services) -> None:
    producer = await opened(services, A0)
    transaction = Transaction(producer.producer_id, producer.epoch)
    with pytest.raises(InvalidTransactionState):
        await services.groups.commit_in_transaction("g", [NewOffset("a", 0, 1)], transaction)
    await services.transactions.add_group("tx", producer, "g")
    await services.groups.commit_in_transaction("g", [NewOffset("a", 0, 1)], transaction)
    with pytest.raises(UnstableOffset) as unstable:
        await services.groups.fetch_offsets("g", require_stable=True)
    assert unstable.value.partitions == (A0,)
    await services.transactions.end("tx", producer, commit=True)
    with pytest.raises(InvalidTransactionState):
        await services.groups.commit_in_transaction("g", [NewOffset("a", 0, 2)], transaction)
    await until(lambda: state(services), TransactionState.COMPLETE_COMMIT)
    assert (await services.groups.fetch_offsets("g", require_stable=True))[A0].offset == 1


async def test_a_begun_transaction_without_a_partition_ends_too(services: Services) -> None:
    producer = await services.transactions.init_producer("tx")
    assert await services.transactions.begin("tx", producer) == 1
    with pytest.raises(InvalidTransactionState):
        await services.transactions.begin("tx", producer)
    await services.transactions.end("tx", producer, commit=True)
    await until(lambda: state(services), TransactionState.COMPLETE_COMMIT)
    assert await services.transactions.begin("tx", producer) == 2


async def test_asking_about_transactions_does_not_make_the_internal_topic(services: Services) -> None:
    assert await services.transactions.list() == ()
    with pytest.raises(TransactionalIdNotFound):
        await services.transactions.describe("tx")
    assert services.topics.find("__transaction_state") is None


async def test_a_timeout_must_be_within_the_limits(services: Services) -> None:
    with pytest.raises(InvalidTransactionTimeout):
        await services.transactions.init_producer("tx", timeout_ms=900_001)
