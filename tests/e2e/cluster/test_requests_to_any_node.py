"""Requests that somebody who does not know where things live would send to any of three real nodes."""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest
from tests.e2e.cluster.real_nodes import RealCluster, RealNode

from goqueue.client import connect

pytestmark = pytest.mark.slow
PARTITIONS = 3
numbers = itertools.count()


class Ask:
    """HTTP to the nodes, by number."""

    def __init__(self, cluster: RealCluster, http: aiohttp.ClientSession) -> None:
        self._cluster, self.http = cluster, http

    async def __call__(self, node: int, method: str, path: str, body: Any = None) -> Any:
        url = f"{self._cluster.nodes[node - 1].http}{path}"
        async with self.http.request(method, url, json=body) as response:
            text = await response.text()
            assert response.status < 300, f"{method} {path} at node {node}: {response.status} {text}"
            return json.loads(text) if text else None

    async def until(self, node: int, path: str, holds: Callable[[Any], bool], seconds: float = 40) -> Any:
        """What a node answers, once it is as it should be."""
        async with asyncio.timeout(seconds):
            while not holds(reply := await self(node, "GET", path)):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        return reply


@pytest.fixture
async def ask(shared_cluster: RealCluster):
    async with aiohttp.ClientSession() as http:
        yield Ask(shared_cluster, http)


@pytest.fixture
async def topic(ask: Ask) -> str:
    name = f"any-{next(numbers)}"
    await ask(1, "POST", "/topics", {"name": name, "num_partitions": PARTITIONS})
    return name


async def test_a_stream_of_events_has_the_messages_of_all_leaders(shared_cluster: RealCluster, ask: Ask, topic: str):
    messages = [{"value": f"v{number}", "partition": number % 3} for number in range(9)]
    await ask(2, "POST", f"/topics/{topic}/messages", {"messages": messages})
    for node in shared_cluster.nodes:
        found: set[str] = set()
        async with (
            asyncio.timeout(30),
            ask.http.get(f"{node.http}/topics/{topic}/messages/stream?from=earliest&format=sse") as got,
        ):
            assert got.status == 200
            async for line in got.content:
                if line.startswith(b"data:"):
                    event = json.loads(line[5:])
                    found |= {event["value"]} if "value" in event else set()
                if len(found) == 9:
                    break
        assert found == {f"v{number}" for number in range(9)}


async def test_queues_over_a_connection_to_any_node(shared_cluster: RealCluster, ask: Ask, topic: str):
    for turn, node in enumerate(shared_cluster.nodes):
        messages = [{"value": f"{turn}-{number}", "partition": number % 3} for number in range(9)]
        await ask(1, "POST", f"/topics/{topic}/messages", {"messages": messages})
        seen: list[str] = []
        async with connect(node.http) as client, client.queue(topic, group="work") as queue:
            async with asyncio.timeout(30):
                while len(seen) < 9:
                    for message in await queue.receive(limit=4, wait="1s"):
                        seen.append(message.text)
                        await queue.ack(message)
        assert sorted(seen) == [f"{turn}-{number}" for number in range(9)]


async def test_a_producer_of_one_node_writes_through_the_others(ask: Ask, topic: str):
    producer = await ask(1, "POST", "/producers/init")
    sent = {"partition": 1, "producer_id": producer["producer_id"], "producer_epoch": producer["epoch"]}
    for sequence, node in enumerate((1, 2, 3, 1, 2, 3)):
        body = {**sent, "sequence": sequence, "messages": [{"value": str(sequence)}]}
        first = await ask(node, "POST", f"/topics/{topic}/messages", body)
        again = await ask(node % 3 + 1, "POST", f"/topics/{topic}/messages", body)
        assert first["results"][0]["offset"] == again["results"][0]["offset"] == sequence


