"""The Python client against a real broker."""

from __future__ import annotations

import asyncio
import itertools
import signal

import pytest
from confluent_kafka import Consumer as KafkaConsumer
from confluent_kafka import Producer as KafkaProducer
from tests.e2e.http import Http

from goqueue.client import BrokerUnreachable, DeliveryUnknown, RequestRefused, SendFailed, TopicPartition, connect, sync
from goqueue.client.retry import RetryPolicy
from goqueue.partitioner import partition_for_key

numbers = itertools.count()


@pytest.fixture
async def client(broker):
    async with connect(f"http://{broker.http}") as connected:
        yield connected


@pytest.fixture
async def topic(client):
    name = f"client-{next(numbers)}"
    await client.create_topic(name, partitions=3)
    return name


async def drain(consumer, count):
    """Poll until `count` messages came; the test's own timeout ends a wait that is too long."""
    messages = []
    while len(messages) < count:
        messages += await consumer.poll(timeout="500ms")
    return messages


async def test_what_is_sent_is_read(client, topic):
    async with client.producer() as producer:
        sent = await producer.send_and_wait(topic, b"\x00\xff", key="k", headers={"h": b"\xfe"})

    (message,), following = await client.read(topic, sent.partition)
    assert (message.value, message.key, message.headers) == (b"\x00\xff", b"k", (("h", b"\xfe"),))
    assert following == 1


@pytest.mark.parametrize("how", ["flush", "close"])
async def test_nothing_queued_is_lost_by_an_immediate_flush_or_close(client, topic, how):
    for round_number in range(25):
        producer = client.producer(linger=1)
        futures = [await producer.send(topic, f"{how}-{round_number}-{n}") for n in range(7)]
        await getattr(producer, how)()
        assert all(future.done() for future in futures)
        await producer.close()

    assert (await client.topic(topic))["total_messages"] == 25 * 7


async def test_every_send_is_answered_exactly_once_and_in_order_per_partition(client, topic):
    async with client.producer(batch_records_max=10) as producer:
        futures = [await producer.send(topic, str(n), partition=n % 3) for n in range(1000)]
    delivered = [future.result() for future in futures]

    for partition in range(3):
        offsets = [one.offset for one in delivered if one.partition == partition]
        assert offsets == list(range(len(offsets)))


async def test_a_producer_is_told_how_far_its_record_got(broker, client, topic):
    copies = 3 if broker.is_cluster else 1
    async with client.producer(acks="all") as producer:
        found = await producer.send_and_wait(topic, "safe")
        assert (found.acks, found.durability, found.replicas) == ("all", "synced", copies)
    async with client.producer(acks="leader") as producer:
        found = await producer.send_and_wait(topic, "written by its leader")
        assert (found.acks, found.durability, found.replicas) == ("leader", None, None)


async def test_records_without_a_key_are_spread_evenly(client, topic):
    async with client.producer() as producer:
        for n in range(30):
            await producer.send(topic, str(n))

    offsets = (await client.topic(topic))["partition_offsets"]
    assert [offsets[p]["latest"] for p in "012"] == [10, 10, 10]


@pytest.mark.parametrize("partitioner", ["murmur3", "murmur2"])
async def test_http_and_the_producer_place_keys_as_the_topic_says(broker, client, partitioner):
    topic = f"placed-by-{partitioner}"
    await client.create_topic(topic, partitions=7, config={"goqueue.partitioner": partitioner})
    keys = [f"key-{n}" for n in range(50)]
    by_partitioner = [partition_for_key(key.encode(), 7, partitioner) for key in keys]

    messages = [{"value": "by http", "key": key} for key in keys]
    over_http = Http(broker.http).post(f"/topics/{topic}/messages", {"messages": messages})["results"]
    async with client.producer() as producer:
        sent = [await producer.send(topic, "by the producer", key=key) for key in keys]
    async with client.producer(transactional_id=topic) as producer, producer.transaction():
        in_transaction = [await producer.send(topic, "in a transaction", key=key) for key in keys]

    assert [one["partition"] for one in over_http] == by_partitioner
    assert [(await one).partition for one in sent] == by_partitioner
    assert [(await one).partition for one in in_transaction] == by_partitioner


