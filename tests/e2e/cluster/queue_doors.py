"""Every door through which one node gives out messages of a queue: each is asked at that node, and can be held open."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any
from uuid import UUID

import aiohttp
import grpc
import msgspec
from google.protobuf import duration_pb2
from tests.e2e.cluster.real_nodes import RealNode
from tests.e2e.kafka_raw import METADATA, RawClient
from tests.unit.servers.kafka.share_client import ACCEPT, ShareClient, ack_errors, acquired

from goqueue.protos import queue_pb2, queue_pb2_grpc

# How long a poll is held open, and how long the answers of a node are waited for.
HELD_S = 20.0
ANSWER_S = 60.0
LIMIT = 500
_numbers = itertools.count()


class Door(ABC):
    """One group at one partition, asked at one node. What it gives out is told by offsets."""

    name = ""

    def __init__(self, node: RealNode, topic: str, partition: int, visibility_s: float) -> None:
        self.node = node
        self.topic = topic
        self.partition = partition
        self.visibility_s = visibility_s
        # Receipts of what was given out, by offset.
        self.receipts: dict[int, str] = {}

    @property
    def group(self) -> str:
        """Each door has one of its own."""
        return f"by-{self.name}"

    async def take(self, wait_s: float) -> set[int]:
        """All there is. Nothing if the node refuses, or does not answer."""
        found = await self.receive(wait_s)
        self.receipts.update(found)
        return set(found)

    @abstractmethod
    async def receive(self, wait_s: float) -> dict[int, str]:
        """Receipts by offset."""

    async def ack(self, offsets: Iterable[int]) -> set[int]:
        """Acknowledge what was taken here; the offsets for which the node said that this counts."""
        asked = [offset for offset in offsets if offset in self.receipts]
        if not asked:
            return set()
        answer = await _posted(self.node, "/messages/ack", {"receipts": [self.receipts[one] for one in asked]})
        results = answer.get("results") or [{"success": False}] * len(asked)
        return {offset for offset, one in zip(asked, results, strict=True) if one["success"]}

    async def close(self) -> None:  # noqa: B027 - most hold nothing
        """Let go of what it holds open."""


class HttpDoor(Door):
    name = "http"

    async def receive(self, wait_s: float) -> dict[int, str]:
        body = {
            "group": self.group,
            "limit": LIMIT,
            "wait": f"{wait_s:g}s",
            "visibility": f"{self.visibility_s:g}s",
            "partition": self.partition,
        }
        answer = await _posted(self.node, f"/topics/{self.topic}/receive", body)
        return {one["offset"]: one["receipt_handle"] for one in answer.get("messages", ())}


class SocketDoor(Door):
    name = "socket"

    async def receive(self, wait_s: float) -> dict[int, str]:
        wait_ms, visibility_ms = int(wait_s * 1000), int(self.visibility_s * 1000)
        asked = ["receive", 1, self.topic, self.group, "c", LIMIT, wait_ms, visibility_ms, self.partition]
        with contextlib.suppress(OSError, TimeoutError, aiohttp.ClientError, TypeError):
            async with (
                asyncio.timeout(ANSWER_S),
                aiohttp.ClientSession() as session,
                session.ws_connect(f"{self.node.http}/queue/connection") as socket,
            ):
                await socket.send_bytes(msgspec.msgpack.encode(asked))
                reply = msgspec.msgpack.decode(await socket.receive_bytes())
                if reply[0] == "messages":
                    return {
                        row[0]: f"{topic}:{partition}:{row[0]}:{count}:{nonce}"
                        for topic, partition, count, nonce, _, _, rows in reply[3]
                        for row in rows
                    }
        return {}


class GrpcDoor(Door):
    """A work stream: the node sends whatever there is, as long as there is credit."""

    name = "grpc"

    def __init__(self, node: RealNode, topic: str, partition: int, visibility_s: float, port: int) -> None:
        super().__init__(node, topic, partition, visibility_s)
        host = node.kafka.rpartition(":")[0]
        self._channel = grpc.aio.insecure_channel(f"{host}:{port}")
        # What is not settled when a stream ends goes back: they are kept open.
        self._streams: list[Any] = []

    async def receive(self, wait_s: float) -> dict[int, str]:
        visibility = duration_pb2.Duration(seconds=int(self.visibility_s))
        start = queue_pb2.WorkStart(
            topic=self.topic, group=self.group, partition=self.partition, visibility=visibility, credit=LIMIT
        )
        found: dict[int, str] = {}
        stream = queue_pb2_grpc.QueueServiceStub(self._channel).Work()
        self._streams.append(stream)
        with contextlib.suppress(grpc.aio.AioRpcError, TimeoutError):
            await stream.write(queue_pb2.WorkRequest(start=start))
            async with asyncio.timeout(min(wait_s + 5, ANSWER_S)):
                while (answer := await stream.read()) is not grpc.aio.EOF:
                    found.update({one.offset: one.receipt_handle for one in answer.messages.messages})
                    if found:
                        break
        return found

    async def close(self) -> None:
        for stream in self._streams:
            stream.cancel()
        await self._channel.close()


class ShareDoor(Door):
    """A share group of Kafka: its consumer holds what it was given for as long as its connection lasts."""

    name = "share"

    def __init__(self, node: RealNode, topic: str, partition: int, visibility_s: float) -> None:
        super().__init__(node, topic, partition, visibility_s)
        self._client: RawClient | None = None
        self._consumer: ShareClient | None = None

    async def receive(self, wait_s: float) -> dict[int, str]:
        def fetch() -> dict[int, str]:
            consumer = self._consumer or self._connect()
            reply = asyncio.run(consumer.fetch(partitions=[self.partition], max_wait=int(wait_s * 1000)))
            runs = acquired(reply, self.partition)
            return {offset: "" for first, last, _ in runs for offset in range(first, last + 1)}

        with contextlib.suppress(OSError, AssertionError, EOFError):
            return await asyncio.to_thread(fetch)
        return {}

    async def ack(self, offsets: Iterable[int]) -> set[int]:
        asked = sorted(offset for offset in offsets if offset in self.receipts)

        def acknowledge() -> set[int]:
            assert self._consumer is not None
            acks = {self.partition: [(one, one, [ACCEPT]) for one in asked]}
            reply = asyncio.run(self._consumer.acknowledge(acks))
            return set(asked) if reply["error_code"] == 0 and ack_errors(reply) == [0] else set()

        with contextlib.suppress(OSError, AssertionError, EOFError):
            return await asyncio.to_thread(acknowledge) if asked else set()
        return set()

    async def close(self) -> None:
        if self._client is not None:
            self._client.socket.close()

    def _connect(self) -> ShareClient:
        client = self._client = RawClient(self.node.kafka)
        client.socket.settimeout(ANSWER_S)

        async def call(key: int, version: int, **fields: Any) -> dict[str, Any]:
            return client.call(key, version, **fields)

        told = client.call(METADATA, 12, topics=[{"name": self.topic, "topic_id": UUID(int=0)}])
        name = f"at-{self.node.number}-{next(_numbers)}"
        self._consumer = ShareClient(call, told["topics"][0]["topic_id"], group=self.group, member_id=name)
        return self._consumer


async def _posted(node: RealNode, path: str, body: object) -> dict[str, Any]:
    with contextlib.suppress(OSError, TimeoutError, aiohttp.ClientError):
        async with (
            asyncio.timeout(ANSWER_S),
            aiohttp.ClientSession() as session,
            session.post(f"{node.http}{path}", json=body) as response,
        ):
            found: dict[str, Any] = await response.json()
            return found
    return {}
