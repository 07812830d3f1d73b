"""Share consumers for tests: confluent-kafka's own, in this process and in one that can be killed."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import AcknowledgeType, Message, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, NewTopic

WAIT_SECONDS = 30.0
ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT

# Takes what it can get, says how many, and waits to be killed with all of it in hand.
HOLDER = """
import sys, time
from confluent_kafka import ShareConsumer
consumer = ShareConsumer({
    "bootstrap.servers": sys.argv[1], "group.id": sys.argv[3], "share.acknowledgement.mode": "explicit", "log_level": 0,
})
consumer.subscribe([sys.argv[2]])
held = []
while not held:
    held = list(consumer.poll(1.0))
print(len(held), flush=True)
time.sleep(600)
"""


@contextmanager
def share_consumer(bootstrap: str, topic: str, group: str, **more: object) -> Iterator[ShareConsumer]:
    """A consumer that answers each message by hand; closed in the end."""
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "share.acknowledgement.mode": "explicit",
        "log_level": 0,
    }
    consumer = ShareConsumer(settings | {name.replace("_", "."): value for name, value in more.items()})
    consumer.subscribe([topic])
    try:
        yield consumer
    finally:
        consumer.close()


def poll(consumer: ShareConsumer, seconds: float = 1.0) -> list[Message]:
    """Messages, none of which is an error."""
    found = list(consumer.poll(seconds))
    for one in found:
        assert one.error() is None, one.error()
    return found


def take(consumer: ShareConsumer, wanted: int, answer: Callable[[Message], AcknowledgeType]) -> list[Message]:
    """Take so many messages, answering each, and commit."""
    taken: list[Message] = []
    deadline = time.monotonic() + WAIT_SECONDS
    while len(taken) < wanted:
        assert time.monotonic() < deadline, f"{len(taken)} of {wanted} messages came"
        for one in poll(consumer):
            consumer.acknowledge(one, answer(one))
            taken.append(one)
        commit(consumer)
    return taken


def commit(consumer: ShareConsumer) -> None:
    """Send the answers; each partition's must have been taken."""
    for place, problem in consumer.commit_sync(WAIT_SECONDS).items():
        assert problem is None, f"{place}: {problem}"


def accept(_message: Message) -> AcknowledgeType:
    """All is well."""
    return ACCEPT


def values(messages: list[Message]) -> list[str]:
    """Their values as text."""
    return [(one.value() or b"").decode() for one in messages]


def make_topic(bootstrap: str, name: str, partitions: int = 1, **config: str) -> None:
    """A topic; settings as delivery_max_retries="1"."""
    settings = {one.replace("_", "."): value for one, value in config.items()}
    topic = NewTopic(name, partitions, -1, config=settings)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([topic])[name].result()


def send(bootstrap: str, topic: str, texts: list[str]) -> None:
    """Write messages, all acknowledged."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for text in texts:
        producer.produce(topic, text.encode())
    assert producer.flush(WAIT_SECONDS) == 0


@contextmanager
def holder(bootstrap: str, topic: str, group: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A consumer in a process of its own, and how many messages it holds."""
    command = [sys.executable, "-c", HOLDER, bootstrap, topic, group]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, int(process.stdout.readline())
        finally:
            process.kill()
