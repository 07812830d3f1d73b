"""Reminders: messages that arrive when they are due, and one that comes every weekday morning.

    python examples/reminders/reminders.py http://127.0.0.1:8080

A reminder is an ordinary message with a delay. Nothing polls: the broker holds it until it is due, also over a restart.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from goqueue.client import sync

TOPIC = "reminders"


def set_up(client: sync.Client) -> None:
    """The topic, and the reminder that comes by a cron expression, in a time zone."""
    if TOPIC not in {row["name"] for row in client.topics()}:
        client.create_topic(TOPIC)
        client.schedules.create(
            "stand-up", "0 9 * * MON-FRI", TOPIC, "stand-up in ten minutes", timezone="Europe/Paris"
        )


def remind(client: sync.Client, text: str, after: str) -> None:
    """Send a reminder that arrives after this time, as in `90m` or `2h`."""
    with client.producer() as producer:
        producer.send(TOPIC, text, delay=after)


def work(client: sync.Client, deliver: Callable[[str], None], *, wait: float = 1.0) -> int:
    """Deliver what is due; how many there were."""
    delivered = 0
    with client.queue(TOPIC) as queue:
        for message in queue.receive(wait=wait):
            deliver((message.value or b"").decode())
            # Acknowledged after the delivery: a worker that is killed in between leaves the reminder to another one.
            queue.ack(message)
            delivered += 1
    return delivered


def main() -> None:
    """Send two reminders and wait for the first."""
    with sync.connect(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080") as client:
        set_up(client)
        remind(client, "stretch your legs", "2s")
        remind(client, "call the dentist", "24h")
        while not work(client, print):
            pass


if __name__ == "__main__":
    main()