async def test_java_and_the_producer_agree_on_a_murmur2_topic(broker, client):
    await client.create_topic("placed-as-java", partitions=7, config={"goqueue.partitioner": "murmur2"})
    keys = [f"key-{n}" for n in range(50)]
    async with client.producer() as producer:
        sent = [await producer.send("placed-as-java", "v", key=key) for key in keys]

    placed = {}
    kafka = KafkaProducer({"bootstrap.servers": broker.kafka, "partitioner": "murmur2_random"})
    for key in keys:
        kafka.produce(
            "placed-as-java", "v", key, on_delivery=lambda _, one: placed.update({one.key(): one.partition()})
        )
    kafka.flush(30)

    assert [(await one).partition for one in sent] == [placed[key.encode()] for key in keys]


async def test_a_producer_learns_of_changes_to_a_topic(client, monkeypatch):
    monkeypatch.setattr("goqueue.client.producing.producer.TOPIC_AGE_S_MAX", 0)
    await client.create_topic("changing", partitions=1)
    keys = [f"key-{n}" for n in range(20)]
    async with client.producer() as producer:
        assert (await producer.send_and_wait("changing", "v", key="k")).partition == 0
        await client.alter_topic("changing", partitions=7, config={"goqueue.partitioner": "murmur2"})
        placed = [(await producer.send_and_wait("changing", "v", key=key)).partition for key in keys]

    assert placed == [partition_for_key(key.encode(), 7, "murmur2") for key in keys]


async def test_a_record_that_is_refused_fails_alone(client, topic):
    # Leaving the block raises, because the program has not looked at the future of the bad one.
    with pytest.raises(SendFailed, match="1 record was not stored"):  # noqa: PT012 - the end of the block raises
        async with client.producer() as producer:
            bad = await producer.send(topic, "x", partition=9)
            good = await producer.send(topic, "y", partition=0)

    with pytest.raises(RequestRefused, match="no partition 9"):
        bad.result()
    assert good.result().offset == 0


async def test_a_broker_that_restarts_in_the_middle_stores_everything_once(start_broker):
    broker = start_broker()
    patient = RetryPolicy(attempts_max=300, delay_ms_first=20, delay_ms_max=200)
    async with connect(f"http://{broker.http}", retry=patient) as client:
        await client.create_topic("steady", partitions=1)
        async with client.producer(acks="all", batch_records_max=5) as producer:
            futures = []
            for n in range(300):
                futures.append(await producer.send("steady", str(n)))
                if n in {100, 200}:
                    await asyncio.to_thread(broker.kill)
                    await asyncio.to_thread(broker.start)
        assert sorted(future.result().offset for future in futures) == list(range(300))
        values = []
        offset = 0
        while len(values) < 300:
            messages, offset = await client.read("steady", 0, offset=offset, limit=1000)
            values += [int(message.text) for message in messages]
    assert values == list(range(300))


async def test_a_batch_whose_answer_never_came_is_called_unknown(start_broker):
    broker = start_broker()
    async with connect(f"http://{broker.http}") as patient:
        await patient.create_topic("doubt", partitions=1)
    once = RetryPolicy(attempts_max=1)
    async with (
        connect(f"http://{broker.http}", timeout="300ms", retry=once) as client,
        client.producer(delivery_timeout=0) as producer,
    ):
        await producer.send_and_wait("doubt", "a")
        broker.signal(signal.SIGSTOP)
        future = await producer.send("doubt", "b")
        with pytest.raises(SendFailed, match="1 record was not stored"):
            await producer.flush()
        broker.signal(signal.SIGCONT)
        with pytest.raises(DeliveryUnknown):
            future.result()


async def test_no_broker_is_one_clear_error():
    async with connect("http://127.0.0.1:9", retry=RetryPolicy(attempts_max=2, delay_ms_first=1)) as client:
        with pytest.raises(BrokerUnreachable, match=r"127\.0\.0\.1:9"):
            await client.topics()


async def test_a_group_reads_every_message_and_goes_on_where_it_stopped(client, topic):
    async with client.producer() as producer:
        for n in range(50):
            await producer.send(topic, str(n))
    async with client.consumer(f"readers-of-{topic}", [topic]) as consumer:
        first = await drain(consumer, 50)
    async with client.producer() as producer:
        await producer.send(topic, "late")
    async with client.consumer(f"readers-of-{topic}", [topic]) as consumer:
        second = await drain(consumer, 1)

    assert sorted(int(message.text) for message in first) == list(range(50))
    assert [message.text for message in second] == ["late"]


