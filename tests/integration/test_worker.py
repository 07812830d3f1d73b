"""Tasks through a real broker whose clock the test advances."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from datetime import timedelta

import pytest

from goqueue.client import InvalidArgument, connect
from goqueue.worker import Reject, Retry, Worker, current
from goqueue.worker.schedules import upsert_schedules


@pytest.fixture
def app():
    return Worker(name="shop", queue="errands", partitions=2)


@pytest.fixture
def runs():
    return []


@pytest.fixture
def fetch(app, runs):
    @app.task(name="fetch", retries=2, backoff="1s..10s")
    def fetch(item: str) -> dict[str, str]:
        runs.append((item, current().attempt))
        if item == "broken":
            raise ValueError("it is broken")
        if item == "nonsense":
            raise Reject("nobody sells that")
        if item == "patience" and current().attempt == 1:
            raise Retry("the shop is closed", delay="3h")
        return {"item": item}

    return fetch


def letters(broker):
    # The move to the dead letters follows the answer: let the broker finish.
    deadline = time.monotonic() + 30
    while not (found := broker.client().dead_letters("errands").letters):
        assert time.monotonic() < deadline, "there is no dead letter"
        broker.clock.advance()
    return [(one.message["value"], one.delivery_count, one.error) for one in found]


def test_a_task_runs_once_and_its_arguments_are_those_that_were_sent(goqueue_worker, app, fetch, runs):
    worker = goqueue_worker(app)
    sent = fetch.send("milk")

    assert worker.run() == ["fetch"]
    assert worker.run() == []
    assert runs == [("milk", 1)]
    assert (sent.task, sent.queue, sent.duplicate, sent.delayed) == ("fetch", "errands", False, False)


def test_a_delayed_task_runs_when_its_time_has_come(goqueue_worker, goqueue_clock, app, fetch, runs):
    worker = goqueue_worker(app)
    fetch.send_later("2h", "milk")
    fetch.send_later(goqueue_clock.now + timedelta(days=30), "calendar")
    cancelled = fetch.send_later("2h", "never")
    app.cancel(cancelled)

    assert worker.run() == []
    goqueue_clock.advance(hours=2)
    assert worker.run() == ["fetch"]
    goqueue_clock.advance(days=30)
    assert worker.run() == ["fetch"]
    assert runs == [("milk", 1), ("calendar", 1)]


def test_a_failing_task_is_retried_by_its_own_backoff_and_is_then_a_dead_letter(
    goqueue_worker, goqueue_broker, goqueue_clock, app, fetch, runs
):
    worker = goqueue_worker(app)
    fetch.send("broken")

    worker.run()
    assert worker.run() == []
    goqueue_clock.advance(seconds=1)
    assert worker.run() == ["fetch"]
    goqueue_clock.advance(seconds=1)
    assert worker.run() == [], "the second delay is at least 1.6 s"
    goqueue_clock.advance(seconds=1)
    assert worker.run() == ["fetch"]
    goqueue_clock.advance(hours=1)
    assert worker.run() == []

    assert runs == [("broken", 1), ("broken", 2), ("broken", 3)]
    ((value, count, error),) = letters(goqueue_broker)
    assert value == '{"args":["broken"],"kwargs":{}}'
    assert count == 3
    assert error == "ValueError: it is broken (attempt 3, the last one)"


def test_a_task_may_ask_for_a_delay_of_its_own_or_be_rejected(
    goqueue_worker, goqueue_broker, goqueue_clock, app, fetch, runs
):
    worker = goqueue_worker(app)
    fetch.send("patience")
    fetch.send("nonsense")

    worker.run()
    goqueue_clock.advance(hours=2)
    assert worker.run() == []
    goqueue_clock.advance(hours=1)
    assert worker.run() == ["fetch"]
    assert runs[-1] == ("patience", 2)
    assert [error for _, _, error in letters(goqueue_broker)] == ["nobody sells that"]


def test_a_message_that_is_not_a_call_of_its_task_is_a_dead_letter_and_is_not_run(
    goqueue_worker, goqueue_broker, app, fetch, runs
):
    worker = goqueue_worker(app)
    with goqueue_broker.client().producer() as producer:
        producer.send("errands", '{"args": [7]}', headers={"task-name": "fetch"})

    worker.run()

    assert runs == []
    assert "argument 'item' of task 'fetch'" in letters(goqueue_broker)[0][2]


def test_a_task_that_this_worker_does_not_have_waits_for_a_worker_that_has_it(
    goqueue_worker, goqueue_clock, app, fetch, runs
):
    worker = goqueue_worker(app)
    other = Worker(app.server, name="shop", queue="errands")
    other.task(name="new")(lambda: None).send()
    other.close()

    assert worker.run() == ["new"]
    assert "import the module that defines it" in str(worker.errors[0])
    app.task(name="new")(lambda: runs.append("new"))
    goqueue_clock.advance(seconds=1)
    assert worker.run() == ["new"]
    assert runs == ["new"]


def test_a_repeat_with_the_same_idempotency_key_runs_once(goqueue_worker, goqueue_clock, app, fetch, runs):
    worker = goqueue_worker(app)

    first, again = (fetch.options(idempotency_key="order-7").send("milk") for _ in range(2))

    assert (first.duplicate, again.duplicate) == (False, True)
    assert (first.partition, first.offset) == (again.partition, again.offset)
    assert worker.run() == ["fetch"]
    goqueue_clock.advance(hours=1, seconds=1)
    assert not fetch.options(idempotency_key="order-7").send("milk").duplicate


def test_an_idempotency_key_on_a_queue_without_a_window_is_refused(goqueue_broker, app, fetch):
    goqueue_broker.client().create_topic("errands")
    app.connect_to(goqueue_broker.http_url)

    with pytest.raises(InvalidArgument, match=r"alter errands --config goqueue\.dedup\.window\.ms=3600000"):
        fetch.options(idempotency_key="order-7").send("milk")
    app.close()


def test_what_a_task_returns_is_published_where_the_sender_asked_for_it(goqueue_worker, goqueue_broker, app, fetch):
    @app.task(name="ask")
    async def ask(number: int) -> int:
        return number + 1

    client = goqueue_broker.client()
    client.create_topic("answers", partitions=1)
    worker = goqueue_worker(app)
    sent = [fetch.options(reply_to="answers").send("milk"), ask.options(reply_to="answers").send(6)]

    worker.run()

    replies = {reply["id"]: reply for reply in (one.json() for one in client.read("answers", 0)[0])}
    assert replies[sent[0].id] == {"id": sent[0].id, "task": "fetch", "value": {"item": "milk"}}
    assert replies[sent[1].id]["value"] == 7


def test_a_more_urgent_task_runs_first(goqueue_worker, goqueue_broker, runs):
    app = Worker(name="shop", queue="errands", partitions=1)
    low = app.task(name="low", priority="background")(lambda: runs.append("low"))
    high = app.task(name="high", priority="critical")(lambda: runs.append("high"))
    worker = goqueue_worker(app)

    low.send()
    high.send()
    high.options(priority="background").send()
    worker.run()

    assert runs == ["high", "low", "high"]


def test_a_scheduled_task_runs_by_its_time_zone(goqueue_worker, goqueue_new_broker, runs):
    from datetime import UTC, datetime

    from goqueue.worker.testing import TestWorker

    broker = goqueue_new_broker(now=datetime(2030, 7, 1, 6, 30, tzinfo=UTC))
    app = Worker(name="shop", queue="errands")
    app.every("0 9 * * *", timezone="Europe/Berlin")(app.task(name="report")(lambda: runs.append("report")))
    worker = TestWorker(app, broker.http_url)

    assert worker.run() == []
    broker.clock.advance(minutes=30)
    assert worker.run() == ["report"]
    broker.clock.advance(days=1)
    assert worker.run() == ["report"]
    worker.close()


async def test_many_workers_that_start_at_once_make_one_schedule_each(goqueue_broker):
    def release(cron: str) -> Worker:
        app = Worker(goqueue_broker.http_url, name="shop", queue="errands")
        app.every(cron)(app.task(name="report")(lambda: None))
        return app

    async with connect(goqueue_broker.http_url) as client:
        await client.create_topic("errands")
        for cron in ("0 9 * * *", "0 9 * * *", "30 9 * * *"):
            await asyncio.gather(*(upsert_schedules(client, release(cron)) for _ in range(8)))
            rows = await client.schedules.list()
            assert [(row["name"], row["cron"]) for row in rows] == [("shop.report", cron)]
        runs_before = rows[0]["next_slot"]
        await upsert_schedules(client, release("30 9 * * *"))
        assert (await client.schedules.get("shop.report"))["next_slot"] == runs_before, "nothing was changed"


async def test_a_schedule_without_a_decorator_is_reported_and_deleted_only_on_request(goqueue_broker, caplog):
    async with connect(goqueue_broker.http_url) as client:
        await client.create_topic("errands")
        await client.schedules.create("by-hand", "0 9 * * *", "errands", "{}")
        for name in ("shop", "bakery"):
            app = Worker(name=name, queue="errands")
            app.every("0 9 * * *")(app.task(name="report")(lambda: None))
            await upsert_schedules(client, app)
        empty = Worker(name="shop", queue="errands")

        assert await upsert_schedules(client, empty) == ["shop.report"]
        assert "--prune-schedules" in caplog.text
        assert len(await client.schedules.list()) == 3
        await upsert_schedules(client, empty, prune=True)

        assert [row["name"] for row in await client.schedules.list()] == ["bakery.report", "by-hand"]


async def test_many_clients_that_create_the_same_topic_at_once_all_get_it(goqueue_session_broker):
    async with connect(goqueue_session_broker.http_url) as client:
        for number in range(10):
            made = await asyncio.gather(*(client.create_topic(f"same-{number}", exist_ok=True) for _ in range(10)))
            assert {topic.name for topic in made} == {f"same-{number}"}


def test_a_running_worker_is_stopped_from_another_thread(goqueue_session_broker, runs):
    app = Worker(goqueue_session_broker.http_url, name="stopped", queue="stopped")
    done = threading.Event()

    @app.task(name="first", timeout="10s")
    def first() -> None:
        second.send()

    @app.task(name="second")
    async def second() -> None:
        runs.append(current().task)
        done.set()

    working = threading.Thread(target=app.run, kwargs={"concurrency": 2})
    working.start()
    first.send()
    assert done.wait(30)
    (member,) = app.client().group("stopped").members
    assert member.client_id == f"stopped@{socket.gethostname()}"
    app.stop()
    working.join(30)

    app.close()

    assert not working.is_alive()
    assert runs == ["second"]
