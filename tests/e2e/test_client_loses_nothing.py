"""A producer never ends in silence when a record was not stored; a consumer never ends in silence at all."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import subprocess
import sys
import time
from collections import Counter
from datetime import timedelta

import pytest

from goqueue.client import (
    BrokerUnreachable,
    ClientClosed,
    ClientError,
    ConsumerClosed,
    InvalidArgument,
    ProducerClosed,
    RecordRefused,
    RequestRefused,
    SendFailed,
    TopicExists,
    TopicNotFound,
    connect,
    sync,
)
from goqueue.client.retry import RetryPolicy

NOBODY = "http://127.0.0.1:9"
ONCE = RetryPolicy(attempts_max=1)

LOST, BACK = "lost the connection to the broker", "reconnected to the broker"


def until(condition, seconds_max=30.0):
    """Poll to a deadline."""
    deadline = time.monotonic() + seconds_max
    while not condition():
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(0.02)


async def eventually(condition, seconds_max=30.0):
    deadline = time.monotonic() + seconds_max
    while not condition():
        assert time.monotonic() < deadline, "it did not become true in time"
        await asyncio.sleep(0.02)


# --- sending ---------------------------------------------------------------------------


def test_a_dead_broker_is_raised_when_the_block_is_left():
    with (  # noqa: PT012 - the end of the block raises
        sync.connect(NOBODY, retry=ONCE) as client,
        pytest.raises(
            SendFailed, match=r"2 records were not stored: errands: no answer from http://127\.0\.0\.1:9"
        ) as raised,
        client.producer() as producer,
    ):
        producer.send("errands", "a")
        producer.send("errands", "b")

    assert [(one.topic, type(one.error)) for one in raised.value.failures] == [("errands", BrokerUnreachable)] * 2


def test_a_dead_broker_is_raised_by_flush_and_by_close_and_once_only():
    with sync.connect(NOBODY, retry=ONCE) as client:
        producer = client.producer()
        producer.send("errands", "a")
        with pytest.raises(SendFailed):
            producer.flush()
        producer.send("errands", "b")
        with pytest.raises(SendFailed):
            producer.close()
        producer.close()


def test_a_client_that_is_closed_closes_its_producers_first():
    with pytest.raises(SendFailed, match="1 record"), sync.connect(NOBODY, retry=ONCE) as client:
        client.producer().send("errands", "a")


def test_the_script_of_the_readme_against_a_dead_broker_fails_with_a_message():
    script = (
        "from goqueue.client import sync\n"
        f"with sync.connect('{NOBODY}') as client:\n"
        "    with client.producer() as producer:\n"
        "        producer.send('errands', 'resize cat.jpg', priority='high')\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)

    assert ended.returncode == 1
    assert "SendFailed: 1 record was not stored" in ended.stderr


def test_the_error_of_the_block_is_not_hidden():
    def work():
        with sync.connect(NOBODY, retry=ONCE) as client, client.producer() as producer:
            producer.send("errands", "a")
            raise ZeroDivisionError("ours")

    with pytest.raises(ZeroDivisionError, match="ours") as raised:
        work()
    assert any("1 record was not stored" in note for note in raised.value.__notes__)


async def test_a_broker_that_dies_is_raised_by_the_asynchronous_producer(start_broker):
    broker = start_broker()
    async with connect(f"http://{broker.http}", retry=ONCE) as client:
        producer = client.producer(linger="1ms", delivery_timeout=0)
        await producer.send_and_wait("errands", "a")
        await asyncio.to_thread(broker.kill)
        await producer.send("errands", "b")
        with pytest.raises(SendFailed, match="1 record was not stored"):
            await producer.flush()

        async def work():
            async with producer:
                await producer.send("errands", "c")
                raise ZeroDivisionError("ours")

        with pytest.raises(ZeroDivisionError) as raised:
            await work()
        assert any("1 record was not stored" in note for note in raised.value.__notes__)


def test_a_failure_that_the_program_has_looked_at_is_not_raised_again(broker):
    with sync.connect(f"http://{broker.http}") as client, client.producer() as producer:
        client.create_topic("looked-at", partitions=1, exist_ok=True)
        with pytest.raises(RequestRefused):
            producer.send_and_wait("looked-at", "a", partition=7)


def test_a_record_that_the_broker_refuses_is_raised(broker):
    with (  # noqa: PT012 - the end of the block raises
        sync.connect(f"http://{broker.http}") as client,
        pytest.raises(SendFailed, match="1 record was not stored") as raised,
        client.producer() as producer,
    ):
        good = producer.send("too-large", "small")
        producer.send("too-large", "x" * 20_000_000)

    assert good.result().offset == 0
    assert isinstance(raised.value.failures[0].error, RecordRefused)


WRONG = [
    (("traps", "x"), {"prio": "high"}, TypeError, "prio"),
    (("traps", "x"), {"priority": "urgent"}, InvalidArgument, "critical, high"),
    (("traps", "x"), {"priority": 9}, InvalidArgument, "0 .critical."),
    (("traps", "x"), {"priority": 1.5}, TypeError, "priority is float"),
    (("bad topic!", "x"), {}, InvalidArgument, "bad topic!"),
    ((5, "x"), {}, TypeError, "topic is int"),
    (("traps", {"a": 1}), {}, TypeError, "json="),
    (("traps", 5), {}, TypeError, "value is int"),
    (("traps", "x"), {"json": {}}, TypeError, "both given"),
    (("traps", "x"), {"key": 5}, TypeError, "key is int"),
    (("traps", "x"), {"headers": {"a": 5}}, TypeError, "header 'a' is int"),
    (("traps", "x"), {"headers": {5: "a"}}, TypeError, "header name 5"),
    (("traps", "x"), {"delay": "5"}, InvalidArgument, "5s for seconds"),
    (("traps", "x"), {"delay": -1}, InvalidArgument, "0 or more"),
    (("traps", "x"), {"delay": object()}, TypeError, "delay is object"),
    (("traps", "x"), {"deliver_at": "tomorrow"}, InvalidArgument, "RFC 3339"),
    (("traps", "x"), {"delay": 1, "deliver_at": "2030-01-01T00:00:00Z"}, InvalidArgument, "leave one out"),
    (("traps", "x"), {"partition": -1}, InvalidArgument, "partition=-1"),
    (("traps", "x"), {"partition": "0"}, TypeError, "partition is str"),
    (("traps", "x"), {"timestamp_ms": "now"}, TypeError, "timestamp_ms is str"),
    (("traps", "x"), {"deduplication_id": 5}, TypeError, "deduplication_id is int"),
]


@pytest.mark.parametrize(("given", "fields", "kind", "text"), WRONG)
async def test_what_can_be_checked_without_the_broker_is_raised_at_once(given, fields, kind, text):
    async with connect(NOBODY) as client, client.producer() as producer:
        with pytest.raises(kind, match=text):
            await producer.send(*given, **fields)


@pytest.mark.parametrize(("given", "fields", "kind", "text"), WRONG)
def test_and_so_it_is_by_the_blocking_producer(given, fields, kind, text):
    with sync.connect(NOBODY) as client, client.producer() as producer, pytest.raises(kind, match=text):
        producer.send(*given, **fields)


async def test_good_fields_are_accepted_in_every_form(broker):
    async with connect(f"http://{broker.http}") as client, client.producer() as producer:
        for fields in ({"delay": 90}, {"delay": timedelta(minutes=2)}, {"delay": "1h30m"}, {"priority": 0}):
            await producer.send_and_wait("forms", "x", **fields)
        sent = await producer.send_and_wait("forms", json={"id": 7}, partition=0, priority="low")
        (message,), _ = await client.read("forms", 0, offset=sent.offset)
        assert message.json() == {"id": 7}


def test_a_full_buffer_makes_send_wait_and_loses_nothing(broker):
    with sync.connect(f"http://{broker.http}") as client:
        with client.producer(buffer_records_max=5, linger="1ms") as producer:
            futures = [producer.send("narrow", str(n), partition=0) for n in range(200)]
        assert [one.result().offset for one in futures] == list(range(200))


async def test_a_failure_that_nobody_looks_at_is_logged(start_broker, caplog, monkeypatch):
    monkeypatch.setattr("goqueue.client.producing.failures.LOOK_AFTER_S", 0.01)
    broker = start_broker()
    async with connect(f"http://{broker.http}", retry=ONCE) as client:
        producer = client.producer(linger="1ms", delivery_timeout=0)
        await producer.send_and_wait("errands", "a")
        await asyncio.to_thread(broker.kill)
        await producer.send("errands", "b")
        await eventually(
            lambda: "1 record was not stored, and the result of its future was not retrieved" in caplog.text
        )
        with pytest.raises(SendFailed):
            await producer.close()


async def test_an_ack_that_fails_and_that_nobody_looks_at_is_logged(broker, caplog):
    async with connect(f"http://{broker.http}") as client:
        async with client.producer() as producer:
            await producer.send_and_wait("careless", "a")
        async with client.queue("careless") as queue:
            (message,) = await queue.receive()
            await queue.ack(message)
            queue.ack_soon(message)
            await queue.flush()
            gc.collect()
    assert "exception was never retrieved" in caplog.text


# --- use after close -------------------------------------------------------------------


def test_use_after_close_says_so(broker):
    client = sync.connect(f"http://{broker.http}")
    producer, queue = client.producer(), client.queue("after-close")
    queue.close()
    producer.close()
    with pytest.raises(ConsumerClosed, match="closed"):
        queue.receive(wait=0)
    with pytest.raises(ProducerClosed, match="closed"):
        producer.send("after-close", "x")
    client.close()
    for use in (client.topics, client.producer, lambda: queue.receive(wait=0)):
        with pytest.raises(ClientClosed, match="the client is closed"):
            use()
    queue.close()
    producer.close()
    client.close()


async def test_use_after_close_says_so_in_the_asynchronous_client(broker):
    client = connect(f"http://{broker.http}")
    producer, queue = client.producer(), client.queue("after-close")
    await client.close()
    with pytest.raises(ClientClosed):
        await client.topics()
    with pytest.raises(ProducerClosed):
        await producer.send("after-close", "x")
    with pytest.raises(ConsumerClosed):
        await queue.receive(wait=0)


def test_a_client_that_crossed_a_fork_says_so_and_its_child_ends(broker):
    with sync.connect(f"http://{broker.http}") as client:
        child = os.fork()
        if child == 0:
            try:
                client.topics()
            except ClientError as problem:
                os._exit(7 if "fork" in str(problem) else 8)
            os._exit(9)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


# --- broker restarts -------------------------------------------------------------------


async def read_stream(client, got):
    async with client.consumer("stream", ["steady"]) as consumer:
        async for message in consumer:
            got.append(message.text)


async def read_queue(client, got):
    async with client.queue("steady", group="queue", durable=True) as queue:
        async for message in queue:
            got.append(message.text)
            await queue.ack(message)


async def read_as_member(client, got):
    async with client.queue_consumer("member", ["steady"], durable=True) as queue:
        async for message in queue:
            got.append(message.text)
            await queue.ack(message)


async def run_handler(client, got):
    async with client.queue("steady", group="run", durable=True) as queue:
        await queue.run(lambda message: got.append(message.text))


def said(caplog, what):
    """Who said it, in the order of the log."""
    return [(before, after) for before, found, after in (one.partition(f" {what}") for one in caplog.messages) if found]


async def test_consumers_of_every_kind_survive_a_broker_that_is_killed_and_started_again(start_broker, caplog):
    caplog.set_level(logging.INFO, "goqueue.client")
    broker = start_broker()
    readers = [read_stream, read_queue, read_as_member, run_handler]
    got = {reader: [] for reader in readers}
    sent = []
    async with connect(f"http://{broker.http}") as client:
        await client.create_topic("steady", partitions=2)
        tasks = [asyncio.create_task(reader(client, got[reader])) for reader in readers]
        producer = client.producer(acks="all")
        for round_number in range(3):
            for value in (f"{round_number}-a", f"{round_number}-b", f"{round_number}-c"):
                await producer.send_and_wait("steady", value)
                sent.append(value)
            await eventually(lambda: all(sorted(set(one)) == sorted(sent) for one in got.values()))
            assert not any(task.done() for task in tasks)
            if round_number < 2:
                await asyncio.to_thread(broker.kill)
                await producer.send("steady", f"{round_number}-while-away")
                sent.append(f"{round_number}-while-away")
                await eventually(lambda n=round_number: caplog.text.count(LOST) >= 5 * (n + 1))
                await asyncio.to_thread(broker.start)
        await producer.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    # Queues got each message once: what was acked durably was not redelivered.
    assert [sorted(got[reader]) for reader in readers[1:]] == [sorted(sent)] * 3
    # Once when it began and once when it ended, however many attempts there were. Which of them notice depends on what
    # each was doing: one that was settling says so in its own lines, and may have the broker back by its next read.
    lost, back = (Counter(who for who, _ in said(caplog, what)) for what in (LOST, BACK))
    assert lost == back
    assert len(lost) >= 5
    assert max(lost.values()) <= 2


async def test_an_ack_waits_for_the_broker_while_its_lease_lasts(start_broker):
    broker = start_broker()
    async with connect(f"http://{broker.http}", retry=ONCE) as client:
        async with client.producer(acks="all") as producer:
            await producer.send_and_wait("patient", "a")
        async with client.queue("patient", visibility="5m", durable=True) as queue:
            (message,) = await queue.receive()
            await asyncio.to_thread(broker.kill)
            ack = asyncio.create_task(queue.ack(message))
            done, _ = await asyncio.wait({ack}, timeout=0.5)
            assert not done
            await asyncio.to_thread(broker.start)
            (settled,) = await ack
            assert settled.action == "acked"


async def test_a_limit_ends_the_waiting_for_a_broker_that_stays_away(start_broker):
    broker = start_broker()
    async with connect(f"http://{broker.http}", retry=ONCE) as client:
        await client.create_topic("limited")
        async with client.queue("limited", reconnect_max="300ms", wait="50ms") as queue:
            assert await queue.receive() == []
            await asyncio.to_thread(broker.kill)

            async def iterate():
                async for _ in queue:
                    pass

            with pytest.raises(BrokerUnreachable):
                await asyncio.wait_for(iterate(), 30)


async def test_the_second_address_is_used_when_the_first_does_not_answer(broker):
    async with connect([NOBODY, f"http://{broker.http}"]) as client:
        assert isinstance(await client.topics(), list)
    async with connect(f"{NOBODY},{broker.http}") as client, client.producer() as producer:
        assert (await producer.send_and_wait("two-addresses", "x")).offset == 0


async def test_the_environment_says_which_broker_is_meant(broker, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GOQUEUE_SERVER", broker.http)
    async with connect() as client:
        assert isinstance(await client.topics(), list)
    monkeypatch.delenv("GOQUEUE_SERVER")
    (tmp_path / ".goqueue").mkdir()
    (tmp_path / ".goqueue/config.yaml").write_text(
        f"current-context: here\ncontexts:\n  here: {{server: '{broker.http}'}}\n  gone: {{server: '{NOBODY}'}}\n"
    )
    async with connect() as client:
        assert isinstance(await client.topics(), list)
    async with connect(context="gone", retry=ONCE) as client:
        with pytest.raises(BrokerUnreachable):
            await client.topics()


# --- errors and answers ----------------------------------------------------------------


async def test_errors_are_classes_and_answers_have_attributes(broker):
    async with connect(f"http://{broker.http}") as client:
        created = await client.create_topic("classes", partitions=2)
        assert (created.name, created.partitions) == ("classes", 2)
        with pytest.raises(TopicExists):
            await client.create_topic("classes")
        assert (await client.create_topic("classes", exist_ok=True)).partitions == 2
        with pytest.raises(TopicNotFound):
            await client.topic("no-such-topic")
        topic = await client.topic("classes")
        assert topic.partition_offsets["0"].latest == topic["partition_offsets"]["0"]["latest"] == 0
        with pytest.raises(AttributeError, match="partitionz"):
            _ = topic.partitionz
        assert "classes" in [one.name for one in await client.topics()]


def test_a_redrive_can_be_waited_for(broker):
    with sync.connect(f"http://{broker.http}") as client:
        with client.producer() as producer:
            producer.send("redriven", "a")
        with client.queue("redriven", group="g") as queue:
            queue.reject(*queue.receive(), reason="no")
        until(lambda: client.dead_letters("redriven").total == 1)
        assert client.dead_letters("redriven").letters[0].group == "g"
        done = client.redrive("redriven").wait()
        assert (done.state, done.redriven) == ("done", 1)


async def test_milliseconds_are_a_deprecated_synonym(broker):
    async with connect(f"http://{broker.http}") as client:
        with pytest.warns(DeprecationWarning, match="linger"):
            client.producer(linger_ms=5)
        async with client.queue("traps-ms") as queue:
            with pytest.raises(TypeError, match="same setting"):
                await queue.receive(wait=1, wait_ms=1)