@pytest.mark.parametrize("way", ["by the program", "automatically"])
async def test_a_commit_by_the_program_has_the_message_in_hand_and_an_automatic_one_does_not(client, topic, way):
    async with client.producer() as producer:
        for n in range(5):
            await producer.send(topic, str(n), partition=0)
    group, automatic = f"careful-{topic}", way == "automatically"
    async with client.consumer(group, [topic], auto_commit=automatic, auto_commit_interval="50ms") as consumer:
        async for message in consumer:
            if message.text == "3":
                break
        if not automatic:
            await consumer.commit()
        offset = None
        while offset is None or offset < 3:
            offset = (await client.group_offsets(group)).topics[topic]["0"].offset
    assert offset == (3 if automatic else 4)


async def test_a_commit_after_a_poll_has_all_that_was_returned(client, topic):
    async with client.producer() as producer:
        for n in range(5):
            await producer.send(topic, str(n), partition=0)
    group = f"polled-{topic}"
    async with client.consumer(group, [topic], auto_commit=False) as consumer:
        got = [one.text for one in await consumer.poll(limit=3, timeout=10)]
        await consumer.commit()
        assert (got, (await client.group_offsets(group)).topics[topic]["0"].offset) == (["0", "1", "2"], 3)


async def test_two_consumers_share_and_the_survivor_takes_over(client, topic):
    group = f"pair-{topic}"
    lost, gained = [], []
    async with client.consumer(group, [topic], on_revoked=lost.append, on_assigned=gained.append) as first:
        assert len(first.assignment) == 3
        async with client.consumer(group, [topic]) as second:
            while len(first.assignment) + len(second.assignment) != 3 or not second.assignment:
                await first.poll(timeout="50ms")
            assert not first.assignment & second.assignment
            assert frozenset().union(*lost) == second.assignment
        while len(first.assignment) < 3:
            await first.poll(timeout="50ms")


async def test_a_consumer_shares_its_group_with_a_kafka_client(client, broker, topic):
    group = f"mixed-{topic}"
    kafka = KafkaConsumer(
        {
            "bootstrap.servers": broker.kafka,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
        }
    )
    kafka.subscribe([topic])
    try:
        async with client.consumer(group, [topic]) as ours:
            while len(ours.assignment) + len(kafka.assignment()) != 3 or not kafka.assignment() or not ours.assignment:
                await asyncio.to_thread(kafka.poll, 0.1)
                await ours.poll(timeout="50ms")
            theirs = {TopicPartition(one.topic, one.partition) for one in kafka.assignment()}
            assert not theirs & ours.assignment
    finally:
        await asyncio.to_thread(kafka.close)


async def test_seek_pause_and_lag(client, topic):
    async with client.producer() as producer:
        for n in range(10):
            await producer.send(topic, str(n), partition=n % 2)
    async with client.consumer(f"seeker-{topic}", [topic], auto_commit=False) as consumer:
        at = TopicPartition(topic, 0)
        await drain(consumer, 10)
        consumer.seek(at, 3)
        assert [message.offset for message in await drain(consumer, 2)] == [3, 4]
        await consumer.commit({at: 4})
        assert (await consumer.lag())[at] == 1
        consumer.pause(at)
        consumer.seek(at, 0)
        assert await consumer.poll(timeout="100ms") == []
        consumer.resume(at)
        assert len(await drain(consumer, 5)) == 5


async def test_a_tail_follows_the_topic(client, topic):
    async def first_two():
        return [message.text async for message in client.tail(topic, **{"from": "earliest", "limit": "2"})]

    following = asyncio.create_task(first_two())
    async with client.producer() as producer:
        await producer.send_and_wait(topic, "a", partition=0)
        await producer.send_and_wait(topic, "b", partition=0)

    assert await following == ["a", "b"]


async def test_a_tail_that_is_cut_off_says_so(client, topic):
    async with client.producer() as producer:
        await producer.send_and_wait(topic, "one")
    tail = client.tail(topic, **{"from": "earliest"})
    assert (await anext(tail)).text == "one"

    await client.delete_topic(topic)

    with pytest.raises(BrokerUnreachable):
        await anext(tail)


