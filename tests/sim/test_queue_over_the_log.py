"""What the log does under a queue: lanes, transactions, retention, compaction, age, deletion."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from random import Random

import pytest

from goqueue.broker.topics import NewTopic
from goqueue.config import Config, DeliveryConfig, LogConfig
from goqueue.delivery.values import Action, Delivery, Receive, Settlement
from goqueue.errors import GroupInFlight, InternalTopic, InvalidRequest
from goqueue.records import Acks, NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.sim_node import SimNode

AT = TopicPartition("t", 0)

Story = Callable[[Services], Awaitable[None]]


def play(*stories: Story, config: Config | None = None) -> SimNode:
    node = SimNode(seed=9, config=config)
    for story in stories:
        assert node.live(story)
    return node


async def make(services: Services, **config: str) -> None:
    await services.topics.create(
        NewTopic("t", 1, config={name.replace("_", "."): value for name, value in config.items()})
    )


async def publish(services: Services, *records: NewRecord) -> None:
    for one in await services.publish.publish_records("t", records, acks=Acks.LEADER):
        assert one.error is None


def message(value: int, *, lane: int | None = None, key: bytes | None = None) -> NewRecord:
    headers = () if lane is None else (("goqueue-priority", b"%d" % lane),)
    return NewRecord(key, b"%d" % value, headers)


async def receive(services: Services, limit: int = 100, *, consumer: str = "c", wait_ms: int = 0) -> list[Delivery]:
    return await services.delivery.receive(Receive("g", consumer, [AT], limit, wait_ms=wait_ms))


async def ack(services: Services, found: Sequence[Delivery]) -> None:
    for one in await services.delivery.settle([Settlement(one.receipt, Action.ACK) for one in found]):
        assert one.error is None


def offsets(found: Sequence[Delivery]) -> list[int]:
    return [one.offset for one in found]


def test_w01_every_message_of_a_mixed_topic_is_delivered() -> None:
    async def story(services: Services) -> None:
        await make(services, segment_bytes="4096")
        rng = Random(1)
        lanes = [rng.randrange(5) for _ in range(1000)]
        for first in range(0, 1000, 7):
            await publish(services, *(message(n, lane=lanes[n]) for n in range(first, min(first + 7, 1000))))
        seen: list[Delivery] = []
        while found := await receive(services, 33):
            seen += found
            await ack(services, found)
        assert sorted(offsets(seen)) == list(range(1000))
        assert all(one.priority == lanes[one.offset] for one in seen)
        # Within a lane the order is that of the log.
        for lane in range(5):
            of_lane = [one.offset for one in seen if one.priority == lane]
            assert of_lane == sorted(of_lane)

    play(story)


def test_urgent_messages_overtake_a_backlog_and_shares_follow_the_weights() -> None:
    async def story(services: Services) -> None:
        await make(services)
        for lane in (4, 3, 2, 1, 0):
            await publish(services, *(message(n, lane=lane) for n in range(300)))
        found = await receive(services, 200)
        assert found[0].priority == 0
        shares = Counter(one.priority for one in found)
        for lane, weight in enumerate((50, 25, 15, 7, 3)):
            assert abs(shares[lane] - 2 * weight) <= 4
        stats = await services.delivery.priority_stats()
        (lanes,) = stats.queues
        assert sum(one.in_flight for one in lanes.lanes) == 200
        assert [one.ready + one.in_flight for one in lanes.lanes] == [300] * 5

    play(story)


def test_strict_priority_and_weights_are_the_topics_to_choose() -> None:
    async def story(services: Services) -> None:
        await make(services, goqueue_strict_priority="true")
        await publish(services, *(message(n, lane=n % 5) for n in range(50)))
        assert [one.priority for one in await receive(services, 20)] == [0] * 10 + [1] * 10
        await services.topics.alter_config("t", {"goqueue.strict.priority": None, "goqueue.lane.weights": "1,1,1,1,96"})
        assert Counter(one.priority for one in await receive(services, 10))[4] >= 8

    play(story)


def test_kafka_headers_choose_lanes_only_where_the_topic_says_so() -> None:
    from goqueue.codec.batch_encode import encode_batch

    async def story(services: Services) -> None:
        await make(services)
        batch = encode_batch([message(0), message(1, lane=0)], now_ms=services.clock.now_ms())
        services.publish.append("t", 0, batch, acks=Acks.LEADER)
        await services.topics.alter_config("t", {"goqueue.priority.headers": "true"})
        services.publish.append("t", 0, batch, acks=Acks.LEADER)
        assert [(one.offset, one.priority) for one in await receive(services)] == [(3, 0), (0, 2), (1, 2), (2, 2)]

    play(story)


async def transact(services: Services, count: int, *, commit: bool | None) -> None:
    producer = await services.transactions.init_producer("tx")
    await services.transactions.add_partitions("tx", producer, [AT])
    results = await services.publish.publish_records(
        "t",
        [message(n) for n in range(count)],
        acks=Acks.ALL,
        partition=0,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        sequence=0,
        transactional=True,
    )
    assert all(one.error is None for one in results)
    if commit is not None:
        await services.transactions.end("tx", producer, commit=commit)
        # Its partitions are told after the answer.
        await asyncio.sleep(1)
        assert not services.transactions.ending_count


def test_w03_an_open_transaction_holds_the_queue_back_and_loses_nothing() -> None:
    async def story(services: Services) -> None:
        await make(services)
        await transact(services, 3, commit=None)
        await publish(services, message(9))
        assert await receive(services) == []
        waiting = asyncio.ensure_future(receive(services, wait_ms=60_000))
        await asyncio.sleep(1)
        await services.transactions.abort("tx")
        assert [one.value for one in await waiting] == [b"9"]

    play(story)


def test_w08_a_long_aborted_transaction_is_passed_over_in_one_receive() -> None:
    async def story(services: Services) -> None:
        await make(services)
        for _ in range(3):
            await transact(services, 500, commit=False)
        await transact(services, 2, commit=True)
        found = await receive(services, 10)
        assert [one.value for one in found] == [b"0", b"1"]
        await ack(services, found)
        committed = await services.delivery.positions.committed("g", [AT])
        assert committed == {AT: services.queries.offsets("t", 0).end_offset}

    play(story)


def test_retention_under_a_queue_settles_what_is_gone_without_a_word() -> None:
    async def story(services: Services) -> None:
        await make(services)
        await publish(services, *(message(n) for n in range(20)))
        held = await receive(services, 5)
        await services.delivery.settle([Settlement(one.receipt, Action.NACK, delay_ms=100) for one in held[:2]])
        await services.queries.delete_records("t", 0, 10)
        await asyncio.sleep(31)
        found = await receive(services)
        assert offsets(found) == list(range(10, 20))
        await ack(services, found)
        assert await services.delivery.positions.committed("g", [AT]) == {AT: 20}
        assert (await services.delivery.stats()).waiting == 0

    play(story)


def test_compaction_under_a_queue_settles_what_it_took_away() -> None:
    async def story(services: Services) -> None:
        await make(services, cleanup_policy="compact", segment_bytes="1024", min_cleanable_dirty_ratio="0.01")
        for number in range(60):
            await publish(services, message(number, key=b"k%d" % (number % 3)))
        held = await receive(services, 4)
        assert offsets(held) == [0, 1, 2, 3]
        await asyncio.sleep(200)
        found = await receive(services)
        assert found
        assert len(found) < 60
        assert {one.offset for one in found} >= {57, 58, 59}
        await ack(services, found)
        assert await services.delivery.positions.committed("g", [AT]) == {AT: 60}

    play(story, config=Config(log=LogConfig(retention_check_ms=1000)))


def test_a_message_older_than_its_topics_ttl_is_not_delivered() -> None:
    async def story(services: Services) -> None:
        await make(services, message_ttl_ms="60000")
        await publish(services, message(0), message(1))
        (first,) = await receive(services, 1)
        assert first.offset == 0
        await asyncio.sleep(61)
        await publish(services, message(2))
        assert offsets(await receive(services)) == [2]
        stats = await services.delivery.stats()
        assert stats.too_old_total == 2
        assert stats.waiting == 0

    play(story)


def test_what_is_too_old_for_a_share_group_is_counted_as_well() -> None:
    async def story(services: Services) -> None:
        await make(services, message_ttl_ms="60000")
        await publish(services, message(0), message(1))
        await asyncio.sleep(61)
        await publish(services, message(2))
        (acquired,) = await services.delivery.acquire("g", AT, "c", limit=10)
        assert (acquired.first, acquired.last) == (2, 2)
        assert (await services.delivery.stats()).too_old_total == 2

    play(story)


def test_with_keys_in_order_a_key_waits_for_its_own_and_for_no_other() -> None:
    async def story(services: Services) -> None:
        await make(services)
        await services.groups.ensure_queue("g", key_ordered=True)
        await publish(services, *(message(n, key=key) for n, key in enumerate([b"a", b"a", b"b", b"a", b"b", None])))
        first = await receive(services)
        assert [(one.offset, one.key) for one in first] == [(0, b"a"), (2, b"b"), (5, None)]
        assert await receive(services) == []
        a, b, _ = first
        await services.delivery.settle([Settlement(a.receipt, Action.NACK), Settlement(b.receipt, Action.ACK)])
        # The retry of a blocks a alone.
        assert offsets(await receive(services)) == [4]
        retried = await receive(services, wait_ms=2_000)
        assert [(one.offset, one.delivery_count) for one in retried] == [(0, 2)]
        await ack(services, retried)
        assert offsets(await receive(services)) == [1]

    play(story)


def test_a_consumer_holds_no_more_than_it_may_and_gets_more_when_it_answers() -> None:
    async def story(services: Services) -> None:
        await make(services)
        await publish(services, *(message(n) for n in range(10)))
        first = await receive(services)
        assert len(first) == 4
        assert await receive(services) == []
        assert len(await receive(services, 2, consumer="other")) == 2
        waiting = asyncio.ensure_future(receive(services, wait_ms=20_000))
        await asyncio.sleep(1)
        await ack(services, first[:3])
        assert len(await waiting) == 3

    play(story, config=Config(delivery=DeliveryConfig(in_flight_max=4)))


def test_a_group_with_too_much_outstanding_gets_only_its_retries_and_says_so() -> None:
    async def story(services: Services) -> None:
        await make(services)
        await publish(services, *(message(n) for n in range(10)))
        held = await receive(services)
        assert offsets(held) == [0, 1, 2, 3, 4]
        await services.delivery.settle([Settlement(held[0].receipt, Action.NACK, delay_ms=0)])
        assert offsets(await receive(services)) == [0]
        (row,) = (await services.delivery.stats()).queues
        assert (row.outstanding, row.at_bound) == (5, True)

    play(story, config=Config(delivery=DeliveryConfig(outstanding_max=5)))


def test_a_consumer_that_leaves_gives_its_messages_back_uncounted() -> None:
    async def story(services: Services) -> None:
        await make(services)
        await publish(services, message(0))
        await receive(services)
        await services.delivery.release_consumer("g", "c")
        (again,) = await receive(services, consumer="other", wait_ms=100)
        assert again.delivery_count == 1

    play(story)


def test_a_group_is_reset_only_while_nothing_is_in_flight() -> None:
    async def story(services: Services) -> None:
        await make(services)
        await publish(services, *(message(n) for n in range(5)))
        found = await receive(services)
        with pytest.raises(GroupInFlight):
            await services.delivery.positions.reset("g", {AT: 2})
        await ack(services, found)
        await services.delivery.positions.reset("g", {AT: 2})
        assert await services.delivery.positions.committed("g", [AT]) == {AT: 2}
        assert offsets(await receive(services)) == [2, 3, 4]

    play(story)


def test_w31_a_topic_or_group_made_again_inherits_nothing() -> None:
    async def story(services: Services) -> None:
        await make(services)
        await publish(services, *(message(n) for n in range(5)))
        await ack(services, await receive(services))
        await services.delivery.positions.forget("g")
        assert offsets(await receive(services)) == [0, 1, 2, 3, 4]
        await services.topics.delete("t")
        await make(services)
        await publish(services, message(0))
        (found,) = await receive(services)
        assert (found.offset, found.delivery_count) == (0, 1)

    async def after(services: Services) -> None:
        await asyncio.sleep(31)
        assert [(one.offset, one.delivery_count) for one in await receive(services)] == [(0, 2)]

    play(story, after)


def test_what_cannot_be_meant_is_refused_with_the_field() -> None:
    async def story(services: Services) -> None:
        await make(services)
        with pytest.raises(InvalidRequest) as refusal:
            await receive(services, 1001)
        assert refusal.value.field == "limit"
        with pytest.raises(InvalidRequest) as refusal:
            await services.delivery.receive(Receive("g", "c", [AT], 1, visibility_ms=-1))
        assert refusal.value.field == "visibility_timeout"
        await receive(services)
        with pytest.raises(InternalTopic):
            await services.delivery.receive(Receive("g", "c", [TopicPartition("__consumer_offsets", 0)], 1))

    play(story)


def test_ranges_are_acquired_and_settled_without_receipts() -> None:
    from goqueue.delivery.values import AcquiredRange, RangeSettlement
    from goqueue.errors import NotHeld

    async def story(services: Services) -> None:
        await make(services)
        await publish(services, *(message(n, lane=n % 2) for n in range(6)))
        delivery = services.delivery
        assert await delivery.acquire("g", AT, "c", limit=100) == [AcquiredRange(0, 5, 1)]
        outcomes = await delivery.settle_ranges(
            "g", AT, "c", [RangeSettlement(0, 2, Action.ACK), RangeSettlement(3, 4, Action.RELEASE)]
        )
        assert outcomes == [None, None]
        (refused,) = await delivery.settle_ranges("g", AT, "other", [RangeSettlement(5, 5, Action.ACK)])
        assert isinstance(refused, NotHeld)
        await asyncio.sleep(0.01)
        assert await delivery.acquire("g", AT, "other", limit=100) == [AcquiredRange(3, 4, 1)]
        assert await delivery.positions.committed("g", None) == {AT: 3}

    play(story)
