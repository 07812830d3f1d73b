"""confluent-kafka, for Apache Kafka, GoQueue and the null broker alike: only the address differs."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Consumer, Producer, ShareConsumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.bench.clients_load import hand_over
from tests.bench.peers.common import (
    DISTINCT,
    QUEUE_BATCH,
    QUIET_SECONDS_MAX,
    SECONDS_MAX,
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

SHARE_GROUP = "work"


def create(address: str, topic: str, partitions: int, durable: bool, copies: int = 1) -> dict[str, Any]:
    """A new topic. `durable`: Kafka syncs every batch; GoQueue does so for acks=all anyway."""
    config = {"flush.messages": "1"} if durable else {}
    if copies > 1:
        config["min.insync.replicas"] = "2"
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, partitions, copies, config=config)])[topic].result(60)
    return {}


def produce(address: str, topic: str, partitions: int, size: int, count: int, durable: bool) -> dict[str, Any]:
    """Send as fast as the client can; the time ends when the last is acknowledged."""
    producer = Producer(
        {
            "bootstrap.servers": address,
            "acks": "all" if durable else "1",
            "linger.ms": 5,
            "batch.size": 1_000_000,
            # More would be a client that fills its memory while it waits, which costs it more than sending.
            "queue.buffering.max.kbytes": 65_536,
            "log_level": 0,
        }
    )
    producer.list_topics(topic, timeout=30)
    messages = [{"value": value} for value in payloads(size)]
    started = time.monotonic()
    for number in range(count // DISTINCT):
        hand_over(producer, topic, messages, number % partitions)
    producer.flush(SECONDS_MAX)
    seconds = time.monotonic() - started
    if len(producer):
        raise Wrong(f"{len(producer)} messages were not acknowledged")
    return {"count": count, "seconds": seconds, "started": started}


def stored(address: str, topic: str, partitions: int) -> dict[str, Any]:
    """How many messages the broker says it has."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "count", "log_level": 0})
    try:
        marks = [consumer.get_watermark_offsets(TopicPartition(topic, one), timeout=30) for one in range(partitions)]
    finally:
        consumer.close()
    return {"count": sum(high - low for low, high in marks)}


def consume(address: str, topic: str, partitions: int, count: int, skip: int = 0) -> dict[str, Any]:
    """Read `count` messages, after the first `skip` of every partition."""
    consumer = _reader(address, topic)
    started = time.monotonic()
    total = _read(consumer, topic, partitions, count, skip)
    ended = time.monotonic()
    consumer.close()
    return {"count": count, "seconds": ended - started, "checksum": total, "started": started, "ended": ended}


def consume_in_turns(places: list[list[str]], partitions: int, count: int, turns: int) -> dict[str, Any]:
    """Read all messages of each place again and again, the places one after the other in one process.

    What the machine does meanwhile falls on all of them; the first turn is thrown away.
    """
    # At the end of a topic it waits for more, and the first fetch of the next turn waits behind that.
    readers = [(_reader(address, topic, wait_ms=5), topic) for address, topic in places]
    seconds: list[list[float]] = [[] for _ in places]
    sums: list[set[int]] = [set() for _ in places]
    for turn in range(turns + 1):
        for at in range(len(places)) if turn % 2 else reversed(range(len(places))):
            consumer, topic = readers[at]
            started = time.monotonic()
            sums[at].add(_read(consumer, topic, partitions, count))
            seconds[at].append(time.monotonic() - started)
            # What it has fetched ahead goes, and it stays quiet in the turns of others.
            consumer.unassign()
    for consumer, _ in readers:
        consumer.close()
    return {"seconds": [one[1:] for one in seconds], "checksums": [sorted(one) for one in sums]}


def _reader(address: str, topic: str, *, wait_ms: int = 500) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "read",
            "fetch.message.max.bytes": 4_000_000,
            "fetch.wait.max.ms": wait_ms,
            # Else it asks for nothing for up to a second when it holds enough, and that is what would be measured.
            "fetch.queue.backoff.ms": 1,
            "log_level": 0,
        }
    )
    consumer.list_topics(topic, timeout=30)
    return consumer


