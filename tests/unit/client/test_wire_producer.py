"""How much the wire client's producer has under way at once, and how requests reach the socket."""

from __future__ import annotations

import socket
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from goqueue.client.wire.connection import WireConnection
from goqueue.client.wire.producer import BatchProducer, Identity
from goqueue.records import TopicPartition

MIB = 1024 * 1024
PLACES = [TopicPartition("orders", partition) for partition in range(4)]


class Line:
    """A connection that answers when it is asked to, and remembers the most that was unanswered."""

    is_open = True

    def __init__(self) -> None:
        self.unanswered: list[tuple[int, int]] = []
        self.bytes_max = self.same_max = self.count_max = 0

    def send(self, _api_key: int, _version: int, request: dict[str, Any]) -> None:
        part = request["topic_data"][0]["partition_data"][0]
        self.unanswered.append((part["index"], sum(map(len, part["records"]))))
        places = [place for place, _ in self.unanswered]
        self.same_max = max(self.same_max, *map(places.count, places))
        self.bytes_max = max(self.bytes_max, sum(size for _, size in self.unanswered))
        self.count_max = max(self.count_max, len(places))

    def receive(self) -> Any:
        self.unanswered.pop(0)
        row = SimpleNamespace(error_code=0, base_offset=0, error_message=None)
        return SimpleNamespace(responses=[SimpleNamespace(partition_responses=[row])])


@pytest.fixture
def line() -> Line:
    return Line()


@pytest.fixture
def producer(line: Line) -> BatchProducer:
    client: Any = SimpleNamespace(leader_address=lambda _place: ("b", 1), new_connection=lambda _address: line)
    return BatchProducer(client, Identity(1, 0))


def test_a_partition_has_no_more_under_way_than_a_broker_remembers(line: Line, producer: BatchProducer) -> None:
    for _ in range(20):
        producer.send(PLACES[0], [b"small"], 1)

    assert line.same_max == 5
    assert len(producer.flush()) == 20
    assert not line.unanswered


def test_large_batches_of_many_partitions_wait_when_sixteen_mebibytes_are_under_way(
    line: Line, producer: BatchProducer
) -> None:
    for number in range(60):
        producer.send(PLACES[number % 4], [b"head", bytes(MIB - 4)], 1)

    assert line.bytes_max == 16 * MIB
    assert len(producer.flush()) == 60


def test_a_batch_that_is_larger_than_that_goes_alone(line: Line, producer: BatchProducer) -> None:
    for _ in range(2):
        producer.send(PLACES[0], [bytes(17 * MIB)], 1)

    assert line.count_max == 1


def test_small_batches_of_many_partitions_are_no_more_than_a_broker_works_on(
    line: Line, producer: BatchProducer
) -> None:
    for number in range(200):
        producer.send(TopicPartition("orders", number), [b"small"], 1)

    assert line.count_max == 64


def test_a_request_of_many_large_parts_arrives_whole_though_the_reader_is_slow() -> None:
    parts = [bytes([number % 251]) * 5000 for number in range(3000)]
    request = {
        "transactional_id": None,
        "acks": -1,
        "timeout": 1,
        "topic_data": [{"name": "orders", "partition_data": [{"index": 0, "records": parts}]}],
    }
    got = bytearray()

    def read(listening: socket.socket) -> None:
        peer, _ = listening.accept()
        with peer:
            while piece := peer.recv(70_000):
                got.extend(piece)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        reader = threading.Thread(target=read, args=(listening,))
        reader.start()
        connection = WireConnection(*listening.getsockname(), client_id="test", timeout_s=10)
        connection.send(0, 9, request)
        connection.close()
        reader.join()

    assert int.from_bytes(got[:4], "big") == len(got) - 4
    assert b"".join(parts) in got
