"""What the client returns has attributes: delays, schedules, statistics, policies, transactions."""

from __future__ import annotations

import time
from typing import get_type_hints

import pytest

from goqueue.client import sync
from goqueue.client.admin.replies import Reply


@pytest.fixture
def client(broker):
    with sync.connect(f"http://{broker.http}") as client:
        yield client


def missing(answer):
    """Attributes that a type checker accepts and that the answer, or one inside it, does not have."""
    if isinstance(answer, list):
        return [name for one in answer for name in missing(one)]
    if not isinstance(answer, dict):
        return []
    inside = [name for one in answer.values() for name in missing(one)]
    typed = get_type_hints(type(answer)) if isinstance(answer, Reply) else {}
    own = [f"{type(answer).__name__}.{name}" for name in typed if name[0] != "_" and not hasattr(answer, name)]
    return own + inside


def test_every_typed_attribute_is_there(client, broker):
    created = client.create_topic("answers-typed", partitions=1)
    own = {"min.insync.replicas": "2"} if broker.is_cluster else {}
    assert (created.partition_offsets["0"].latest, created.overrides, created.internal) == (0, own, False)
    with client.producer() as producer:
        sent = producer.send_and_wait("answers-typed", "one")
    with client.queue("answers-typed", group="answers-typed") as queue:
        queue.reject(*queue.receive(limit=1, wait="5s"), error="bad")
    deadline = time.monotonic() + 30
    while client.dead_letters("answers-typed").total == 0:
        assert time.monotonic() < deadline, "there is no dead letter"
    letters = client.dead_letters("answers-typed")
    assert (letters.cursor, letters.letters[0].message.value, letters.letters[0].consumer != "") == (None, "one", True)
    redrive = client.redrive("answers-typed", dry_run=True)
    with client.consumer("answers-readers", ["answers-typed"]) as consumer:
        consumer.poll(timeout="10s")
        consumer.commit()
        group, offsets = client.group("answers-readers"), client.group_offsets("answers-readers")
        (assigned,) = group.members[0].assigned_partitions
        assert (assigned.topic, assigned.partition) == ("answers-typed", 0)
    assert (group.sharing, group.key_ordered, group.members[0].instance_id) == (None, False, None)
    assert offsets.topics["answers-typed"]["0"].offset == 1
    reset = client.reset_offsets("answers-readers", topic="answers-typed", to="earliest", dry_run=True)
    assert (reset.changes[0].to, reset.changes[0].get("from")) == (0, 1)
    trace = client.search_traces(topic="answers-typed", limit=1)
    assert (
        missing(
            [
                created,
                client.topic("answers-typed"),
                client.topics(),
                client.groups(),
                client.group("answers-typed"),
                group,
                offsets,
                letters,
                redrive,
                redrive.wait(),
                client.policy("answers-typed"),
                client.story("answers-typed", sent.partition, sent.offset),
                trace,
                client.trace(trace.traces[0].trace_id),
                client.trace_stats(),
            ]
        )
        == []
    )


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
