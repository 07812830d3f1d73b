"""The Python client's queue: iterate, settle, run handlers, hold on to what is slow."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import time

import pytest

from goqueue.client import InvalidArgument, Reject, SettleFailed, connect, sync

numbers = itertools.count()


@pytest.fixture
async def client(broker):
    async with connect(f"http://{broker.http}") as client:
        yield client


@pytest.fixture
async def topic(client):
    name = f"client-queue-{next(numbers)}"
    await client.create_topic(name, partitions=2)
    return name


async def publish(client, topic, *values, **fields):
    async with client.producer() as producer:
        for value in values:
            await producer.send(topic, value, **fields)


async def until(condition, seconds=15.0):
    async with asyncio.timeout(seconds):
        while not (found := await condition()):  # noqa: ASYNC110 - the condition lies in the broker
            await asyncio.sleep(0.02)
        return found


async def test_messages_are_iterated_over_and_acked_one_by_one(client, topic):
    await publish(client, topic, *[str(n) for n in range(50)], key="k", headers={"h": b"\xff\x00"})
    seen = []

    async with client.queue(topic, group=topic) as queue:
        async for message in queue:
            await queue.ack(message)
            seen.append(int(message.text))
            if len(seen) == 50:
                break

    assert seen == list(range(50))
    assert (message.headers, message.priority, message.delivery_count) == ((("h", b"\xff\x00"),), "normal", 1)
    assert (await client.group_offsets(topic))["total_lag"] == 0


async def test_many_are_settled_in_one_call_and_failures_name_themselves(client, topic):
    await publish(client, topic, "a", "b", "c", key="k")
    async with client.queue(topic, group=topic) as queue:
        first, *rest = await queue.receive()
        await queue.ack(first)

        with pytest.raises(SettleFailed, match="1 of 3") as caught:
            await queue.ack(first, *rest)

        assert [one.success for one in caught.value.results] == [False, True, True]
        assert caught.value.status == 410


async def test_acks_that_do_not_wait_travel_together(client, topic):
    await publish(client, topic, *[str(n) for n in range(200)])
    async with client.queue(topic, group=topic) as queue:
        futures = []
        while len(futures) < 200:
            futures += [queue.ack_soon(message) for message in await queue.receive()]
        await queue.flush()
        assert all(future.result().action == "acked" for future in futures)
    assert (await client.group_offsets(topic))["total_lag"] == 0


async def test_a_nack_brings_it_again_and_a_reject_buries_it(client, topic):
    await publish(client, topic, "a")
    async with client.queue(topic, group=topic) as queue:
        (message,) = await queue.receive()
        (requeued,) = await queue.nack(message, delay="50ms", error="busy")
        (again,) = await queue.receive()
        assert (requeued.action, again.is_redelivered, again.delivery_count) == ("requeued", True, 2)
        with pytest.raises(InvalidArgument, match="needs an error"):
            await queue.reject(again)
        with pytest.raises(InvalidArgument, match="two names"):
            await queue.nack(again, error="one", reason="another")
        (rejected,) = await queue.reject(again, error="hopeless")
        assert rejected.dead_letter_topic == f"{topic}.dlq"

    async def letters():
        return (await client.dead_letters(topic))["letters"]

    (letter,) = await until(letters)
    assert letter["message"]["value"] == "a"
    assert (letter["reason"], letter["error"]) == ("rejected", "hopeless")


async def test_what_is_held_is_kept_beyond_its_visibility(client, topic):
    await publish(client, topic, "slow")
    async with client.queue(topic, group=topic, visibility="600ms") as queue:
        (message,) = await queue.receive()
        begun = time.monotonic()
        async with client.queue(topic, group=topic) as other:
            while time.monotonic() - begun < 2:
                assert await other.receive(wait="200ms") == []
        assert [one.action for one in await queue.ack(message)] == ["acked"]


async def test_what_was_fetched_and_not_handed_out_is_given_back(client, topic):
    await publish(client, topic, "a", "b", "c", key="k")
    async with client.queue(topic, group=topic) as queue:
        async for message in queue:
            await queue.ack(message)
            break

    async with client.queue(topic, group=topic) as queue:
        assert [one.text for one in await queue.receive(wait=5)] == ["b", "c"]


async def test_a_handler_acks_by_returning_nacks_by_raising_and_rejects(client, topic):
    await client.alter_topic(topic, config={"delivery.backoff.ms": "20"})
    await publish(client, topic, "fine", "flaky", "hopeless")
    handled = []

    async def handle(message):
        handled.append((message.text, message.delivery_count))
        if message.text == "hopeless":
            raise Reject("no")
        if message.text == "flaky" and message.delivery_count == 1:
            raise RuntimeError("not yet")

    async def is_over():
        offsets = await client.group_offsets(topic)
        return len(handled) == 4 and offsets["total_lag"] == 0

    async with client.queue(topic, group=topic) as queue:
        working = asyncio.create_task(queue.run(handle, concurrency=2))
        await until(is_over, 45)
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working

    assert sorted(handled) == [("fine", 1), ("flaky", 1), ("flaky", 2), ("hopeless", 1)]


async def test_members_share_a_group_and_hand_over_when_they_leave(client, topic):
    async with (
        client.queue_consumer(topic, [topic], sharing="shared", wait="500ms") as first,
        client.queue_consumer(topic, [topic], sharing="shared", wait="500ms") as second,
    ):
        await publish(client, topic, *[str(n) for n in range(10)])
        mine = await first.receive(limit=3)
        others = []
        while len(mine) + len(others) < 10:
            others += await second.receive(limit=3)
        await second.ack(*others)
        await first.close()
        again = []
        while len(again) < len(mine):
            again += await second.receive(wait=5)
        assert sorted(one.text for one in again) == sorted(one.text for one in mine)


async def test_priority_and_deduplication_are_the_producers_to_say(client, topic):
    await client.alter_topic(topic, config={"goqueue.dedup.window.ms": "60000"})
    async with client.producer() as producer:
        first = await producer.send_and_wait(topic, "a", deduplication_id="one", priority="high")
        again = await producer.send_and_wait(topic, "a", deduplication_id="one", priority="high")

    assert (again.partition, again.offset, again.duplicate, first.duplicate) == (
        first.partition,
        first.offset,
        True,
        False,
    )
    async with client.queue(topic, group=topic) as queue:
        (message,) = await queue.receive()
        assert message.priority == "high"


def test_the_same_without_await(broker):
    with sync.connect(f"http://{broker.http}") as client:
        client.create_topic("sync-queue", partitions=1)
        with client.producer() as producer:
            for number in range(5):
                producer.send_and_wait("sync-queue", str(number))
        with client.queue("sync-queue", group="sync") as queue:
            first, *rest = queue.receive()
            queue.extend(first, visibility=60)
            queue.ack(*rest)
            queue.release(first)
            for message in queue:
                assert (message.text, message.delivery_count) == ("0", 1)
                queue.reject(message, reason="enough")
                break
        assert client.policy("sync")["effective"]["retries_max"] == 3
        assert client.reliability_stats()["ack_manager"]["acked_total"] >= 4
        with client.queue_consumer("sync-members", ["sync-queue"]) as member:
            assert len(member.receive(limit=2)) == 2


async def test_what_is_no_message_is_refused_with_what_to_write(client, topic):
    async with client.queue(topic, group=topic) as queue:
        for settle in (queue.ack, queue.nack, queue.release):
            with pytest.raises(TypeError, match=r"str is not a message: .*queue\.ack\(message\)"):
                await settle("text")
        with pytest.raises(TypeError, match=r"queue\.ack\(\*messages\)"):
            await queue.ack([])
        with pytest.raises(TypeError, match="str is not a message"):
            queue.ack_soon("text")


@pytest.mark.parametrize("limit", [0, -1])
async def test_to_receive_nothing_is_refused(client, topic, limit):
    async with client.queue(topic, group=topic) as queue:
        with pytest.raises(ValueError, match=f"limit={limit}"):
            await queue.receive(limit=limit)


def test_a_program_that_never_closes_its_queue_ends_quietly(broker):
    program = (
        "from goqueue.client import sync\n"
        f"client = sync.connect('http://{broker.http}')\n"
        "client.create_topic('left-open')\n"
        "queue = client.queue('left-open')\n"
        "member = client.queue_consumer('left-open', ['left-open'])\n"
        "print(queue.receive(wait=0.001), member.receive(wait=0.001))\n"
    )

    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "[] []\n", "")
