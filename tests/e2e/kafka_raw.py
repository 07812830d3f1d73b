"""Requests written and answers read with kio, over a plain socket: for what no client speaks."""

from __future__ import annotations

import socket
import time
from types import TracebackType
from typing import Any, Self

from tests.unit.codec.kafka.kio_values import read_response, request_frame

SECONDS_MAX = 10.0
LEADER_SECONDS_MAX = 20.0
NOT_LEADER = 6

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS, CREATE_TOPICS, INIT_PRODUCER_ID = 0, 1, 2, 3, 18, 19, 22


def leader_of(address: str, topic: str, partition: int = 0) -> str:
    """The address of the node that leads a partition, as the node at `address` says."""
    deadline = time.monotonic() + LEADER_SECONDS_MAX
    while True:
        with RawClient(address) as client:
            told = client.call(METADATA, 4, topics=[{"name": topic}], allow_auto_topic_creation=False)
        leaders = {one["partition_index"]: one["leader_id"] for one in told["topics"][0]["partitions"]}
        found = next((one for one in told["brokers"] if one["node_id"] == leaders.get(partition)), None)
        if found is not None:
            return f"{found['host']}:{found['port']}"
        assert time.monotonic() < deadline, f"nobody leads {topic}-{partition}: {told}"
        time.sleep(0.1)


class RawClient:
    """One connection. `call` asks and waits; `send` and `receive` do half of it each."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self.port = int(port)
        self.socket = socket.create_connection((host, self.port), timeout=SECONDS_MAX)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def call(self, key: int, version: int, **fields: Any) -> dict[str, Any]:
        """Send a request and return its answer."""
        return self.receive(key, version, self.send(key, version, **fields))

    def send(self, key: int, version: int, **fields: Any) -> int:
        """Send a request; returns the correlation id to receive its answer by."""
        self._correlation_id += 1
        frame = request_frame(key, version, fields, correlation_id=self._correlation_id)
        self.socket.sendall(len(frame).to_bytes(4, "big") + frame)
        return self._correlation_id

    def receive(self, key: int, version: int, correlation_id: int) -> dict[str, Any]:
        """The answer that must come next."""
        return read_response(key, version, self.receive_frame(), correlation_id=correlation_id)

    def receive_frame(self) -> bytes:
        """The bytes of the next answer."""
        return self._exactly(int.from_bytes(self._exactly(4), "big"))

    def is_closed_by_broker(self) -> bool:
        """Whether the broker ends the connection, instead of answering."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    # --- what many tests ask -----------------------------------------------------------

    def create_topic(self, name: str, partitions: int = 1, **config: str) -> None:
        """Make a topic that this broker leads; settings as retention_ms="1"."""
        configs = [{"name": one.replace("_", "."), "value": value} for one, value in config.items()]
        replicas = [{"partition_index": at, "broker_ids": self.nodes()} for at in range(partitions)]
        topic = {
            "name": name,
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": replicas,
            "configs": configs,
        }
        (row,) = self.call(CREATE_TOPICS, 7, topics=[topic], timeout=5000)["topics"]
        assert row["error_code"] == 0, row

    def nodes(self) -> list[int]:
        """The cluster's nodes, the one that this connection leads to first."""
        brokers = self.call(METADATA, 12, topics=[])["brokers"]
        brokers.sort(key=lambda one: (one["port"] != self.port, one["node_id"]))
        return [one["node_id"] for one in brokers]

    def produce(self, topic: str, batch: bytes, *, partition: int = 0, acks: int = -1) -> dict[str, Any]:
        """Write one batch; returns the partition's part of the answer."""
        data = [{"name": topic, "partition_data": [{"index": partition, "records": batch}]}]
        deadline = time.monotonic() + LEADER_SECONDS_MAX
        while True:
            reply = self.call(PRODUCE, 9, acks=acks, timeout=5000, topic_data=data)
            row: dict[str, Any] = reply["responses"][0]["partition_responses"][0]
            # In a cluster, a node that was restarted leads again a little later.
            if row["error_code"] != NOT_LEADER or time.monotonic() > deadline:
                return row
            time.sleep(0.1)

    def fetch(self, topic: str, offset: int = 0, *, partition: int = 0, **more: Any) -> dict[str, Any]:
        """Read one partition; returns its part of the answer."""
        read = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 50_000_000}
        asked = {"max_bytes": 50_000_000, "min_bytes": 1, "max_wait": 0, **more}
        deadline = time.monotonic() + LEADER_SECONDS_MAX
        while True:
            reply = self.call(FETCH, 12, topics=[{"topic": topic, "partitions": [read]}], **asked)
            row: dict[str, Any] = reply["responses"][0]["partitions"][0]
            if row["error_code"] != NOT_LEADER or time.monotonic() > deadline:
                return row
            time.sleep(0.1)

    def new_producer_id(self) -> int:
        """An id for an idempotent producer."""
        reply = self.call(INIT_PRODUCER_ID, 4, transaction_timeout=1000)
        assert reply["error_code"] == 0
        return int(reply["producer_id"])

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self.socket.recv(min(size - len(data), 1 << 20))
            if not piece:
                raise ConnectionError("the broker closed the connection")
            data += piece
        return bytes(data)
