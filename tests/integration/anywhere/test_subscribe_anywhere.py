"""gRPC's Subscribe on any node of three: members of one group read through nodes that do not coordinate it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.integration.anywhere.three_nodes import NODES, ThreeNodes, three_nodes

from goqueue.anywhere import asking
from goqueue.anywhere.homes import Homes
from goqueue.groups.service import CONSUMER_OFFSETS
from goqueue.protos import common_pb2, consume_pb2, consume_pb2_grpc, groups_pb2, groups_pb2_grpc


class Reader:
    """One member, which reads through one node until it is told to stop."""

    def __init__(self, nodes: ThreeNodes, node: int, group: str) -> None:
        self.channel = grpc.aio.insecure_channel(str(nodes.running[node].grpc))
        self.stream = consume_pb2_grpc.ConsumeServiceStub(self.channel).Subscribe(
            consume_pb2.SubscribeRequest(group=group, topics=["orders"])
        )
        self.assignment: Any = None
        self.read: list[bytes] = []
        self.next_offsets: dict[int, int] = {}
        self._task = asyncio.ensure_future(self._follow())

    async def _follow(self) -> None:
        async for answer in self.stream:
            if answer.HasField("assignment"):
                self.assignment = answer.assignment
            self.read += [one.value for one in answer.batch.messages]
            self.next_offsets |= {one.partition: one.offset for one in answer.batch.next_offsets}

    @property
    def owned(self) -> set[int]:
        return set() if self.assignment is None else {one.partition for one in self.assignment.partitions}

    async def commit(self, group: str) -> None:
        offsets = [
            common_pb2.TopicPartitionOffset(topic="orders", partition=partition, offset=offset)
            for partition, offset in self.next_offsets.items()
            if partition in self.owned
        ]
        await groups_pb2_grpc.OffsetServiceStub(self.channel).CommitOffsets(
            groups_pb2.CommitOffsetsRequest(
                group=group,
                member_id=self.assignment.member_id,
                generation=self.assignment.generation,
                offsets=offsets,
            )
        )

    async def leave(self) -> None:
        self.stream.cancel()
        await asyncio.wait([self._task])
        await self.channel.close()


async def until(holds: Any, seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_members_read_through_every_node_and_share_the_partitions(tmp_path: Path) -> None:
    settings = {"listeners.grpc": "127.0.0.1:0", "groups.heartbeat_interval_ms": "200"}
    async with three_nodes(tmp_path, settings) as nodes:
        await nodes.topic("orders", NODES)
        messages = [{"value": f"v{number}", "partition": number % 3} for number in range(30)]
        await nodes.ask(1, "POST", "/topics/orders/messages", {"messages": messages})
        for group in ("one", "two"):
            # Whichever node coordinates the group, two of these do not.
            readers = [Reader(nodes, node, group) for node in NODES]
            await until(lambda readers=readers: sorted(sorted(one.owned) for one in readers) == [[0], [1], [2]])
            # Whoever owns a partition has read it, also what another one had before it.
            await until(lambda readers=readers: all(one.next_offsets.get(min(one.owned)) == 10 for one in readers))
            assert {value for one in readers for value in one.read} == {f"v{n}".encode() for n in range(30)}
            for one in readers:
                await one.commit(group)
            await readers[0].leave()
            await until(lambda readers=readers: sum(len(one.owned) for one in readers[1:]) == 3)
            for one in readers[1:]:
                await one.leave()
            async with asyncio.timeout(10):
                while (await nodes.ask(2, "GET", f"/groups/{group}"))["members"]:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            shown = await nodes.ask(3, "GET", f"/groups/{group}/offsets")
            assert shown["total_lag"] == 0, shown


@pytest.mark.slow
async def test_a_stream_goes_on_when_the_coordinator_was_away_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "RETRY_MS_MAX", 100)
    settings = {"listeners.grpc": "127.0.0.1:0", "groups.heartbeat_interval_ms": "100"}
    async with three_nodes(tmp_path, settings) as nodes:
        await nodes.topic("orders", NODES)
        coordinator = Homes(1, lambda: nodes.running[1].services.defaults._metadata.image).coordinator_of(
            CONSUMER_OFFSETS, "group"
        )
        here = next(node for node in NODES if node != coordinator)
        reader = Reader(nodes, here, "group")
        await until(lambda: reader.owned == {0, 1, 2})
        nodes.network.isolate(coordinator)
        # Long enough for heartbeats and polls to fail.
        await asyncio.sleep(1)
        nodes.network.heal()
        messages = [{"value": f"v{number}", "partition": number} for number in range(3)]
        await nodes.ask(here, "POST", "/topics/orders/messages", {"messages": messages})
        await until(lambda: sorted(reader.read) == [b"v0", b"v1", b"v2"])
        await reader.leave()
