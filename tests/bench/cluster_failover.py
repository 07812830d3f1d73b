"""How long a partition takes no write when its leader is killed, as a producer with acks=all sees it."""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import KafkaError, Producer
from tests.bench.peers.common import Wrong

PAUSE_SECONDS = 0.002
WARM_UP = 200
SECONDS_MAX = 60.0


def seconds_without_writes(address: str, topic: str, kill: Callable[[int], None]) -> float:
    """Kill the leader of partition 0, and wait until a message that was handed over later is acknowledged."""
    producer = Producer(
        {
            "bootstrap.servers": address,
            "acks": "all",
            "enable.idempotence": True,
            "message.timeout.ms": int(SECONDS_MAX * 2000),
            "linger.ms": 1,
            "log_level": 0,
        }
    )
    acknowledged: list[tuple[int, float]] = []
    failures: list[str] = []
    sent = 0

    def send() -> None:
        nonlocal sent
        number = sent

        def delivered(error: KafkaError | None, _: object) -> None:
            if error is None:
                acknowledged.append((number, time.monotonic()))
            else:
                failures.append(str(error))

        producer.produce(topic, str(number).encode(), partition=0, on_delivery=delivered)
        sent += 1
        producer.poll(PAUSE_SECONDS)

    deadline = time.monotonic() + SECONDS_MAX
    while len(acknowledged) < WARM_UP and time.monotonic() < deadline:
        send()
    leader = producer.list_topics(topic, timeout=10).topics[topic].partitions[0].leader
    first_after = sent
    killed = time.monotonic()
    kill(leader)
    while not (acknowledged and acknowledged[-1][0] >= first_after):
        if failures or time.monotonic() > deadline:
            raise Wrong(f"no write of {topic} was acknowledged after node {leader} was killed: {failures[:1]}")
        send()
    ended = next(at for number, at in acknowledged if number >= first_after)
    producer.flush(SECONDS_MAX)
    if failures or len(acknowledged) != sent:
        raise Wrong(f"{sent - len(acknowledged)} messages of {topic} were not acknowledged: {failures[:1]}")
    return ended - killed
