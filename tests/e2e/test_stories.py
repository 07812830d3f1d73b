"""The whole story of one message, whatever client sent it, before and after kill -9."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.e2e.conftest import StartBroker
from tests.e2e.http import Http
from tests.e2e.process import BrokerProcess

import goqueue.client

TOPIC = "orders"
GROUP = "billing"


def until(check: Callable[[], Any], seconds: float = 20) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.02)
    return found


def send_by_http(broker: BrokerProcess, topic: str) -> None:
    Http(broker.http).ask(
        "POST",
        f"/topics/{topic}/messages",
        {"key": "k", "value": "v", "delay": "300ms"},
        headers={"X-Client-Id": "shop"},
    )


def send_by_confluent_kafka(broker: BrokerProcess, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.kafka, "client.id": "shop"})
    producer.produce(topic, b"v", b"k", headers={"goqueue-delay-ms": b"300"}, partition=0)
    assert producer.flush(10) == 0


def send_by_the_python_client(broker: BrokerProcess, topic: str) -> None:
    async def send() -> None:
        async with goqueue.client.connect(f"http://{broker.http}") as client, client.producer() as producer:
            await producer.send(topic, b"v", key=b"k", delay="300ms")

    asyncio.run(send())


SENDERS = {
    "http": send_by_http,
    "confluent-kafka": send_by_confluent_kafka,
    "python": send_by_the_python_client,
}


def receive(http: Http, topic: str, group: str = GROUP, visibility: str = "30s") -> dict[str, Any]:
    body = {"group": group, "client_id": "worker-1", "wait": "10s", "visibility": visibility, "limit": 1}
    [message] = http.post(f"/topics/{topic}/receive", body)["messages"]
    return message


def live(http: Http, topic: str) -> dict[str, Any]:
    """Lead the one message of a topic through everything; returns the place where it ended."""
    first = receive(http, topic)
    http.post("/messages/visibility", {"receipts": [first["receipt_handle"]], "visibility": "20s"})
    http.post("/messages/nack", {"receipts": [first["receipt_handle"]], "error": "card declined", "delay": "50ms"})
    receive(http, topic, visibility="200ms")
    # Its visibility ends, and with the next delivery its tries are used up.
    third = receive(http, topic)
    http.post("/messages/reject", {"receipts": [third["receipt_handle"]], "error": "no such card"})
    until(lambda: http.ask("GET", f"/topics/{topic}/dlq").body.get("total"))
    http.post(f"/topics/{topic}/dlq/redrive", {"headers": {"fixed": "yes"}})
    last = receive(http, topic)
    assert last["headers"]["fixed"] == "yes"
    http.post("/messages/ack", {"receipts": [last["receipt_handle"]]})
    return last


def story(http: Http, topic: str, partition: int, offset: int) -> dict[str, Any]:
    return http.get(f"/topics/{topic}/partitions/{partition}/messages/{offset}/story")


def lines(found: dict[str, Any]) -> list[str]:
    """The story without what differs from run to run: times, ids and addresses."""
    shown = []
    for event in found["events"]:
        attributes = event.get("attributes", {})
        words = [event["event"], f"{event['topic']}@{event['offset']}"]
        words += [f"{name}={attributes[name]}" for name in _SHOWN if name in attributes]
        words += [f"{name}={event[name]}" for name in ("from", "to") if name in event]
        shown.append(" ".join(words))
    return shown


_SHOWN = ("client", "protocol", "group", "member", "delivery_count", "reason", "error")


@pytest.mark.parametrize("sender", SENDERS)
def test_the_story_of_a_message_that_went_through_everything(start_broker: StartBroker, sender: str) -> None:
    broker = start_broker(GOQUEUE_DELIVERY_BACKOFF_MS=10)
    http = Http(broker.http)
    config = {
        "goqueue.delay.headers": "true",
    }
    http.post("/topics", {"name": TOPIC, "num_partitions": 1, "config": config})
    SENDERS[sender](broker, TOPIC)
    last = live(http, TOPIC)
    before = until(lambda: (one := story(http, TOPIC, 0, last["offset"]))["status"] == "completed" and one)
    print("\n".join(lines(before)))
    first_offset = before["places"][1].partition("@")[2]
    # Let the sync of the last record be told, and the last 100 ms be written.
    until(
        lambda: any(
            one.startswith(f"publish.synced {TOPIC}@{last['offset']}")
            for one in lines(story(http, TOPIC, 0, last["offset"]))
        )
    )
    before = story(http, TOPIC, 0, last["offset"])
    time.sleep(0.2)
    broker.kill()
    broker.start()
    http = Http(broker.http)
    after = story(http, TOPIC, 0, last["offset"])
    assert lines(after) == lines(before)
    assert [one["at"] for one in after["events"]] == [one["at"] for one in before["events"]]
    assert after["places"] == before["places"]
    assert first_offset
