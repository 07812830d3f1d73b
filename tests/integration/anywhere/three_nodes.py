"""Three whole nodes in one process that lead different partitions of the same topics and can ask each other.

Each keeps metadata of its own, in which the same is written by hand; only homes of schedules are passed on at once.
Nothing is replicated: what is tested with them is that any node answers for what another one leads.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, cast

import aiohttp

from goqueue.broker.topics import NewTopic
from goqueue.groups.service import CONSUMER_OFFSETS
from goqueue.metadata.events import (
    Assignment,
    AssignmentsChanged,
    Delta,
    FeatureFinalised,
    GroupSettingsChanged,
    ProducerIdsReserved,
    ScheduleHomed,
    SessionChanged,
    TopicCreated,
)
from goqueue.metadata.local import LocalMetadata
from goqueue.node.assemble import assemble
from goqueue.node.config.load_config import load
from goqueue.node.node import Running
from goqueue.testing.sim_network import SimNetwork
from goqueue.transactions.service import TRANSACTION_STATE

NODES = (1, 2, 3)
_GROUP_SHARDS = 6


class ThreeNodes:
    """The nodes, by number, and an HTTP client for each."""

    def __init__(self, running: dict[int, Running], network: SimNetwork, http: aiohttp.ClientSession) -> None:
        self.running = running
        self.network = network
        self._http = http

    async def topic(self, name: str, leaders: Sequence[int]) -> None:
        """A topic whose partitions these nodes lead."""
        for node in self.running.values():
            topics = node.services.topics
            if topics.find(name) is None:
                if name.startswith("__"):
                    await topics.ensure_internal(name, len(leaders), {})
                else:
                    await self._create(node, name, len(leaders))
            await self.lead(name, leaders, [node])

    async def lead(self, name: str, leaders: Sequence[int], nodes: Sequence[Running] | None = None) -> None:
        """Let these nodes lead its partitions from now on, in a new epoch; `nodes` are those that know it."""
        for node in nodes or list(self.running.values()):
            metadata = node.services.defaults._metadata
            topic = metadata.image.topic(name)
            assert topic is not None
            changed = {
                number: Assignment(leader, one.leader_epoch + 1, NODES, (leader,))
                for number, (leader, one) in enumerate(
                    zip(leaders, metadata.image.assignments(topic.topic_id), strict=True)
                )
            }
            await metadata.commit([AssignmentsChanged(name, topic.topic_id, changed)])

    async def ask(self, node: int, method: str, path: str, body: Any = None, status: int = 200) -> Any:
        """What a node answers over HTTP."""
        url = f"{self.running[node].http_url}{path}"
        async with self._http.request(method, url, json=body) as response:
            text = await response.text()
            assert response.status == status, f"{method} {path} at node {node}: {response.status} {text}"
            return await response.json() if "json" in response.content_type else text

    async def _create(self, node: Running, name: str, partitions: int) -> None:
        found = next((one for other in self.running.values() if (one := other.services.topics.find(name))), None)
        if found is None:
            await node.services.topics.create(NewTopic(name, partitions))
        else:
            # One topic has one id on all nodes.
            led = tuple(Assignment(node.services.identity.node_id, 0, NODES, NODES) for _ in range(partitions))
            await node.services.defaults._metadata.commit([TopicCreated(found, led)])

    def share_schedules(self) -> None:
        """Whatever name of a schedule, or settings of a group, one node commits, the others know at once."""
        for node_id, node in self.running.items():
            others = [one.services.defaults._metadata for other, one in self.running.items() if other != node_id]
            node.services.defaults._metadata.subscribe(partial(_pass_on, cast("list[LocalMetadata]", others)))


def _pass_on(others: Sequence[LocalMetadata], delta: Delta) -> None:
    for event in delta.events:
        if isinstance(event, ScheduleHomed | GroupSettingsChanged | FeatureFinalised):
            for metadata in others:
                if isinstance(event, GroupSettingsChanged) and _has_settings(metadata, event):
                    continue
                revision = metadata.image.revision
                # Guards are compared with the draft of the next commit.
                for image in (metadata.image, metadata._draft):
                    image.apply(event, revision)
                # One cluster has one count of revisions: a node that knows of this is not behind whoever wrote it.
                metadata.image.revision = max(revision, delta.revision)
                if isinstance(event, GroupSettingsChanged):
                    metadata._feed.publish(Delta(revision, (event,)))


def _has_settings(metadata: LocalMetadata, event: GroupSettingsChanged) -> bool:
    return metadata.image.group_settings.get(event.group) == event.settings


@asynccontextmanager
async def three_nodes(directory: Path, settings: Mapping[str, str] | None = None) -> AsyncIterator[ThreeNodes]:
    """Three nodes that are running, with more settings than it takes."""
    network = SimNetwork(Random(7), delay_ms=(0.0, 0.5))
    running: dict[int, Running] = {}
    async with AsyncExitStack() as stack:
        for number in NODES:
            config = load(
                None,
                {},
                {
                    "broker.node_id": str(number),
                    "broker.data_dir": str(directory / str(number)),
                    "listeners.kafka": "127.0.0.1:0",
                    "listeners.http": "127.0.0.1:0",
                    "groups.offsets_partitions": str(_GROUP_SHARDS),
                    "transactions.state_partitions": "3",
                    **(settings or {}),
                },
            )
            node = assemble(config, network=network.join(number))
            running[number] = await node.start()
            stack.push_async_callback(node.stop)
        for node_id, one in running.items():
            # One cluster gives each node a block of its own.
            await one.services.defaults._metadata.commit([ProducerIdsReserved(1_000_000 * node_id)])
            image = one.services.defaults._metadata.image
            for number in NODES:
                image.apply(SessionChanged(number, 1), image.revision)
        http = await stack.enter_async_context(aiohttp.ClientSession())
        nodes = ThreeNodes(running, network, http)
        await nodes.topic(CONSUMER_OFFSETS, [NODES[at % 3] for at in range(_GROUP_SHARDS)])
        await nodes.topic(TRANSACTION_STATE, NODES)
        nodes.share_schedules()
        yield nodes


__all__ = ["NODES", "ThreeNodes", "three_nodes"]
