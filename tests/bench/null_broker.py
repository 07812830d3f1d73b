"""The ceiling: a broker that answers the same clients as fast as it can and stores nothing.

Produce is acknowledged without a look at the records. Fetch serves one batch from memory
over and over, as often as fits the answer, with only its base offset changed. It shares no socket code with the
real broker, so that it cannot flatter it.

With `--store` it also writes what it gets to files, unchecked, and never looks at them again: the least that any
broker does that keeps messages.

    python tests/bench/null_broker.py --record-bytes 100 --batch-records 1000
"""

from __future__ import annotations

import argparse
import asyncio
import os
import struct
from collections import deque
from pathlib import Path
from typing import Any

import uvloop

from goqueue.codec.batch_encode import encode_batch
from goqueue.codec.kafka.decode import decoder, read_header, skip_tags
from goqueue.codec.kafka.encode import encoder
from goqueue.codec.kafka.schema import message_shape
from goqueue.records import NewRecord

TOPIC = "bench"
PARTITIONS = 3
END = 2**53
BUFFER_BYTES = 8 * 1024 * 1024
FILE_BYTES, FILES_MAX = 64 * 1024 * 1024, 32

PRODUCE, FETCH, LIST_OFFSETS, METADATA, FIND_COORDINATOR = 0, 1, 2, 3, 10
API_VERSIONS, DELETE_TOPICS, INIT_PRODUCER_ID = 18, 20, 22
VERSIONS = {
    PRODUCE: (0, 9),
    FETCH: (4, 12),
    LIST_OFFSETS: (1, 7),
    METADATA: (0, 12),
    FIND_COORDINATOR: (0, 2),
    API_VERSIONS: (0, 3),
    DELETE_TOPICS: (1, 5),
    INIT_PRODUCER_ID: (0, 4),
}


