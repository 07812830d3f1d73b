"""Dramatiq on GoQueue: what its own broker tests check, for this broker."""

from __future__ import annotations

import threading
import time

import pytest

pytest.importorskip("dramatiq")

import dramatiq
from dramatiq.errors import QueueJoinTimeout, QueueNotFound
from dramatiq.middleware import AgeLimit, Callbacks, Retries, ShutdownNotifications, TimeLimit

from goqueue.client.identity import default_client_id
from goqueue.dramatiq import GoQueueBroker
from goqueue.dramatiq.lanes import lane_of
from goqueue.testing import EmbeddedBroker


@pytest.fixture
def node(tmp_path):
    with EmbeddedBroker(tmp_path, manual_clock=False) as running:
        yield running


@pytest.fixture
def broker(node):
    middleware = [
        AgeLimit(),
        TimeLimit(),
        Callbacks(),
        ShutdownNotifications(),
        Retries(min_backoff=10, max_backoff=50),
    ]
    made = GoQueueBroker(node.http_url, partitions=1, visibility_timeout=2, middleware=middleware)
    yield made
    made.close()


@pytest.fixture
def work(broker):
    """Start a worker with so many threads."""
    workers = []

    def start(threads=2):
        worker = dramatiq.Worker(broker, worker_timeout=100, worker_threads=threads)
        worker.start()
        workers.append(worker)
        return worker

    yield start
    for worker in workers:
        worker.stop()


def letters(node, queue="default"):
    return node.client().dead_letters(queue).total


def until(condition, seconds_max=30.0):
    deadline = time.monotonic() + seconds_max
    while not condition():
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(0.02)


def test_messages_are_worked_on_and_the_queue_is_empty_then(broker, work):
    seen = []

    @dramatiq.actor(broker=broker)
    def put(key, value):
        seen.append((key, value))

    for number in range(50):
        put.send(f"key-{number}", number)
    work()
    broker.join("default", timeout=30_000)

    assert sorted(number for _, number in seen) == list(range(50))
    assert broker.unfinished("default") == 0


def test_a_failing_message_is_retried_and_then_a_dead_letter(broker, node, work):
    attempts = []

    @dramatiq.actor(broker=broker, max_retries=3)
    def fail():
        attempts.append(1)
        raise RuntimeError("as always")

    fail.send()
    work()
    until(lambda: letters(node) == 1)
    broker.join("default", timeout=30_000)

    assert len(attempts) == 4
    (letter,) = node.client().dead_letters("default").letters
    assert letter.consumer == default_client_id(), "it says which program had the message"


def test_a_delayed_message_is_held_by_the_broker_and_is_not_early(broker, node, work):
    seen = []

    @dramatiq.actor(broker=broker)
    def later():
        seen.append(time.time())

    began_s = time.time()
    later.send_with_options(delay=1500)
    far = later.send_with_options(delay=400 * 86_400_000)
    work()
    until(lambda: seen)

    assert seen[0] - began_s >= 1.5
    assert broker.get_declared_delay_queues() == set()
    assert [one.name for one in node.client().topics()] == ["default"]
    assert far.queue_name == "default"
    assert broker.unfinished("default") == 1
    with pytest.raises(QueueJoinTimeout):
        broker.join("default", timeout=200)


def test_work_that_takes_longer_than_the_visibility_timeout_is_done_once(broker, work):
    started = []
    finish = threading.Event()

    @dramatiq.actor(broker=broker)
    def slow():
        started.append(1)
        finish.wait(10)

    slow.send()
    work(threads=1)
    until(lambda: started)
    work(threads=1)
    deadline = time.monotonic() + 4
    until(lambda: time.monotonic() > deadline)
    finish.set()
    broker.join("default", timeout=30_000)

    assert len(started) == 1


def test_messages_that_are_given_back_can_be_taken_at_once_and_are_not_counted(broker, node):
    @dramatiq.actor(broker=broker)
    def nothing(): ...

    nothing.send()
    for _ in range(6):
        consumer = broker.consume("default", prefetch=2, timeout=500)
        message = next(consumer)
        assert message is not None
        consumer.requeue([message])
        consumer.close()

    assert letters(node) == 0


def test_a_consumer_takes_no_more_than_its_prefetch_and_gives_back_what_it_has_not_handed_out(broker):
    @dramatiq.actor(broker=broker)
    def nothing(number): ...

    for number in range(3):
        nothing.send(number)
    first = broker.consume("default", prefetch=2, timeout=100)
    taken = next(first)
    assert next(first) is not None
    assert next(first) is None, "two are out"
    first.ack(taken)
    assert next(first) is not None
    first.close()
    second = broker.consume("default", prefetch=3, timeout=100)
    assert next(second) is None, "one is done, and two are still leased to the first consumer"
    second.close()


def test_a_queue_that_was_not_declared_is_refused(broker):
    with pytest.raises(QueueNotFound):
        broker.consume("other")
    with pytest.raises(QueueNotFound):
        broker.flush("other")
    with pytest.raises(QueueNotFound):
        broker.join("other")


def test_flush_drops_what_waits(broker):
    @dramatiq.actor(broker=broker)
    def nothing(): ...

    for _ in range(10):
        nothing.send()
    broker.flush_all()

    assert broker.unfinished("default") == 0


def test_urgent_messages_overtake_others(broker):
    seen = []

    @dramatiq.actor(broker=broker, priority=20)
    def low(): ...

    @dramatiq.actor(broker=broker, priority=-20)
    def high(): ...

    low.send()
    high.send()
    consumer = broker.consume("default", prefetch=2, timeout=500)
    seen = [next(consumer).actor_name for _ in range(2)]
    consumer.close()

    assert seen == ["high", "low"]


def test_priorities_are_lanes():
    by_actor = [lane_of(number) for number in (-10, -1, 0, 1, 10)]

    assert by_actor == ["critical", "high", "normal", "low", "background"]
    assert [lane_of(0, number) for number in (0, 2, 4, 6, 9)] == ["background", "low", "normal", "high", "critical"]