def test_the_synchronous_client_does_the_same(broker):
    with sync.connect(f"http://{broker.http}") as client:
        client.create_topic("blocking", partitions=1)
        with client.producer() as producer:
            futures = [producer.send("blocking", str(n)) for n in range(10)]
            producer.flush()
            assert [future.result().offset for future in futures] == list(range(10))
        with client.consumer("blockers", ["blocking"]) as consumer:
            texts = []
            for message in consumer:
                texts.append(message.text)
                if len(texts) == 10:
                    break
        assert texts == [str(n) for n in range(10)]
        client.close()


def test_a_blocking_producer_that_closes_at_once_has_sent_everything(broker):
    topic = f"client-{next(numbers)}"
    with sync.connect(f"http://{broker.http}") as client:
        with client.producer(linger=1, buffer_records_max=10) as producer:
            sent = [producer.send(topic, f"{n}") for n in range(50)]
        assert {future.result(timeout=5).topic for future in sent} == {topic}
        assert client.topic(topic)["total_messages"] == 50
        assert client.offset_at(topic, 0, timestamp_ms=0) == 0


@pytest.mark.parametrize("room", [3, 10_000])
def test_records_keep_their_order_while_the_topic_is_looked_up_and_while_there_is_no_room(broker, room):
    for _ in range(5):
        topic = f"client-{next(numbers)}"
        with sync.connect(f"http://{broker.http}") as client:
            client.create_topic(topic, partitions=1)
            with client.producer(buffer_records_max=room, linger="1ms") as producer:
                sent = [producer.send(topic, f"{n}") for n in range(200)]
            assert [future.result(timeout=5).offset for future in sent] == list(range(200))


def test_a_flush_waits_for_records_whose_topic_is_still_being_looked_up(broker):
    topic = f"client-{next(numbers)}"
    with sync.connect(f"http://{broker.http}") as client, client.producer() as producer:
        for n in range(10):
            producer.send(topic, f"{n}")
        producer.flush()
        assert client.topic(topic)["total_messages"] == 10


async def test_a_flush_does_not_wait_for_a_record_that_failed_on_its_way_in(client):
    async with client.producer() as producer:
        refused = asyncio.create_task(producer.send("__reserved", "x"))
        await asyncio.sleep(0)
        await producer.flush()
        with pytest.raises(RequestRefused):
            await refused


@pytest.mark.parametrize("fields", [{"value": {"a": 1}}, {"value": 5}, {"value": "x", "headers": [("a", "b")]}])
async def test_a_value_that_is_no_bytes_is_refused_by_name_and_harms_no_other(client, topic, fields):
    async with client.producer() as producer:
        with pytest.raises(TypeError, match=r"(value|headers) is "):
            await producer.send(topic, **fields)
        assert (await producer.send_and_wait(topic, "good")).offset == 0


@pytest.mark.parametrize("suffix", ["?force=true", "#old", "/../other"])
async def test_a_name_that_continues_a_path_reaches_nothing_else(client, topic, suffix):
    with pytest.raises(RequestRefused) as refused:
        await client.delete_topic(topic + suffix)

    assert refused.value.status == 404
    assert (await client.topic(topic))["partitions"] == 3


@pytest.mark.parametrize("group", ["team a/b?c#d", "50%25", "..", "[red]"])
async def test_a_group_may_have_any_printable_name(client, topic, group):
    async with client.producer() as producer:
        await producer.send_and_wait(topic, b"one", partition=0)
        await producer.send_and_wait(topic, b"two", partition=0)
    async with client.queue(topic, group=group) as queue:
        (message,) = await queue.receive(limit=1)
        await queue.ack(message)

    assert (await client.group(group))["id"] == group
    assert (await client.group_offsets(group))["total_lag"] == 1
    await client.delete_group(group)
    with pytest.raises(RequestRefused):
        await client.group(group)


async def test_a_consumers_group_may_have_any_printable_name(client, topic):
    async with client.producer() as producer:
        await producer.send_and_wait(topic, b"one")
    async with client.consumer("readers a/b?c#d", [topic]) as consumer:
        assert [message.value for message in await drain(consumer, 1)] == [b"one"]

    assert (await client.group_offsets("readers a/b?c#d"))["total_lag"] == 0
