"""A whole node as a queue: the defects of the Go version by their numbers, and what must be true instead."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from goqueue.broker.topics import NewTopic
from goqueue.delivery.values import Action, Delivery, Receive, Settlement, SettleResult
from goqueue.errors import InvalidReceipt, ReceiptExpired, ReceiptNotFound
from goqueue.records import Acks, NewRecord, Record, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.sim_node import SimNode

ONE = [TopicPartition("t", 0)]

Story = Callable[[Services], Awaitable[None]]


def play(*stories: Story, is_killed: bool = False) -> SimNode:
    node = SimNode(seed=5)
    for story in stories:
        assert node.live(story, is_killed=is_killed)
    return node


async def publish(services: Services, count: int, *, topic: str = "t", priority: bytes | None = None) -> None:
    if services.topics.find(topic) is None:
        await services.topics.create(NewTopic(topic, 1))
    headers = () if priority is None else (("goqueue-priority", priority),)
    records = [NewRecord(b"k%d" % number, b"v%d" % number, headers) for number in range(count)]
    for one in await services.publish.publish_records(topic, records, acks=Acks.LEADER):
        assert one.error is None


async def receive(services: Services, limit: int = 100, *, group: str = "g", wait_ms: int = 0) -> list[Delivery]:
    return await services.delivery.receive(Receive(group, "c", ONE, limit, wait_ms=wait_ms))


async def settle(services: Services, deliveries: Sequence[Delivery], action: Action = Action.ACK) -> list[SettleResult]:
    return await services.delivery.settle([Settlement(one.receipt, action) for one in deliveries])


async def dead_letters(services: Services, topic: str = "t.dlq") -> list[Record]:
    read = await services.reads.read({TopicPartition(topic, 0): 0}, limit=1000, max_bytes=2**20)
    return read[TopicPartition(topic, 0)].records


def offsets(deliveries: Sequence[Delivery]) -> list[int]:
    return [one.offset for one in deliveries]


def test_messages_are_delivered_once_and_acknowledged_for_good() -> None:
    async def story(services: Services) -> None:
        await publish(services, 10)
        first = await receive(services, 4)
        assert offsets(first) == [0, 1, 2, 3]
        assert {one.delivery_count for one in first} == {1}
        second = await receive(services)
        assert offsets(second) == [4, 5, 6, 7, 8, 9]
        results = await settle(services, [*first, *second])
        assert {(one.action_taken, one.error) for one in results} == {("acked", None)}
        assert results[-1].committed_offset == 10
        await asyncio.sleep(60)
        assert await receive(services) == []

    play(story)


def test_w04_an_ack_survives_a_kill_and_moves_the_group() -> None:
    async def before(services: Services) -> None:
        await publish(services, 5)
        await settle(services, (await receive(services))[:3])

    async def after(services: Services) -> None:
        assert await services.delivery.positions.committed("g", ONE) == {ONE[0]: 3}
        await asyncio.sleep(31)
        assert offsets(await receive(services)) == [3, 4]

    play(before, after, is_killed=True)


def test_w05_an_unanswered_message_comes_back_with_a_higher_count_and_then_dies() -> None:
    async def story(services: Services) -> None:
        await publish(services, 1)
        for count in (1, 2, 3, 4):
            (got,) = await receive(services)
            assert got.delivery_count == count
            await asyncio.sleep(30.1)
        assert await receive(services) == []
        (letter,) = await dead_letters(services)
        said = dict(letter.headers)
        assert (letter.key, letter.value) == (b"k0", b"v0")
        assert said["goqueue-dlq-reason"] == b"visibility_timeout"
        assert said["goqueue-dlq-delivery-count"] == b"4"
        assert (said["goqueue-dlq-topic"], said["goqueue-dlq-offset"]) == (b"t", b"0")
        assert (said["goqueue-dlq-group"], said["goqueue-dlq-consumer"]) == (b"g", b"c")

    play(story)


def test_w06_two_groups_hold_the_same_message_independently() -> None:
    async def story(services: Services) -> None:
        await publish(services, 3)
        one, other = await receive(services, group="one"), await receive(services, group="other")
        assert offsets(one) == offsets(other) == [0, 1, 2]
        await settle(services, one)
        assert await services.delivery.positions.committed("one", ONE) == {ONE[0]: 3}
        assert await services.delivery.positions.committed("other", ONE) == {ONE[0]: 0}

    play(story)


def test_w07_a_slow_message_blocks_nobody() -> None:
    async def story(services: Services) -> None:
        await publish(services, 50)
        slow, *rest = await receive(services, 10)
        await settle(services, rest)
        for _ in range(4):
            await settle(services, await receive(services, 10))
        assert slow.offset == 0
        assert await services.delivery.positions.committed("g", ONE) == {ONE[0]: 0}
        assert (await settle(services, [slow]))[0].committed_offset == 50

    play(story)


def test_w17_the_first_back_off_is_a_second_and_a_long_one_holds_up_no_other() -> None:
    async def story(services: Services) -> None:
        await publish(services, 2)
        long, short = await receive(services)
        now_ms = services.clock.now_ms()
        results = await services.delivery.settle(
            [Settlement(long.receipt, Action.NACK, delay_ms=60_000), Settlement(short.receipt, Action.NACK)]
        )
        assert [one.next_visible_ms for one in results] == [now_ms + 60_000, now_ms + 1_000]
        again = await receive(services, wait_ms=10_000)
        assert offsets(again) == [1]
        assert services.clock.now_ms() - now_ms < 1_100
        await settle(services, again)
        assert offsets(await receive(services, wait_ms=60_000)) == [0]

    play(story)


def test_w18_receipts_say_what_is_wrong_with_them_and_the_dead_do_not_die_again() -> None:
    async def story(services: Services) -> None:
        await publish(services, 2)
        got = await receive(services)
        assert {type(one.error) for one in await settle(services, got[:1])} == {type(None)}
        stale, garbage, unknown, gone = await services.delivery.settle(
            [
                Settlement(got[0].receipt, Action.ACK),
                Settlement("t:0:zero:1:nonce", Action.ACK),
                Settlement(got[0].receipt[:-1] + ("0" if got[0].receipt[-1] != "0" else "1"), Action.ACK),
                Settlement("other:topic:" + got[0].receipt[2:], Action.ACK),
            ]
        )
        assert [type(one.error) for one in (stale, garbage, unknown, gone)] == [
            ReceiptExpired,
            InvalidReceipt,
            ReceiptNotFound,
            ReceiptNotFound,
        ]
        (result,) = await settle(services, got[1:], Action.REJECT)
        assert (result.action_taken, result.dead_letter_topic) == ("rejected", "t.dlq")
        await asyncio.sleep(1)
        at = [TopicPartition("t.dlq", 0)]
        (letter,) = await services.delivery.receive(Receive("g", "c", at, 10, wait_ms=1000))
        (result,) = await settle(services, [letter], Action.REJECT)
        assert (result.action_taken, result.dead_letter_topic) == ("rejected", None)
        await asyncio.sleep(5)
        assert services.topics.find("t.dlq.dlq") is None
        assert len(await dead_letters(services)) == 1

    play(story)


def test_w19_a_receive_that_is_cancelled_while_it_waits_has_leased_nothing() -> None:
    async def story(services: Services) -> None:
        await publish(services, 1)
        await settle(services, await receive(services))
        waiting = asyncio.ensure_future(receive(services, wait_ms=30_000))
        await asyncio.sleep(1)
        waiting.cancel()
        await asyncio.wait([waiting])
        await publish(services, 3)
        assert (await services.delivery.stats()).in_flight == 0
        assert offsets(await receive(services)) == [1, 2, 3]

    play(story)


def test_a_receive_that_waits_is_woken_by_a_publish() -> None:
    async def story(services: Services) -> None:
        await publish(services, 1)
        await settle(services, await receive(services))
        waiting = asyncio.ensure_future(receive(services, wait_ms=30_000))
        await asyncio.sleep(1)
        await publish(services, 2)
        assert offsets(await waiting) == [1, 2]

    play(story)


def test_large_messages_that_die_together_are_moved_in_as_many_batches_as_it_takes() -> None:
    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("t", 1, config={"max.message.bytes": "60000"}))
        await services.topics.create(NewTopic("t.dlq", 1, config={"max.message.bytes": "60000"}))
        for number in range(10):
            records = [NewRecord(b"k%d" % number, bytes([number]) * 50_000)]
            assert (await services.publish.publish_records("t", records, acks=Acks.ALL))[0].error is None
        await settle(services, await receive(services), Action.REJECT)
        await asyncio.sleep(5)
        letters = await dead_letters(services)
        assert [(one.value or b"")[:1] for one in letters] == [bytes([number]) for number in range(10)]

    play(story)


def test_a_message_that_is_too_large_for_the_dead_letter_topic_with_its_history_is_moved_all_the_same() -> None:
    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("t", 1, config={"max.message.bytes": "60000"}))
        await services.topics.create(NewTopic("t.dlq", 1, config={"max.message.bytes": "20000"}))
        records = [NewRecord(b"k", b"v" * 50_000)]
        await services.publish.publish_records("t", records, acks=Acks.ALL)
        await settle(services, await receive(services), Action.REJECT)
        await asyncio.sleep(5)
        assert [len(one.value or b"") for one in await dead_letters(services)] == [50_000]

    play(story)


def test_a_move_that_was_cut_to_fit_is_repeated_after_a_kill_with_the_same_messages() -> None:
    """Whatever instant the power goes, each letter is there once."""

    async def before(services: Services) -> None:
        await services.topics.create(NewTopic("t", 1, config={"max.message.bytes": "60000"}))
        await services.topics.create(NewTopic("t.dlq", 1, config={"max.message.bytes": "60000"}))
        for number in range(6):
            records = [NewRecord(b"k%d" % number, bytes([number]) * 25_000)]
            await services.publish.publish_records("t", records, acks=Acks.ALL)
        await settle(services, await receive(services), Action.REJECT)

    async def after(services: Services) -> None:
        await asyncio.sleep(5)
        letters = await dead_letters(services)
        assert sorted((one.value or b"")[:1] for one in letters) == [bytes([number]) for number in range(6)]

    for pause in range(0, 40, 4):

        async def cut(services: Services, pause: int = pause) -> None:
            await before(services)
            await asyncio.sleep(pause / 1000)

        play(cut, after, is_killed=True)
