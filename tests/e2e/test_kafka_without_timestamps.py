"""Records without a timestamp, as librdkafka sends them: they are not taken for records of 1970."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from tests.e2e.conftest import StartBroker
from tests.e2e.http import Http
from tests.e2e.kafka_clients import Aiokafka, Client, Confluent, Sent
from tests.e2e.process import BrokerProcess

from goqueue.pipeline.source.catalogue import DirectoryCatalogue
from goqueue.pipeline.source.options import parse_source_options
from goqueue.pipeline.source.segments import DataDirectory
from goqueue.records import TopicPartition as Place


def produce(broker: BrokerProcess, topic: str, count: int, client: Client, timestamp_ms: int) -> None:
    for number in range(count):
        # One batch each. For librdkafka 0 means "now", for the others the year 1970.
        client.produce(broker.kafka, topic, [Sent(b"%d" % number + b"." * 500, timestamp_ms=timestamp_ms)])


def start_of(broker: BrokerProcess, topic: str) -> tuple[int, int]:
    consumer = Consumer({"bootstrap.servers": broker.kafka, "group.id": "g", "log_level": 0})
    try:
        return consumer.get_watermark_offsets(TopicPartition(topic, 0), 15)
    finally:
        consumer.close()


def offset_at(broker: BrokerProcess, topic: str, spec: OffsetSpec) -> tuple[int, int]:
    admin = AdminClient({"bootstrap.servers": broker.kafka, "log_level": 0})
    place = TopicPartition(topic, 0)
    found = admin.list_offsets({place: spec})[place].result(15)
    return found.offset, found.timestamp


def retention_round(broker: BrokerProcess) -> None:
    """Wait until a canary that is really old is gone: then the round has been at every topic."""
    http = Http(broker.http)
    name = f"canary-{time.monotonic_ns()}"
    http.post("/topics", {"name": name, "num_partitions": 1})
    for _ in range(2):
        # Partitions are cleaned in turns, so the second round has begun after the first message came.
        http.post(f"/topics/{name}/messages", {"value": "old", "timestamp": 1_000_000_000_000})
        end = start_of(broker, name)[1]
        deadline = time.monotonic() + 20
        while start_of(broker, name)[0] < end:
            assert time.monotonic() < deadline, "there was no retention round"
            time.sleep(0.05)


@pytest.mark.parametrize(("client", "timestamp_ms"), [(Confluent(), -1), (Aiokafka(), 0)])
def test_they_outlive_retention_and_are_found_by_the_time_of_their_append(
    start_broker: StartBroker, client: Client, timestamp_ms: int
) -> None:
    broker = start_broker(GOQUEUE_LOG_RETENTION_CHECK_MS=200, GOQUEUE_LOG_SEGMENT_BYTES=4096)
    topic = "untimed"
    Http(broker.http).post("/topics", {"name": topic, "num_partitions": 1})
    begun_ms = int(time.time() * 1000)
    produce(broker, topic, 20, client, timestamp_ms)
    after_ms = int(time.time() * 1000) + 1

    for end in ("none", "stop", "kill"):
        if end != "none":
            getattr(broker, end)()
            directory = Path(broker.data_dir) / "logs" / topic / "0"
            assert len(list(directory.glob("*.log"))) > 2
            for name in directory.glob("*.timeindex"):
                name.unlink()
            broker.start()
        retention_round(broker)
        assert start_of(broker, topic) == (0, 20)
        offset, found_ms = offset_at(broker, topic, OffsetSpec.for_timestamp(begun_ms))
        assert (offset, begun_ms <= found_ms <= after_ms) == (0, True)
        assert offset_at(broker, topic, OffsetSpec.for_timestamp(after_ms))[0] == -1
        offset, found_ms = offset_at(broker, topic, OffsetSpec.max_timestamp())
        assert begun_ms <= found_ms <= after_ms
        middle = offset_at(broker, topic, OffsetSpec.for_timestamp(found_ms))[0]
        assert middle == offset

    broker.stop()
    options = {"path": str(broker.data_dir), "subscribe": topic}
    files = DirectoryCatalogue(DataDirectory(str(broker.data_dir)), parse_source_options(options))
    place = Place(topic, 0)
    assert files.at_times({place: begun_ms}) == {place: 0}
    assert files.at_times({place: found_ms}) == {place: middle}
    assert files.at_times({place: after_ms}) == {place: -1}


def test_a_queue_with_a_message_ttl_delivers_them(start_broker: StartBroker) -> None:
    broker = start_broker()
    http = Http(broker.http)
    http.post("/topics", {"name": "jobs", "num_partitions": 1, "config": {"message.ttl.ms": "600000"}})
    produce(broker, "jobs", 3, Confluent(), -1)
    messages = http.post("/topics/jobs/receive", {"wait": "5s", "limit": 10})["messages"]
    assert [one["offset"] for one in messages] == [0, 1, 2]
