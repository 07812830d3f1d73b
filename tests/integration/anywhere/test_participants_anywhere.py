"""Participants of an external coordinator, such as tasks of Spark, write over Kafka's protocol to leaders elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.e2e.kafka_raw import RawClient
from tests.integration.anywhere.three_nodes import NODES, ThreeNodes, three_nodes

from goqueue.codec.batch_encode import encode_batch
from goqueue.records import NewRecord

_NOT_ITS_PRODUCER = 49


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[ThreeNodes]:
    async with three_nodes(tmp_path) as found:
        await found.topic("orders", NODES)
        yield found


async def produce(nodes: ThreeNodes, partition: int, name: str, producer_id: int, sequence: int, value: str) -> int:
    """The error code with which the partition's leader answers a batch of a participant."""
    of = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence, "transactional": True}
    batch = encode_batch([NewRecord(None, value.encode())], now_ms=1_700_000_000_000, **of)
    rows = [{"name": "orders", "partition_data": [{"index": partition, "records": batch}]}]

    def send() -> int:
        with RawClient(str(nodes.running[NODES[partition]].kafka)) as raw:
            answer = raw.call(0, 9, transactional_id=name, acks=-1, timeout=10_000, topic_data=rows)
        return int(answer["responses"][0]["partition_responses"][0]["error_code"])

    return await asyncio.to_thread(send)


async def test_what_a_task_writes_to_leaders_elsewhere_is_shown_when_its_epoch_is_committed(nodes: ThreeNodes) -> None:
    # The coordinators of the three writers are not all the same node.
    for writer in ("w1", "w2", "w3"):
        opened = await nodes.ask(1, "POST", f"/prepared/{writer}/0/participants", {"task": "t"})
        for partition in range(3):
            for sequence in range(2):
                told = await produce(nodes, partition, f"{writer}/0/t", opened["producer_id"], sequence, writer)
                assert told == 0, f"{writer}, partition {partition}, batch {sequence}"
        await nodes.ask(3, "POST", f"/prepared/{writer}/0/commit", {"participants": ["t"]})

    values: list[str] = []
    async with asyncio.timeout(10):
        while len(values) < 18:
            found = await nodes.ask(2, "GET", "/topics/orders/messages?limit=100&isolation=read_committed")
            values = sorted(one["value"] for one in found["messages"])
            await asyncio.sleep(0.01)
    assert values == ["w1"] * 6 + ["w2"] * 6 + ["w3"] * 6


async def test_a_participant_is_known_by_its_producer_and_not_by_its_word(nodes: ThreeNodes) -> None:
    for writer in ("w1", "w2", "w3"):
        first = await nodes.ask(1, "POST", f"/prepared/{writer}/0/participants", {"task": "first"})
        await nodes.ask(1, "POST", f"/prepared/{writer}/0/participants", {"task": "second"})
        told = [await produce(nodes, at, f"{writer}/0/second", first["producer_id"], 0, "x") for at in range(3)]
        # The coordinator itself takes a batch by its producer, as it does on a node that is alone.
        assert told.count(_NOT_ITS_PRODUCER) == 2, told
