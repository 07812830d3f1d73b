"""Appends elsewhere over a network that is slow, loses requests and replies and repeats them: none lost or doubled."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from tests.sim.stories import each_seed, named

from goqueue.broker.topics import NewTopic
from goqueue.codec.batch_encode import encode_batch
from goqueue.config import Config, TransactionsConfig
from goqueue.delivery.dead_letters.redrive import RedriveRequest, RedriveState
from goqueue.delivery.values import Action, Receive, Settlement
from goqueue.records import Acks, Isolation, NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.clock import seeded_rng
from goqueue.testing.flaky_appends import AppendFaults
from goqueue.testing.sim_node import SimNode

PLACES = [TopicPartition("t", number) for number in range(3)]
LETTERS = [TopicPartition("t.dlq", number) for number in range(3)]
VALUES = [b"%02d" % number for number in range(30)]
CONFIG = Config(transactions=TransactionsConfig(state_partitions=2))


def flaky(seed: int) -> SimNode:
    return SimNode(seed, CONFIG, appends=AppendFaults())


async def values_of(services: Services, places: Sequence[TopicPartition]) -> list[bytes]:
    places_from_start = dict.fromkeys(places, 0)
    # What a redrive that failed has copied is in the log, and aborted.
    read = await services.reads.read(places_from_start, limit=1000, max_bytes=2**20, isolation=Isolation.READ_COMMITTED)
    return sorted(record.value or b"" for one in read.values() for record in one.records)


async def settled_count(services: Services, places: Sequence[TopicPartition], count: int) -> list[bytes]:
    """What lies there once there is enough of it, and no more comes for a while."""
    for _ in range(600):
        if services.topics.find(places[0].topic) is not None and len(await values_of(services, places)) >= count:
            break
        await asyncio.sleep(1)
    await asyncio.sleep(60)
    return await values_of(services, places)


async def die(services: Services) -> None:
    """Publish messages, and reject each with what is already there to be rejected."""
    if services.topics.find("t") is None:
        await services.topics.create(NewTopic("t", 3))
        await services.publish.publish_records("t", [NewRecord(one, one) for one in VALUES], acks=Acks.ALL)
    while found := await services.delivery.receive(Receive("g", "c", PLACES, 7)):
        await services.delivery.settle([Settlement(one.receipt, Action.REJECT) for one in found], durable=True)


@pytest.mark.parametrize("seed", each_seed(6))
def test_each_dead_letter_arrives_once_over_lost_requests_replies_and_power_cuts(seed: int) -> None:
    with named(seed):
        node, rng = flaky(seed), seeded_rng(seed, "cuts")

        async def work(services: Services) -> None:
            await die(services)
            await asyncio.sleep(5)

        async def look(services: Services) -> None:
            await asyncio.sleep(40)  # leases of an earlier life end
            await die(services)
            assert await settled_count(services, LETTERS, len(VALUES)) == VALUES

        # The topic and its messages are there before the first cut.
        assert node.live(die)
        for _ in range(3):
            node.live(work, crash_at_step=rng.randrange(1, 60))
        assert node.live(look)
        assert node.live(look)


@pytest.mark.parametrize("seed", each_seed(4))
def test_each_letter_is_sent_back_once_over_lost_requests_and_replies(seed: int) -> None:
    with named(seed):
        node = flaky(seed)

        async def story(services: Services) -> None:
            await die(services)
            assert await settled_count(services, LETTERS, len(VALUES)) == VALUES
            for _ in range(20):
                progress = await services.redrives.start(RedriveRequest("t", all_groups=True))
                while progress.state is RedriveState.RUNNING:  # noqa: ASYNC110 - in simulated time
                    await asyncio.sleep(0.1)
                if progress.state is RedriveState.DONE:
                    break
            assert await settled_count(services, PLACES, 2 * len(VALUES)) == sorted(VALUES * 2)

        assert node.live(story)


@pytest.mark.parametrize("seed", each_seed(4))
def test_markers_reach_every_partition_over_lost_requests_and_replies(seed: int) -> None:
    with named(seed):
        node = flaky(seed)

        async def story(services: Services) -> None:
            await services.topics.create(NewTopic("t", 3))
            transactions = services.transactions
            producer = await transactions.init_producer("writer")
            for number, commit in enumerate([True, False, True, False, True]):
                await transactions.add_partitions("writer", producer, PLACES)
                for place in PLACES:
                    batch = encode_batch(
                        [NewRecord(None, b"%d" % number)],
                        producer_id=producer.producer_id,
                        producer_epoch=producer.epoch,
                        base_sequence=number,
                        transactional=True,
                        now_ms=services.clock.now_ms(),
                    )
                    assert services.publish.append(*place, batch, acks=Acks.LEADER).appended.duplicate is False
                await transactions.end("writer", producer, commit=commit)
                await asyncio.sleep(60)
            for place in PLACES:
                bounds = services.queries.offsets(*place)
                assert bounds.last_stable_offset == bounds.high_watermark
            read = await services.reads.read(
                dict.fromkeys(PLACES, 0), limit=1000, max_bytes=2**20, isolation=Isolation.READ_COMMITTED
            )
            for one in read.values():
                assert [record.value for record in one.records] == [b"0", b"2", b"4"]

        assert node.live(story)
