"""Transactions in the Python client: blocks that commit or abort, offsets with them, fencing, dead producers."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from tests.e2e.conftest import StartBroker
from tests.e2e.process import BrokerProcess

from goqueue.client import (
    Client,
    ClientError,
    Producer,
    ProducerFenced,
    RequestRefused,
    TopicPartition,
    TransactionAborted,
    TransactionUnknown,
    connect,
    sync,
)
from goqueue.client.retry import RetryPolicy

numbers = itertools.count()


@pytest.fixture
async def client(broker: BrokerProcess) -> AsyncIterator[Client]:
    async with connect(f"http://{broker.http}") as connected:
        yield connected


@pytest.fixture
async def topic(client: Client) -> str:
    name = f"tx-client-{next(numbers)}"
    await client.create_topic(name, partitions=2)
    return name


async def values(client: Client, topic: str) -> list[bytes | None]:
    return [message.value for partition in (0, 1) for message in (await client.read(topic, partition))[0]]


async def until(client: Client, topic: str, wanted: set[bytes]) -> None:
    deadline = asyncio.get_running_loop().time() + 10
    while set(found := await values(client, topic)) != wanted or len(found) != len(wanted):
        assert asyncio.get_running_loop().time() < deadline, found
        await asyncio.sleep(0.01)


async def send_all(producer: Producer, topic: str, *messages: bytes) -> None:
    """One transaction: each message to a partition of its own."""
    async with producer.transaction() as transaction:
        for partition, value in enumerate(messages):
            await transaction.send(topic, value, partition=partition)


async def test_a_block_commits_and_an_exception_aborts(client: Client, topic: str) -> None:
    async with client.producer(transactional_id=topic) as producer:
        for name, fails in (("a", False), ("b", True), ("c", False)):
            try:
                async with producer.transaction() as transaction:
                    for partition in (0, 1):
                        await transaction.send(topic, f"{name}{partition}", partition=partition)
                    if fails:
                        await producer.flush()
                        raise LookupError("the work went wrong")
            except LookupError:
                assert fails
    await until(client, topic, {b"a0", b"a1", b"c0", b"c1"})


async def test_reading_working_and_writing_is_exactly_once_through_aborts(client: Client, topic: str) -> None:
    done = f"{topic}-done"
    await client.create_topic(done, partitions=2)
    async with client.producer() as feeder:
        for number in range(20):
            await feeder.send(topic, str(number), partition=number % 2)
    tries = 0
    async with (
        client.consumer(topic, [topic], auto_commit=False) as consumer,
        client.producer(transactional_id=topic) as producer,
    ):
        worked = 0
        while worked < 20:
            batch = []
            try:
                async with producer.transaction(consumer) as transaction:
                    tries += 1
                    batch = await consumer.poll(limit=3, timeout="500ms")
                    for message in batch:
                        await transaction.send(done, message.value, partition=message.partition)
                    if tries % 3 == 0:
                        raise LookupError("the work went wrong")
            except LookupError:
                continue
            worked += len(batch)
    await until(client, done, {b"%d" % number for number in range(20)})
    offsets = await client.group_offsets(topic)
    assert [row["lag"] for row in offsets["topics"][topic].values()] == [0, 0]


async def test_offsets_can_be_named(client: Client, topic: str) -> None:
    async with (
        client.consumer(f"{topic}-named", [topic], auto_commit=False) as consumer,
        client.producer(transactional_id=topic) as producer,
    ):
        async with producer.transaction() as transaction:
            await transaction.send(topic, b"x", partition=0)
            await transaction.send_offsets(consumer, {TopicPartition(topic, 0): 1})
        await until(client, topic, {b"x"})
        deadline = asyncio.get_running_loop().time() + 10
        while (await client.group_offsets(f"{topic}-named"))["topics"][topic]["0"].get("offset") != 1:
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.01)


async def test_the_next_process_with_the_same_id_fences_the_one_before(client: Client, topic: str) -> None:
    old, new = client.producer(transactional_id=topic), client.producer(transactional_id=topic)
    lost = await old.transaction().__aenter__()
    await lost.send(topic, b"old", partition=0)
    await old.flush()
    await send_all(new, topic, b"new")
    with pytest.raises(ProducerFenced):
        await lost.__aexit__(None, None, None)
    await until(client, topic, {b"new"})
    with pytest.raises(ProducerFenced):
        await send_all(old, topic, b"again")
    await old.close()
    await new.close()


async def test_what_cannot_be_stored_aborts_the_whole_transaction(client: Client, topic: str) -> None:
    await client.alter_topic(topic, config={"max.message.bytes": "1000"})
    async with client.producer(transactional_id=topic) as producer:
        with pytest.raises(TransactionAborted):
            await send_all(producer, topic, b"fits", b"x" * 2000)
        async with producer.transaction() as transaction:
            await transaction.send(topic, b"again", partition=0)
    await until(client, topic, {b"again"})


async def test_a_producer_with_an_id_sends_in_transactions_only_and_one_at_a_time(client: Client, topic: str) -> None:
    async with client.producer(transactional_id=topic) as producer, client.producer() as plain:
        with pytest.raises(ClientError, match="sends in transactions"):
            await producer.send(topic, b"x")
        with pytest.raises(ClientError, match="transactional_id"):
            plain.transaction()
        async with client.consumer(topic, [topic]) as consumer:
            with pytest.raises(ClientError, match="auto_commit=False"):
                await producer.transaction(consumer).__aenter__()
        async with producer.transaction():
            with pytest.raises(ClientError, match="one at a time"):
                await producer.transaction().__aenter__()


async def test_a_request_that_comes_too_late_does_not_become_part_of_the_next_transaction(
    client: Client, topic: str
) -> None:
    call = client._transport.call
    ids = await call("POST", "/producers/init", dict, body={"transactional_id": topic})
    names = {"transactional_id": topic, "producer_id": ids["producer_id"], "epoch": ids["epoch"]}
    first = (await call("POST", "/transactions/begin", dict, body=names))["transaction_id"]
    late = {
        "messages": [{"value": "late"}],
        "partition": 0,
        "producer_id": ids["producer_id"],
        "producer_epoch": ids["epoch"],
        "sequence": 0,
        "transaction_id": first,
    }
    await call("POST", "/transactions/abort", dict, body={**names, "transaction_id": first})
    second = (await call("POST", "/transactions/begin", dict, body=names))["transaction_id"]
    single = {"producer_id": ids["producer_id"], "epoch": ids["epoch"], "topic": topic, "value": "late", "sequence": 0}
    offsets = {"group": "late", "offsets": {topic: {"0": 1}}}
    for path, body in (
        (f"/topics/{topic}/messages", late),
        ("/transactions/publish", {**single, "transaction_id": first}),
        ("/transactions/add-partition", {**names, "topic": topic, "partition": 0, "transaction_id": first}),
        ("/transactions/offsets", {**names, **offsets, "transaction_id": first}),
        ("/transactions/commit", {**names, "transaction_id": first}),
    ):
        with pytest.raises(RequestRefused) as refused:
            await call("POST", path, dict, body=body)
        assert refused.value.code == "invalid_transaction_state", path
    await call("POST", "/transactions/commit", dict, body={**names, "transaction_id": second})
    await until(client, topic, set())


async def test_a_dead_producers_transaction_is_aborted_when_its_session_ends(start_broker: StartBroker) -> None:
    broker = start_broker(GOQUEUE_TRANSACTIONS_SESSION_TIMEOUT_MS=300, GOQUEUE_TRANSACTIONS_HEARTBEAT_INTERVAL_MS=50)
    async with connect(f"http://{broker.http}") as client:
        await client.create_topic("t", partitions=2)
        dead, alive = client.producer(transactional_id="dead"), client.producer(transactional_id="alive")
        async with alive.transaction() as beating:
            await beating.send("t", b"alive", partition=1)
            transaction = dead.transaction()
            await transaction.__aenter__()
            await transaction.send("t", b"dead", partition=0)
            await dead.flush()
            dead._session._heart.cancel()  # type: ignore[union-attr]
            deadline = asyncio.get_running_loop().time() + 10
            while (await client.transaction("dead"))["state"] != "CompleteAbort":
                assert asyncio.get_running_loop().time() < deadline
                await asyncio.sleep(0.02)
        await until(client, "t", {b"alive"})
        with pytest.raises(ProducerFenced):
            await transaction.__aexit__(None, None, None)


async def test_a_commit_without_an_answer_says_so(start_broker: StartBroker) -> None:
    broker = start_broker()
    retry = RetryPolicy(attempts_max=2, delay_ms_first=1)
    async with connect(f"http://{broker.http}", retry=retry) as client:
        producer = client.producer(transactional_id="t")
        transaction = await producer.transaction().__aenter__()
        await transaction.send("t", b"x", partition=0)
        await producer.flush()
        broker.kill()
        with pytest.raises(TransactionUnknown):
            await transaction.__aexit__(None, None, None)
        await producer.close()


def test_the_blocking_client_has_transactions_too(broker: BrokerProcess) -> None:
    with sync.connect(f"http://{broker.http}") as client:
        for name in ("sync-in", "sync-out"):
            client.create_topic(name, partitions=1)
        with client.producer() as feeder:
            feeder.send_and_wait("sync-in", b"1")
        consumer = client.consumer("sync", ["sync-in"], auto_commit=False)
        with client.producer(transactional_id="sync") as producer:
            seen = 0
            while seen < 1:
                with producer.transaction(consumer) as transaction:
                    for message in consumer.poll(timeout="500ms"):
                        transaction.send("sync-out", message.value)
                        seen += 1
            aborted = producer.transaction().__enter__()
            aborted.send("sync-out", b"aborted")
            aborted.send_offsets(consumer)
            aborted.__exit__(LookupError, LookupError(), None)
            with producer.transaction() as transaction:
                transaction.send("sync-out", b"2")
        consumer.close()
        found: list[bytes | None] = []
        while len(found) < 2:
            found = [message.value for message in client.read("sync-out", 0, wait="500ms")[0]]
        assert found == [b"1", b"2"]


async def test_messages_of_a_queue_are_acked_with_what_was_made_of_them(client: Client, topic: str) -> None:
    done = f"{topic}-done"
    await client.create_topic(done, partitions=2)
    async with client.producer() as feeder:
        for number in range(6):
            await feeder.send(topic, str(number), partition=number % 2)
    async with client.producer(transactional_id=topic) as producer, client.queue(topic, group=topic) as queue:
        taken = []
        while len(taken) < 6:
            taken += await queue.receive(wait="500ms")
        good = sorted(taken, key=lambda message: int(message.value or b""))
        async with producer.transaction() as transaction:
            await transaction.send(done, b"made of 0 and 1", partition=0)
            await transaction.ack(*good[:2])
        async with producer.transaction() as transaction:
            await transaction.reject(good[2], reason="never")
        aborted = await producer.transaction().__aenter__()
        await aborted.send(done, b"never seen", partition=0)
        await aborted.ack(*good[3:])
        await aborted.__aexit__(LookupError, LookupError(), None)
        await until(client, done, {b"made of 0 and 1"})
        await until(client, f"{topic}.dlq", {b"2"})
        for message in good[3:]:
            # Nothing came of the abort: their receipts are as good as before.
            await retried(lambda message=message: queue.ack(message))


async def retried(ask: Callable[[], Awaitable[object]]) -> None:
    """The partitions are told of an abort milliseconds after it is answered."""
    deadline = asyncio.get_running_loop().time() + 10
    while True:
        try:
            await ask()
        except ClientError:
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.01)
        else:
            return