async def test_a_transaction_over_http_goes_through_every_node(ask: Ask, topic: str):
    for turn in range(4):
        name = f"{topic}-{turn}"
        owner = await ask(1, "POST", "/producers/init", {"transactional_id": name})
        own = {"transactional_id": name, "producer_id": owner["producer_id"], "epoch": owner["epoch"]}
        own["transaction_id"] = (await ask(2, "POST", "/transactions/begin", own))["transaction_id"]
        beat = {"transactional_id": name, "epoch": owner["epoch"]}
        await ask(3, "POST", f"/producers/{owner['producer_id']}/heartbeat", beat)
        for partition in range(PARTITIONS):
            sent = {**own, "topic": topic, "partition": partition, "sequence": 0, "value": f"{turn}"}
            await ask(partition + 1, "POST", "/transactions/publish", sent)
        await ask(3, "POST", f"/transactions/{'commit' if turn % 2 else 'abort'}", own)
    path = f"/topics/{topic}/messages?limit=100&isolation=read_committed"
    found = (await ask.until(2, path, lambda reply: len(reply["messages"]) >= 6))["messages"]
    assert sorted(one["value"] for one in found) == ["1"] * 3 + ["3"] * 3


async def test_a_schedule_made_on_one_node_is_shown_and_deleted_on_others(ask: Ask, topic: str):
    for turn in range(3):
        name = f"{topic}-every-{turn}"
        await ask(1, "POST", "/schedules", {"name": name, "cron": "0 3 * * *", "topic": topic, "value": name})
        assert (await ask(2, "GET", f"/schedules/{name}"))["name"] == name
        await ask(3, "DELETE", f"/schedules/{name}")
        assert name not in {one["name"] for one in (await ask(2, "GET", "/schedules"))["schedules"]}


async def test_delayed_messages_are_shown_and_changed_on_any_node(ask: Ask, topic: str):
    for partition in range(PARTITIONS):
        body = {"value": str(partition), "partition": partition, "delay": "1h"}
        await ask(partition + 1, "POST", f"/topics/{topic}/messages", body)
    for node in (1, 2, 3):
        rows = (await ask(node, "GET", f"/topics/{topic}/delayed"))["messages"]
        assert len(rows) == 4 - node
        await ask(node % 3 + 1, "DELETE", f"/topics/{topic}/delayed/{rows[0]['slot']}")


def leader_in(reply: Any, topic: str) -> int:
    """The leader of the topic's first partition, as the cluster is shown."""
    return int(next(one["leader"] for one in reply["partitions"] if (one["topic"], one["partition"]) == (topic, 0)))


def has_ack(story: Any) -> bool:
    return any("ack" in one["event"] for one in story["events"])


def explained(node: RealNode, topic: str, partition: int, offset: int) -> str:
    command = [sys.executable, "-m", "goqueue", "explain", f"{topic}/{partition}@{offset}", "--server", node.http]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


async def test_the_story_of_a_message_is_told_everywhere_also_when_its_partition_has_moved(
    shared_cluster: RealCluster, ask: Ask, topic: str
):
    await ask(1, "POST", f"/topics/{topic}/messages", {"value": "told", "partition": 0})
    taken = await ask(2, "POST", f"/topics/{topic}/receive", {"group": "work", "wait": "5s"})
    await ask(3, "POST", "/messages/ack", {"receipts": [taken["messages"][0]["receipt_handle"]]})
    path = f"/topics/{topic}/partitions/0/messages/0/story"
    await ask.until(1, path, has_ack)
    before = leader_in(await ask(1, "GET", "/cluster/partitions"), topic)
    shared_cluster.nodes[before - 1].stop()
    try:
        others = [number for number in (1, 2, 3) if number != before]
        await ask.until(others[0], "/cluster/partitions", lambda reply: leader_in(reply, topic) not in {before, -1})
        for number in others:
            story = await ask(number, "GET", path)
            assert any("publish" in one["event"] for one in story["events"]), story
            assert has_ack(story), story
            assert "ack" in explained(shared_cluster.nodes[number - 1], topic, 0, 0)
    finally:
        shared_cluster.nodes[before - 1].start()
        shared_cluster.wait_ready()
