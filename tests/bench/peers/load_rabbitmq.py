"""pika, for RabbitMQ over AMQP 0-9-1: quorum queues and streams differ only in how the queue is declared.

An address ends in the kind of queue: `127.0.0.1:5672/quorum`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import pika
from tests.bench.peers.common import (
    DISTINCT,
    QUEUE_BATCH,
    QUIET_SECONDS_MAX,
    WARM_UP_SECONDS,
    Wrong,
    at_rate,
    checksum,
    in_thread,
    main,
    payloads,
    percentiles,
    stamp,
    stamped,
)

# Messages that may wait for their confirmation.
WINDOW = 2000
PREFETCH = 1000
PERSISTENT = pika.BasicProperties(delivery_mode=2)


def parameters(address: str) -> pika.ConnectionParameters:
    host, port = address.partition("/")[0].split(":")
    return pika.ConnectionParameters(host, int(port), heartbeat=600)


def create(address: str, topic: str, partitions: int, durable: bool) -> dict[str, Any]:
    """A queue of the kind that the address names. A quorum queue syncs before it confirms, whatever is asked."""
    with pika.BlockingConnection(parameters(address)) as connection:
        arguments = {"x-queue-type": address.partition("/")[2]}
        connection.channel().queue_declare(topic, durable=True, arguments=arguments)
    return {}


class Publisher:
    """Publishes with confirmations, up to WINDOW of them outstanding."""

    def __init__(self, topic: str, values: list[bytes], count: int) -> None:
        self._topic, self._values, self._count = topic, values, count
        self._sent = self._confirmed = 0
        self.started = self.ended = 0.0
        self.failure = ""

    def run(self, address: str) -> None:
        self._connection = pika.SelectConnection(
            parameters(address), on_open_callback=lambda one: one.channel(on_open_callback=self._begin)
        )
        self._connection.ioloop.start()

    def _begin(self, channel: Any) -> None:
        self._channel = channel
        channel.confirm_delivery(self._on_confirmation)
        self.started = time.monotonic()
        self._fill()

    def _fill(self) -> None:
        while self._sent < self._count and self._sent - self._confirmed < WINDOW:
            self._channel.basic_publish("", self._topic, self._values[self._sent % DISTINCT], PERSISTENT)
            self._sent += 1

    def _on_confirmation(self, frame: Any) -> None:
        if isinstance(frame.method, pika.spec.Basic.Nack):
            self.failure = "a message was refused"
        # `multiple` confirms everything up to the tag.
        self._confirmed = frame.method.delivery_tag if frame.method.multiple else self._confirmed + 1
        if self._confirmed >= self._count or self.failure:
            self.ended = time.monotonic()
            self._connection.close()
            self._connection.ioloop.stop()
        elif self._sent - self._confirmed < WINDOW // 2:
            self._fill()


def produce(address: str, topic: str, partitions: int, size: int, count: int, durable: bool) -> dict[str, Any]:
    """Persistent messages; the time ends with the last confirmation."""
    publisher = Publisher(topic, payloads(size), count)
    publisher.run(address)
    if publisher.failure or not publisher.ended:
        raise Wrong(publisher.failure or "the connection ended early")
    return {"count": count, "seconds": publisher.ended - publisher.started}


def stored(address: str, topic: str, partitions: int) -> dict[str, Any]:
    """How many messages the queue has, once its own count has come to rest."""
    counts: list[int] = []
    # A stream's figure is renewed every five seconds only.
    rest = 60 if address.endswith("stream") else 5
    with pika.BlockingConnection(parameters(address)) as connection:
        channel = connection.channel()
        while len(counts) < 200 and (len(counts) < rest or len(set(counts[-rest:])) > 1 or not counts[-1]):
            counts.append(channel.queue_declare(topic, passive=True).method.message_count)
            time.sleep(0.1)
    return {"count": counts[-1]}


def read(address: str, topic: str, count: int, on_batch: Callable[[list[bytes]], None], ack_every: int) -> float:
    """Take `count` messages, acknowledge every so many of them (0: none by hand), and return the seconds."""
    values: list[bytes] = []
    got = 0
    is_stream = address.endswith("stream")
    with pika.BlockingConnection(parameters(address)) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=PREFETCH)

        def on_message(_channel: Any, method: Any, _properties: Any, body: bytes) -> None:
            nonlocal got
            got += 1
            values.append(body)
            if ack_every and (got % ack_every == 0 or got == count):
                channel.basic_ack(method.delivery_tag, multiple=True)
            if len(values) >= 100 or got >= count:
                on_batch(values)
                values.clear()

        arguments = {"x-stream-offset": "first"} if is_stream else None
        started = time.monotonic()
        channel.basic_consume(topic, on_message, auto_ack=not ack_every, arguments=arguments)
        last = -1
        while got < count:
            if got == last:
                raise Wrong(f"only {got} of {count} messages came")
            last = got
            deadline = time.monotonic() + QUIET_SECONDS_MAX
            while got == last and time.monotonic() < deadline:
                connection.process_data_events(1)
        return time.monotonic() - started


def consume(address: str, topic: str, partitions: int, count: int) -> dict[str, Any]:
    """A stream wants acknowledgements for its flow control; a queue gives its messages away."""
    total = 0

    def add(values: list[bytes]) -> None:
        nonlocal total
        total += checksum(values)

    started = time.monotonic()
    seconds = read(address, topic, count, add, ack_every=100 if address.endswith("stream") else 0)
    return {"count": count, "seconds": seconds, "checksum": total, "started": started, "ended": time.monotonic()}


def queue(address: str, topic: str, count: int) -> dict[str, Any]:
    """Pushed to the consumer, acknowledged many at a time."""
    total = 0

    def add(values: list[bytes]) -> None:
        nonlocal total
        total += checksum(values)

    seconds = read(address, topic, count, add, ack_every=QUEUE_BATCH)
    with pika.BlockingConnection(parameters(address)) as connection:
        left = connection.channel().queue_declare(topic, passive=True).method.message_count
    return {"count": count, "seconds": seconds, "checksum": total, "left": left}


def latency(address: str, topic: str, partitions: int, size: int, rate: int, seconds: float) -> dict[str, Any]:
    """One connection publishes, another reads."""
    warm_up = int(rate * WARM_UP_SECONDS)
    wanted = warm_up + int(rate * seconds)
    late: list[float] = []

    def add(values: list[bytes]) -> None:
        now = time.monotonic()
        late.extend(now - stamped(value) for value in values)

    reading = in_thread(lambda: _read_singly(address, topic, wanted, add))
    with pika.BlockingConnection(parameters(address)) as connection:
        channel = connection.channel()

        def send(dues: list[float]) -> None:
            for due in dues:
                channel.basic_publish("", topic, stamp(size, due), PERSISTENT)

        def idle(left: float) -> None:
            connection.process_data_events(left)

        at_rate(rate, WARM_UP_SECONDS, send, idle)
        started = time.monotonic()
        at_rate(rate, seconds, send, idle)
        took = time.monotonic() - started
        reading()
    return {"count": len(late) - warm_up, "rate": rate * seconds / took, **percentiles(late[warm_up:])}


def delay(address: str, topic: str, count: int, seconds: float) -> dict[str, Any]:
    """The usual way without a plugin: messages expire in a queue that nobody reads, and move on to one that is read.

    A queue only looks at its head, so this works because each is due after the one before it.
    """
    waiting = f"{topic}-waiting"
    late: list[float] = []
    with pika.BlockingConnection(parameters(address)) as connection:
        channel = connection.channel()
        target = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": topic}
        channel.queue_declare(waiting, durable=True, arguments=target)
        first = time.monotonic() + 2 + count / 5000
        for number in range(count):
            due = first + number * seconds / count
            left_ms = max(1, math.ceil((due - time.monotonic()) * 1000))
            expires = pika.BasicProperties(delivery_mode=2, expiration=str(left_ms))
            channel.basic_publish("", waiting, stamp(64, due), expires)
        if time.monotonic() > first:
            raise Wrong("the first message was due before the last was published")

        def add(values: list[bytes]) -> None:
            now = time.monotonic()
            late.extend(now - stamped(value) for value in values)

        _read_singly(address, topic, count, add)
        channel.queue_delete(waiting)
    return {"count": len(late), **percentiles(late)}


def _read_singly(address: str, topic: str, count: int, add: Callable[[list[bytes]], None]) -> None:
    got = 0
    with pika.BlockingConnection(parameters(address)) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=PREFETCH)

        def on_message(_channel: Any, method: Any, _properties: Any, body: bytes) -> None:
            nonlocal got
            got += 1
            add([body])
            if got % 10 == 0 or got == count:
                channel.basic_ack(method.delivery_tag, multiple=True)

        arguments = {"x-stream-offset": "first"} if address.endswith("stream") else None
        channel.basic_consume(topic, on_message, arguments=arguments)
        deadline = time.monotonic() + 10 * QUIET_SECONDS_MAX
        while got < count:
            if time.monotonic() > deadline:
                raise Wrong(f"only {got} of {count} messages came")
            connection.process_data_events(0.1)


def delete(address: str, topic: str) -> dict[str, Any]:
    """Make room."""
    with pika.BlockingConnection(parameters(address)) as connection:
        connection.channel().queue_delete(topic)
    return {}


if __name__ == "__main__":
    main(globals())
