"""An order saga: each step takes a message, does its work, and sends the next step in one transaction.

    orders -> payments -> shipments, and cancellations where a payment is refused

The acknowledgement of the message and the messages that follow from it count together or not at all. A worker that is
killed between them leaves the step undone, and another worker does it again; no order is paid for twice or forgotten.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from goqueue.client import sync

TOPICS = ("orders", "payments", "shipments", "cancellations")
Order = dict[str, Any]
# What follows from an order: the topic of the next step.
Step = Callable[[Order], str]


def set_up(client: sync.Client) -> None:
    """The topics."""
    there = {row["name"] for row in client.topics()}
    for topic in TOPICS:
        if topic not in there:
            client.create_topic(topic)


def place(client: sync.Client, order: Order) -> None:
    """A customer's order. The key keeps what concerns one order together."""
    with client.producer() as producer:
        producer.send("orders", json.dumps(order), key=order["id"])


def reserve(order: Order) -> str:
    """The first step: goods are reserved, so the order can be paid for."""
    return "payments" if order["amount"] > 0 else "cancellations"


def charge(limit: int) -> Step:
    """The second step: a payment above the customer's limit is refused."""
    return lambda order: "shipments" if order["amount"] <= limit else "cancellations"


def work(client: sync.Client, worker: str, topic: str, step: Step, *, wait: float = 1.0) -> int:
    """Do a step for all messages that are there; how many there were."""
    with client.queue(topic, group="saga") as queue, client.producer(transactional_id=worker) as producer:
        messages = queue.receive(wait=wait)
        for message in messages:
            order = json.loads(message.value or b"{}")
            with producer.transaction() as transaction:
                transaction.send(step(order), json.dumps(order), key=order["id"])
                transaction.ack(message)
        return len(messages)
