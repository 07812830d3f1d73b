"""What the client returns has attributes: delays, schedules, statistics, policies, transactions."""

from __future__ import annotations

import pytest

from goqueue.client import sync


@pytest.fixture
def client(broker):
    with sync.connect(f"http://{broker.http}") as client:
        yield client


def test_delayed_messages_and_schedules_have_attributes(client):
    client.create_topic("answers-delayed", partitions=1)
    with client.producer() as producer:
        sent = producer.send_and_wait("answers-delayed", "later", key="k", delay="2h")

    (listed,) = client.delayed.list("answers-delayed")
    whole = client.delayed.get("answers-delayed", sent.slot)
    assert (listed.slot, listed.state, whole.value, whole.key) == (sent.slot, "pending", "later", "k")
    assert (whole.priority, whole.headers, whole.schedule) == ("normal", {}, None)
    assert client.delayed.stats().by_topic["answers-delayed"].pending == 1
    assert client.delayed.reschedule("answers-delayed", sent.slot, delay="3h").deliver_at > listed.deliver_at
    assert client.delayed.cancel("answers-delayed", client.delayed.list("answers-delayed")[0].slot).canceled

    made = client.schedules.create("answers", "0 9 * * *", "answers-delayed", "daily", timezone="Europe/Berlin")
    assert (made.timezone, made.runs, made.last_run) == ("Europe/Berlin", 0, None)
    assert client.schedules.get("answers").next_runs
    assert "answers" in [one.name for one in client.schedules.list()]
    assert client.schedules.delete("answers").deleted


def test_statistics_and_policies_have_attributes(client):
    client.create_topic("answers-queue", partitions=1)
    with client.producer() as producer:
        producer.send("answers-queue", "one", priority="high")
    with client.queue("answers-queue", group="answers", auto_extend=False) as queue:
        (message,) = queue.receive(limit=1, wait="5s")

        stats = client.reliability_stats("answers-queue")
        lanes = client.priority_stats("answers-queue").topics["answers-queue"].partitions["0"][0].lanes
        assert (stats.queues[0].in_flight, stats.visibility_tracker.in_flight) == (1, 1)
        assert (lanes["high"].in_flight, lanes["normal"].in_flight) == (1, 0)
        queue.ack(message)
    changed = client.alter_policy("answers", visibility="90s", backoff_max=600, retries_max=7)
    assert (changed.effective.visibility_ms, changed.effective.backoff_ms_max) == (90_000, 600_000)
    assert client.alter_policy("answers", visibility=None).overrides == {"backoff_ms_max": 600_000, "retries_max": 7}


def test_transactions_have_attributes(client):
    client.create_topic("answers-transactions", partitions=1)
    with client.producer(transactional_id="answers") as producer, producer.transaction() as transaction:
        transaction.send("answers-transactions", "v")
        assert client.transaction("answers").transactional_id == "answers"

    assert client.transaction("answers").state
    # It may still be about to write its markers.
    assert {one.transactional_id for one in client.transactions()} <= {"answers"}
    assert client.writers() == []


def test_a_topic_is_followed_in_blocking_calls(client):
    client.create_topic("answers-tail", partitions=1)
    with client.producer() as producer:
        producer.send("answers-tail", "one")
        producer.send("answers-tail", "two")
        producer.flush()

    followed = client.tail("answers-tail", **{"from": "earliest"})
    assert [next(followed).text, next(followed).text] == ["one", "two"]
    followed.close()
