"""Delayed messages in transactions, story by story: staged, sent again, ended, over restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from goqueue.broker.arrivals.arrival import Facts
from goqueue.broker.arrivals.publish import Pending
from goqueue.broker.topics import NewTopic
from goqueue.codec.batch_encode import encode_batch
from goqueue.config import Config, DelayConfig, DurabilityConfig
from goqueue.coordinator.shard import Transaction
from goqueue.delay.values import SlotId
from goqueue.errors import CoordinatorFenced, DelayedMessageNotFound
from goqueue.records import Acks, NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.sim_node import SimNode
from goqueue.transactions.commands import Claim, Producer

CONFIG = Config(delay=DelayConfig(), durability=DurabilityConfig(flush_interval_ms=40))
PLACE = TopicPartition("t", 0)


async def begin(services: Services) -> Producer:
    """A producer with an open transaction that may delay messages of the topic."""
    if services.topics.find("t") is None:
        await services.topics.create(NewTopic("t", partitions=1))
    producer = await services.transactions.init_producer("tx")
    await join(services, producer)
    return producer


async def join(services: Services, producer: Producer) -> None:
    await services.staging.load(TopicPartition("t", 0))
    await services.transactions.add_partitions("tx", producer, [PLACE])


async def send(
    services: Services,
    producer: Producer,
    sequence: int,
    values: Sequence[bytes],
    *,
    delay_ms: int | None = None,
    due_ms: int = 0,
) -> Pending:
    batch = encode_batch(
        [NewRecord(None, value) for value in values],
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
        transactional=True,
        now_ms=services.clock.now_ms(),
    )
    due_ms = due_ms if delay_ms is None else services.clock.now_ms() + delay_ms
    pending = services.publish.append(*PLACE, batch, acks=Acks.ALL, facts=Facts(dues=[due_ms] * len(values)))
    if pending.durable is not None:
        await pending.durable
    return pending


async def end(services: Services, producer: Producer, *, commit: bool) -> None:
    """Done once the partitions know, too."""
    await services.transactions.end("tx", producer, commit=commit)
    await asyncio.sleep(0.2)
    assert services.transactions.ending_count == 0


async def values(services: Services) -> list[bytes]:
    found = await services.reads.read({PLACE: 0}, limit=10_000, max_bytes=10**7)
    return [record.value or b"" for record in found[PLACE].records]


def test_what_is_staged_is_nobodys_until_the_commit() -> None:
    async def story(services: Services) -> None:
        producer = await begin(services)
        held = (await send(services, producer, 0, [b"x"], delay_ms=1_000)).slots[0]
        at, delay = SlotId(held.partition, held.offset), services.delay
        assert await delay.list("t", limit=10) == ()
        assert delay.stats().pending.get("t", 0) == 0
        for touch in (delay.cancel, delay.get, delay.deliver_now):
            with pytest.raises(DelayedMessageNotFound):
                await touch("t", at)
        await asyncio.sleep(3)
        assert await values(services) == []
        await end(services, producer, commit=True)
        await asyncio.sleep(0.1)
        assert await values(services) == [b"x"]
        assert delay.stats().scheduled == {"t": 1}

    assert SimNode(1, CONFIG).live(story)


@pytest.mark.parametrize("commit", [True, False])
def test_what_is_staged_survives_restarts_and_ends_with_its_transaction(commit: bool) -> None:
    node = SimNode(2, CONFIG)
    producers: list[Producer] = []

    async def stage(services: Services) -> None:
        producers.append(await begin(services))
        await send(services, producers[0], 0, [b"%d" % n for n in range(700)], delay_ms=500)

    async def finish(services: Services) -> None:
        await end(services, producers[0], commit=commit)
        await asyncio.sleep(2)
        assert await values(services) == ([b"%d" % n for n in range(700)] if commit else [])
        assert services.delay.stats().pending.get("t", 0) == 0

    assert node.live(stage, is_killed=True)
    assert node.live(finish)
    assert node.live(lambda services: services.staging.load(TopicPartition("t", 0)))


def test_a_coordinator_that_was_replaced_ends_nothing_that_was_staged_after_it() -> None:
    """Its late end of one transaction comes while the next one of the same producer is open, also after a restart."""
    node = SimNode(12, CONFIG)
    producers: list[Producer] = []
    epochs: list[int] = []

    async def first(services: Services) -> None:
        producers.append(await begin(services))
        await send(services, producers[0], 0, [b"of the first"], delay_ms=100)
        epochs.append(coordinator_epoch(services, producers[0]))
        await end(services, producers[0], commit=True)

    async def refuse_late_end(services: Services) -> None:
        of_first = Transaction(producers[0].producer_id, producers[0].epoch)
        with pytest.raises(CoordinatorFenced):
            await services.staging.end_staged(PLACE, of_first, commit=False, coordinator_epoch=epochs[0])

    async def second(services: Services) -> None:
        await join(services, producers[0])
        assert coordinator_epoch(services, producers[0]) > epochs[0]
        await send(services, producers[0], 1, [b"of the second"], delay_ms=100)
        await refuse_late_end(services)

    async def finish(services: Services) -> None:
        await refuse_late_end(services)
        await end(services, producers[0], commit=True)
        await asyncio.sleep(1)
        assert await values(services) == [b"of the first", b"of the second"]

    # After a kill every log has a new leader epoch, and so has the coordinator.
    assert node.live(first, is_killed=True)
    assert node.live(second, is_killed=True)
    assert node.live(finish)


def coordinator_epoch(services: Services, producer: Producer) -> int:
    known = services.transactions._open.get(producer.producer_id)
    assert known is not None
    return known.coordinator_epoch


def test_a_batch_that_is_sent_again_is_staged_once_even_when_its_time_has_come() -> None:
    async def story(services: Services) -> None:
        producer = await begin(services)
        due_ms = services.clock.now_ms() + 200
        first = await send(services, producer, 0, [b"x"], due_ms=due_ms)
        await asyncio.sleep(1)
        again = await send(services, producer, 0, [b"x"], due_ms=due_ms)
        assert (again.slots, again.appended.duplicate) == (first.slots, True)
        await end(services, producer, commit=True)
        await asyncio.sleep(1)
        assert await values(services) == [b"x"]

    assert SimNode(3, CONFIG).live(story)


@pytest.mark.parametrize("commit", [True, False])
def test_a_batch_of_an_ended_transaction_that_comes_again_stages_nothing(commit: bool) -> None:
    async def story(services: Services) -> None:
        producer = await begin(services)
        await send(services, producer, 0, [b"x"], delay_ms=100)
        await end(services, producer, commit=commit)
        await join(services, producer)
        late = await send(services, producer, 0, [b"x"], delay_ms=100)
        assert (late.slots, late.appended.duplicate) == ({}, True)
        await end(services, producer, commit=True)
        await asyncio.sleep(1)
        assert await values(services) == ([b"x"] if commit else [])

    assert SimNode(4, CONFIG).live(story)


def test_a_transaction_that_has_the_partition_may_delay_messages_in_it() -> None:
    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("t", partitions=1))
        producer = await services.transactions.init_producer("tx")
        await services.staging.load(TopicPartition("t", 0))
        await services.transactions.add_partitions("tx", producer, [PLACE])
        await send(services, producer, 0, [b"later"], delay_ms=100)
        await send(services, producer, 1, [b"now"], delay_ms=0)
        await end(services, producer, commit=True)
        await asyncio.sleep(1)
        assert await values(services) == [b"now", b"later"]

    assert SimNode(5, CONFIG).live(story)


def test_a_successor_with_the_same_id_ends_what_was_staged() -> None:
    async def story(services: Services) -> None:
        zombie = await begin(services)
        await send(services, zombie, 0, [b"never"], delay_ms=100)
        producer = await begin(services)
        assert (producer.producer_id, producer.epoch) == (zombie.producer_id, zombie.epoch + 2)
        await send(services, producer, 0, [b"x"], delay_ms=100)
        await end(services, producer, commit=True)
        await asyncio.sleep(1)
        assert await values(services) == [b"x"]

    assert SimNode(6, CONFIG).live(story)


def test_a_participant_of_an_external_coordinator_delays_messages_too() -> None:
    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("t", partitions=1))
        await services.staging.load(TopicPartition("t", 0))
        producer = await services.transactions.open_participant("writer", 0, "task")
        assert producer is not None
        gate = services.transactions.admit(producer, [PLACE])
        assert gate is not None
        await gate
        await send(services, producer, 0, [b"x"], delay_ms=100)
        await asyncio.sleep(1)
        assert await values(services) == []
        await services.transactions.decide_epoch("writer", 0, commit=True, claims=[Claim("task", producer)])
        await asyncio.sleep(1)
        assert await values(services) == [b"x"]

    assert SimNode(7, CONFIG).live(story)
