"""Delays, visibility, retries and dead letters, all by the manual clock: nothing here sleeps or polls."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from goqueue.delivery.values import Action, Receive, Settlement
from goqueue.records import TopicPartition
from goqueue.testing import EmbeddedBroker

START = datetime(2026, 1, 1, tzinfo=UTC)
AT = TopicPartition("orders", 0)


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(now=START) as broker:
        broker.client().create_topic("orders", partitions=1)
        yield broker


def publish(broker: EmbeddedBroker, **message: Any) -> Any:
    request = urllib.request.Request(
        f"{broker.http_url}/topics/orders/messages",
        data=json.dumps({"messages": [message]}).encode(),
        headers={"content-type": "application/json"},
    )
    with urllib.request.urlopen(request) as reply:
        return json.loads(reply.read())


def values(broker: EmbeddedBroker, topic: str = "orders") -> list[bytes | None]:
    return [message.value for message in broker.client().read(topic, 0)[0]]


def receive(broker: EmbeddedBroker) -> list[Any]:
    """What a queue group gets now; the service itself is asked, on the broker's loop."""
    asked = Receive("work", "me", [AT], limit=10)
    return broker._loop.run(broker._running.services.delivery.receive(asked))


def settle(broker: EmbeddedBroker, receipt: str, action: Action) -> Any:
    (settled,) = broker._loop.run(broker._running.services.delivery.settle([Settlement(receipt, action)]))
    assert settled.error is None
    return settled


def test_a_delayed_message_comes_when_its_time_has_come(broker):
    publish(broker, value="later", delay="72h")

    broker.clock.advance(days=2, hours=23, minutes=59, seconds=59)
    assert values(broker) == []
    broker.clock.advance(seconds=1)

    assert values(broker) == [b"later"]


def test_messages_delayed_by_a_week_and_by_a_moment_come_each_at_its_time(broker):
    publish(broker, value="week", delay="168h")
    publish(broker, value="second", delay="1s")
    publish(broker, value="day", deliverAt=(START + timedelta(days=1)).isoformat())

    broker.clock.advance(days=7)

    messages, _ = broker.client().read("orders", 0)
    appended = [(message.value, message.timestamp_ms) for message in messages]
    start_ms = START.timestamp() * 1000
    assert appended == [
        (b"second", start_ms + 1000),
        (b"day", start_ms + 86_400_000),
        (b"week", start_ms + 604_800_000),
    ]


def test_a_message_whose_visibility_ended_is_received_again(broker):
    publish(broker, value="work")
    (first,) = receive(broker)
    assert receive(broker) == []

    broker.clock.advance(seconds=31)

    (again,) = receive(broker)
    assert (first.delivery_count, again.delivery_count) == (1, 2)


def test_retries_wait_longer_each_time_and_end_in_the_dead_letters(broker):
    publish(broker, value="poison")
    for count, back_off_s in ((1, 1), (2, 2), (3, 4)):
        (delivery,) = receive(broker)
        assert delivery.delivery_count == count
        settle(broker, delivery.receipt, Action.NACK)
        broker.clock.advance(ms=back_off_s * 1000 - 1)
        assert receive(broker) == []
        broker.clock.advance(ms=1)

    (last,) = receive(broker)
    settle(broker, last.receipt, Action.NACK)
    broker.clock.advance()

    assert receive(broker) == []
    assert values(broker, "orders.dlq") == [b"poison"]


def test_a_lease_that_ends_for_the_last_time_is_a_dead_letter_without_anybody_asking(broker):
    publish(broker, value="poison")
    for _ in range(4):
        assert len(receive(broker)) == 1
        broker.clock.advance(seconds=31)

    assert values(broker, "orders.dlq") == [b"poison"]


def test_time_that_passes_while_the_broker_is_down_counts(broker):
    publish(broker, value="later", delay="1h")
    broker.stop()
    broker.clock.advance(hours=2)
    broker.start()

    broker.clock.advance()

    assert values(broker) == [b"later"]
