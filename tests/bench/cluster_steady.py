"""Minutes of full load with acks=all on one disk: does the metadata quorum keep its leader, and nodes their sessions?

etcd syncs to the disk that the brokers fill. A sync that takes longer than its election timeout would cost its leader,
and one that takes longer than a session would cost leaders of partitions.
"""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Sequence
from typing import NamedTuple

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.bench.clients_load import hand_over
from tests.bench.peers.common import Wrong, payloads

TOPIC = "steady"
# So much of every partition is kept: the load would fill any disk.
KEPT_BYTES = 64 * 1024 * 1024
SEGMENT_BYTES = 16 * 1024 * 1024

_LOST = ("goqueue_cluster_failure_detections_total", 'goqueue_cluster_events_total{event="QuorumLost"}')


class Steady(NamedTuple):
    """What a run came to."""

    messages: int
    seconds: float
    leader_changes: int
    sessions_lost: int


def steady_load(
    address: str, metrics: Sequence[str], etcd_metrics: Sequence[str], *, partitions: int, size: int, seconds: float
) -> Steady:
    """Write as fast as the brokers take it for so long."""
    admin = AdminClient({"bootstrap.servers": address})
    config = {
        "min.insync.replicas": "2",
        "retention.bytes": str(KEPT_BYTES),
        "segment.bytes": str(SEGMENT_BYTES),
    }
    admin.create_topics([NewTopic(TOPIC, partitions, 3, config=config)])[TOPIC].result(60)
    failures: list[str] = []

    def failed(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(str(error))

    producer = Producer(
        {
            "bootstrap.servers": address,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 5,
            "batch.size": 1_000_000,
            "queue.buffering.max.kbytes": 65_536,
            "log_level": 0,
            "on_delivery": failed,
        }
    )
    producer.list_topics(TOPIC, timeout=30)
    messages = [{"value": value} for value in payloads(size)]
    before = _changes(etcd_metrics), _lost(metrics)
    count, started = 0, time.monotonic()
    while time.monotonic() < started + seconds:
        hand_over(producer, TOPIC, messages, count % partitions)
        count += 1
    producer.flush(120)
    took = time.monotonic() - started
    if failures or len(producer):
        raise Wrong(f"{len(failures) + len(producer)} messages were not acknowledged: {failures[:1]}")
    after = _changes(etcd_metrics), _lost(metrics)
    return Steady(count * len(messages), took, after[0] - before[0], after[1] - before[1])


def _changes(urls: Sequence[str]) -> int:
    """Changes of etcd's leader that its members have seen, all together."""
    return sum(_sum(url, ("etcd_server_leader_changes_seen_total",)) for url in urls)


def _lost(urls: Sequence[str]) -> int:
    return sum(_sum(url, _LOST) for url in urls)


def _sum(url: str, names: Sequence[str]) -> int:
    with urllib.request.urlopen(url, timeout=30) as page:
        lines = page.read().decode().splitlines()
    return sum(int(float(line.rpartition(" ")[2])) for line in lines if line.rpartition(" ")[0] in names)