def _read(consumer: Consumer, topic: str, partitions: int, count: int, skip: int = 0) -> int:
    """The sum of the checksums of `count` messages."""
    consumer.assign([TopicPartition(topic, partition, skip) for partition in range(partitions)])
    got = total = 0
    while got < count:
        # It waits until it has as many as it was asked for, so it is never asked for more than there are.
        messages = consumer.consume(min(10_000, count - got), QUIET_SECONDS_MAX)
        if not messages:
            raise Wrong(f"only {got} of {count} messages came")
        values = [message.value() for message in messages if message.error() is None]
        if len(values) != len(messages):
            raise Wrong(str(next(message.error() for message in messages if message.error())))
        got += len(values)
        total += checksum(values)
    return total


def queue(address: str, topic: str, count: int) -> dict[str, Any]:
    """A share group (KIP-932): each message acknowledged, the answers of a poll sent together."""
    consumer = ShareConsumer(
        {
            "bootstrap.servers": address,
            "group.id": SHARE_GROUP,
            "share.acknowledgement.mode": "explicit",
            "max.poll.records": QUEUE_BATCH,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    got = total = first = 0
    started = polled = 0.0
    while got < count:
        messages = list(consumer.poll(QUIET_SECONDS_MAX))
        if not messages:
            raise Wrong(f"{got} of {count} messages came")
        polled = polled or time.monotonic()
        for message in messages:
            consumer.acknowledge(message)
        total += checksum([message.value() for message in messages])
        if any(consumer.commit_sync(QUIET_SECONDS_MAX).values()):
            raise Wrong("a message could not be acknowledged")
        got += len(messages)
        if not first:
            # Joining the group takes heartbeats, which the others have none of: the clock starts behind the first poll.
            started, first = time.monotonic(), got
    ended = time.monotonic()
    # A smoke run may have all of its messages from the first poll: then only acknowledging them was timed.
    seconds = (ended - started) * count / (count - first) if first < count else ended - polled
    consumer.close()
    return {"count": got, "seconds": seconds, "checksum": total, "left": _lag(address, topic, SHARE_GROUP)}


def _lag(address: str, topic: str, group: str) -> int:
    """What the group has not settled: a share group's position is its lowest open message."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": group, "log_level": 0})
    try:
        partitions = [TopicPartition(topic, one) for one in consumer.list_topics(topic).topics[topic].partitions]
        return sum(
            consumer.get_watermark_offsets(one)[1] - max(one.offset, 0) for one in consumer.committed(partitions)
        )
    finally:
        consumer.close()


def latency(
    address: str, topic: str, partitions: int, size: int, rate: int, seconds: float, acks: str = "1"
) -> dict[str, Any]:
    """From the moment at which a message was to be sent to the moment at which it was read."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "late", "log_level": 0, "fetch.wait.max.ms": 100})
    consumer.list_topics(topic, timeout=30)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    # Without a limit to what is under way, librdkafka sends every message as a request of its own.
    pace = {"linger.ms": 1, "max.in.flight": 5}
    producer = Producer({"bootstrap.servers": address, "acks": acks, "log_level": 0, **pace})
    producer.list_topics(topic, timeout=30)
    warm_up = int(rate * WARM_UP_SECONDS)
    wanted = warm_up + int(rate * seconds)

    def read() -> list[float]:
        late: list[float] = []
        deadline = time.monotonic() + WARM_UP_SECONDS + seconds + QUIET_SECONDS_MAX
        while len(late) < wanted:
            if time.monotonic() > deadline:
                raise Wrong(f"only {len(late)} of {wanted} messages came")
            for message in consumer.consume(1000, 0.001):
                if message.error() is not None:
                    raise Wrong(str(message.error()))
                late.append(time.monotonic() - stamped(message.value()))
        return late

    def send(dues: list[float]) -> None:
        for due in dues:
            producer.produce(topic, stamp(size, due), partition=int(due * rate) % partitions)
        producer.poll(0)

    reading = in_thread(read)
    at_rate(rate, WARM_UP_SECONDS, send, producer.poll)
    started = time.monotonic()
    at_rate(rate, seconds, send, producer.poll)
    took = time.monotonic() - started
    producer.flush(30)
    late = reading()
    consumer.close()
    return {"count": len(late) - warm_up, "rate": rate * seconds / took, **percentiles(late[warm_up:])}


def delete(address: str, topic: str) -> dict[str, Any]:
    """Make room."""
    admin = AdminClient({"bootstrap.servers": address})
    admin.delete_topics([topic])[topic].result(60)
    return {}


if __name__ == "__main__":
    main(globals())