class NullBroker:
    """The canned answers."""

    def __init__(self, batch: bytes, batch_records: int) -> None:
        self.port = 0
        # Behind the base offset the bytes never change, so all answers share them.
        self.tail = memoryview(batch)[8:]
        self.batch_records = batch_records

    def answer(self, frame: memoryview) -> list[Any] | None:
        """The buffers that answer one request."""
        header = read_header(frame)
        key, version = header.api_key, header.api_version
        low, high = VERSIONS[key]
        if not low <= version <= high:
            keys = [{"api_key": key, "min_version": low, "max_version": high}]
            return encoder(key, 0)(header.correlation_id, {"error_code": 35, "api_keys": keys})
        position = header.end
        if message_shape(key, "request").is_flexible(version):
            position = skip_tags(frame, position)
        request = decoder(key, version)(frame, position)
        if key == PRODUCE and request.acks == 0:
            return None
        return encoder(key, version)(header.correlation_id, getattr(self, f"reply_{key}")(request))

    def reply_0(self, request: Any) -> dict[str, Any]:
        """Produce."""
        return {
            "responses": [
                {"name": topic.name, "partition_responses": [{"index": one.index} for one in topic.partition_data]}
                for topic in request.topic_data
            ]
        }

    def reply_1(self, request: Any) -> dict[str, Any]:
        """Fetch: the same batch at whatever offset was asked for."""
        return {
            "responses": [
                {
                    "topic": topic.topic,
                    "partitions": [
                        {
                            "partition_index": one.partition,
                            "high_watermark": END,
                            "last_stable_offset": END,
                            "log_start_offset": 0,
                            "records": self.records(one.fetch_offset, one.partition_max_bytes),
                        }
                        for one in topic.partitions
                    ],
                }
                for topic in request.topics
            ]
        }

    def records(self, offset: int, bytes_max: int) -> list[Any]:
        """As many copies of the batch as the client takes from one partition."""
        views: list[Any] = []
        for copy in range(max(bytes_max // (len(self.tail) + 8), 1)):
            views += (struct.pack(">q", offset + copy * self.batch_records), self.tail)
        return views

    def reply_2(self, request: Any) -> dict[str, Any]:
        """ListOffsets."""
        return {
            "topics": [
                {
                    "name": topic.name,
                    "partitions": [
                        {"partition_index": one.partition_index, "offset": END if one.timestamp == -1 else 0}
                        for one in topic.partitions
                    ],
                }
                for topic in request.topics
            ]
        }

    def reply_3(self, _: Any) -> dict[str, Any]:
        """Metadata."""
        partitions = [
            {"partition_index": at, "leader_id": 1, "leader_epoch": 0, "replica_nodes": [1], "isr_nodes": [1]}
            for at in range(PARTITIONS)
        ]
        return {
            "brokers": [{"node_id": 1, "host": "127.0.0.1", "port": self.port}],
            "cluster_id": "null",
            "controller_id": 1,
            "topics": [{"name": TOPIC, "partitions": partitions}],
        }

    def reply_10(self, _: Any) -> dict[str, Any]:
        """FindCoordinator."""
        return {"node_id": 1, "host": "127.0.0.1", "port": self.port}

    def reply_18(self, _: Any) -> dict[str, Any]:
        """ApiVersions."""
        return {
            "api_keys": [
                {"api_key": key, "min_version": low, "max_version": high} for key, (low, high) in VERSIONS.items()
            ]
        }

    def reply_20(self, request: Any) -> dict[str, Any]:
        """DeleteTopics: there is none to delete, but what it held goes."""
        return {"responses": [{"name": name} for name in request.topic_names]}

    def reply_22(self, _: Any) -> dict[str, Any]:
        """InitProducerId."""
        return {"producer_id": 1, "producer_epoch": 0}


class StoringNullBroker(NullBroker):
    """Writes every batch to a file."""

    def __init__(self, batch: bytes, batch_records: int, directory: Path) -> None:
        super().__init__(batch, batch_records)
        self.directory = directory
        self.files: deque[tuple[int, Path]] = deque()
        self.number = 0
        self.written = FILE_BYTES

    def reply_0(self, request: Any) -> dict[str, Any]:
        """Produce."""
        for topic in request.topic_data:
            for one in topic.partition_data:
                if self.written >= FILE_BYTES:
                    self.next_file()
                self.written += os.pwrite(self.files[-1][0], one.records, self.written)
        return super().reply_0(request)

    def reply_20(self, request: Any) -> dict[str, Any]:
        """DeleteTopics: the files go now, and not while somebody is being timed."""
        while self.files:
            self.remove_oldest()
        self.written = FILE_BYTES
        return super().reply_20(request)

    def next_file(self) -> None:
        """As large as a segment; the oldest go when there are too many."""
        path = self.directory / f"{self.number}.null"
        self.files.append((os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC), path))
        self.number += 1
        self.written = 0
        if len(self.files) > FILES_MAX:
            self.remove_oldest()

    def remove_oldest(self) -> None:
        """Give its room back."""
        descriptor, path = self.files.popleft()
        os.close(descriptor)
        path.unlink()


class NullConnection(asyncio.BufferedProtocol):
    """One buffer, filled by the network and emptied frame by frame."""

    def __init__(self, broker: NullBroker) -> None:
        self.broker = broker
        self.buffer = memoryview(bytearray(BUFFER_BYTES))
        self.end = 0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.buffer[self.end :]

    def buffer_updated(self, nbytes: int) -> None:
        end = self.end + nbytes
        start = 0
        outgoing: list[Any] = []
        while end - start >= 4:
            size = int.from_bytes(self.buffer[start : start + 4], "big")
            if end - start - 4 < size:
                break
            outgoing.extend(self.broker.answer(self.buffer[start + 4 : start + 4 + size]) or ())
            start += 4 + size
        if start:
            self.buffer[: end - start] = self.buffer[start:end]
        self.end = end - start
        if outgoing:
            self.transport.writelines(outgoing)


async def serve(broker: NullBroker, port: int) -> None:
    """Accept clients until killed; the port is the first line of output."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: NullConnection(broker), "127.0.0.1", port)
    broker.port = server.sockets[0].getsockname()[1]
    print(broker.port, flush=True)
    await server.serve_forever()


def main() -> None:
    """Serve batches of the size that the real broker would serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--record-bytes", type=int, default=100)
    parser.add_argument("--batch-records", type=int, default=1000)
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    parser.add_argument("--store", type=Path, metavar="DIR", help="write what is produced to files there")
    options = parser.parse_args()
    count = options.batch_records
    batch = encode_batch([NewRecord(None, bytes(options.record_bytes))] * count, now_ms=0)
    broker = StoringNullBroker(batch, count, options.store) if options.store else NullBroker(batch, count)
    uvloop.run(serve(broker, options.port))


if __name__ == "__main__":
    main()
