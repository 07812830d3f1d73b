"""Delays, visibility, retries and dead letters, all by the manual clock: nothing here sleeps or polls."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from goqueue.delay.due.index import DueIndex
from goqueue.testing import EmbeddedBroker

START = datetime(2026, 1, 1, tzinfo=UTC)


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


@pytest.fixture
def queue(broker: EmbeddedBroker) -> Any:
    return broker.client().queue("orders", group="work", auto_extend=False, wait=0)


def test_a_delayed_message_comes_when_its_time_has_come(broker):
    publish(broker, value="later", delay="72h")

    broker.clock.advance(days=2, hours=23, minutes=59, seconds=59)
    assert values(broker) == []
    broker.clock.advance(seconds=1)

    assert values(broker) == [b"later"]


def test_a_year_passes_in_a_moment_and_what_is_held_back_meanwhile_comes_in_time(broker):
    publish(broker, value="next year", delay="8760h")
    looks = 0
    due = DueIndex.due

    def counted(index: DueIndex, *stretch: Any) -> Any:
        nonlocal looks
        looks += 1
        return due(index, *stretch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DueIndex, "due", counted)
        broker.clock.advance(days=180)
        publish(broker, value="soon", delay="5ms")
        broker.clock.advance(ms=20)
        assert values(broker) == [b"soon"]
        broker.clock.advance(days=186)

    # By then the retention has taken the other.
    assert values(broker) == [b"next year"]
    # It is looked for once it is near, and not all the year.
    assert looks < 10


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


def test_a_message_whose_visibility_ended_is_received_again(broker, queue):
    publish(broker, value="work")
    (first,) = queue.receive()
    assert queue.receive() == []

    broker.clock.advance(seconds=31)

    (again,) = queue.receive()
    assert (first.delivery_count, again.delivery_count) == (1, 2)


def test_retries_wait_longer_each_time_and_end_in_the_dead_letters(broker, queue):
    publish(broker, value="poison")
    for count, back_off_s in ((1, 1), (2, 2), (3, 4)):
        (delivery,) = queue.receive()
        assert delivery.delivery_count == count
        queue.nack(delivery)
        broker.clock.advance(ms=back_off_s * 1000 - 1)
        assert queue.receive() == []
        broker.clock.advance(ms=1)

    (last,) = queue.receive()
    queue.nack(last)
    broker.clock.advance()

    assert queue.receive() == []
    assert values(broker, "orders.dlq") == [b"poison"]


def test_a_lease_that_ends_for_the_last_time_is_a_dead_letter_without_anybody_asking(broker, queue):
    publish(broker, value="poison")
    for _ in range(4):
        assert len(queue.receive()) == 1
        broker.clock.advance(seconds=31)

    assert values(broker, "orders.dlq") == [b"poison"]


def test_time_that_passes_while_the_broker_is_down_counts(broker):
    publish(broker, value="later", delay="1h")
    broker.stop()
    broker.clock.advance(hours=2)
    broker.start()

    broker.clock.advance()

    assert values(broker) == [b"later"]
