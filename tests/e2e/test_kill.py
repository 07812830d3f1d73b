"""kill -9 in the middle of writing, again and again: what was acknowledged is there, and nothing else is.

The producer is a stock client with acks=all and idempotence, which goes on through every
kill as a real one would: it connects again and sends again what was not acknowledged.
"""

from __future__ import annotations

import random
import time
import zlib

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from tests.e2e.conftest import StartBroker
from tests.e2e.process import BrokerProcess

PARTITIONS = 3
SECONDS_MAX = 60.0
# Enough for every partition to have several requests under way, and few enough for any disk.
ON_THEIR_WAY_MAX = 5_000


class Writer:
    """Sends numbered values of random size and keeps what was acknowledged, with its place."""

    def __init__(self, broker: BrokerProcess, topic: str, rng: random.Random) -> None:
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.sent: set[bytes] = set()
        self.errors: list[KafkaError] = []
        self._topic = topic
        self._rng = rng
        self._producer = Producer(
            {
                "bootstrap.servers": broker.kafka,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 2,
                "batch.num.messages": 50,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 10,
                "log_level": 0,
            }
        )

    def write_until(self, acknowledged: int) -> None:
        """Send until that many more are acknowledged; the next ones are on their way then."""
        goal = len(self.acknowledged) + acknowledged
        deadline = time.monotonic() + SECONDS_MAX
        while len(self.acknowledged) < goal:
            assert time.monotonic() < deadline, f"{len(self.acknowledged)} of {goal} acknowledged; {self.errors[:3]}"
            for _ in range(min(20, ON_THEIR_WAY_MAX - len(self.sent) + len(self.acknowledged))):
                self._send()
            self._producer.poll(0.001)

    def finish(self) -> None:
        """Wait until every record sent is answered."""
        assert self._producer.flush(SECONDS_MAX) == 0
        assert self.errors == []
        assert len(self.acknowledged) == len(self.sent), "two records were given one place"

    def _send(self) -> None:
        number = len(self.sent)
        body = self._rng.randbytes(self._rng.choice((1, 10, 100, 1000, 10_000)))
        value = b"%d %08x " % (number, zlib.crc32(body)) + body
        try:
            self._producer.produce(
                self._topic, value, partition=self._rng.randrange(PARTITIONS), on_delivery=self._delivered
            )
        except BufferError:
            self._producer.poll(0.01)
        else:
            self.sent.add(value)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error)
        else:
            place = message.partition(), message.offset()
            assert place not in self.acknowledged, f"{place} was given out twice"
            self.acknowledged[place] = message.value()


def read_all(broker: BrokerProcess, topic: str) -> dict[tuple[int, int], bytes]:
    """Every record of the topic, by place."""
    consumer = Consumer(
        {"bootstrap.servers": broker.kafka, "group.id": "reader", "check.crcs": True, "enable.auto.commit": False}
    )
    ends = {
        partition: consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)[1]
        for partition in range(PARTITIONS)
    }
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found: dict[tuple[int, int], bytes] = {}
    deadline = time.monotonic() + SECONDS_MAX
    while len(found) < sum(ends.values()):
        assert time.monotonic() < deadline, f"read {len(found)} of {ends}"
        for message in consumer.consume(1000, timeout=1.0):
            assert message.error() is None, message.error()
            found[message.partition(), message.offset()] = message.value()
    consumer.close()
    return found


def check(broker: BrokerProcess, writer: Writer, topic: str) -> None:
    found = read_all(broker, topic)
    lost = [place for place, value in writer.acknowledged.items() if found.get(place) != value]
    assert lost == [], f"{len(lost)} acknowledged records are gone or changed, first {lost[:5]}"
    assert set(found.values()) <= writer.sent, "records were invented"
    assert len(set(found.values())) == len(found), "records were stored twice in spite of idempotence"
    offsets = {partition: sorted(at for where, at in found if where == partition) for partition in range(PARTITIONS)}
    for partition, seen in offsets.items():
        assert seen == list(range(len(seen))), f"partition {partition} has holes"


def kill_in_the_middle(start_broker: StartBroker, *, kills: int, seed: int) -> None:
    rng = random.Random(seed)
    # Small segments, so that kills hit rolls too; frequent checkpoints, so that they hit those.
    broker = start_broker(GOQUEUE_LOG_SEGMENT_BYTES=1 << 18, GOQUEUE_DURABILITY_CHECKPOINT_INTERVAL_MS=100)
    writer = Writer(broker, "orders", rng)
    for _ in range(kills):
        writer.write_until(acknowledged=rng.randrange(50, 400))
        broker.kill()
        broker.start()
    writer.write_until(acknowledged=50)
    writer.finish()
    check(broker, writer, "orders")
    # A clean stop must leave the same records.
    broker.restart()
    check(broker, writer, "orders")


@pytest.mark.timeout(300)
def test_eight_kills_in_the_middle_of_writing_lose_nothing(start_broker: StartBroker) -> None:
    kill_in_the_middle(start_broker, kills=8, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_fifty_kills_in_the_middle_of_writing_lose_nothing(start_broker: StartBroker) -> None:
    kill_in_the_middle(start_broker, kills=50, seed=2)
