"""Nodes of a cluster stop: at once, for good, and whatever happens around them meanwhile."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from uuid import uuid4

from tests.integration.test_cluster_on_etcd import Nodes, leaders, nodes, server

from goqueue.broker.topics import NewTopic

__all__ = ["nodes", "server"]

STOP_SECONDS_MAX = 20.0


async def test_a_node_that_has_stopped_writes_nothing_more_and_may_be_stopped_again(nodes: Nodes) -> None:
    """Its directory can be removed at once, and stays removed while others take over what it led."""
    await nodes.start(1, 2, 3)
    await nodes.running[1].running.services.topics.create(NewTopic("orders", 6))
    stopped = nodes.running[1]
    await nodes.stop(1)
    home = nodes.home / "node1"
    shutil.rmtree(home)
    await stopped.stop()
    await nodes.until(lambda image: leaders(image, "orders") <= {2, 3})
    await nodes.running[2].running.services.topics.create(NewTopic("later", 6))
    await asyncio.sleep(1)
    assert not home.exists()


async def test_nodes_stop_while_topics_come_and_go(nodes: Nodes) -> None:
    """Events of the metadata arrive before, during and after the stop; none of them keeps it up."""
    await nodes.start(1, 2, 3)
    topics = nodes.running[1].running.services.topics
    is_over = False

    async def churn() -> None:
        while not is_over:
            name = f"t{uuid4().hex[:8]}"
            await topics.create(NewTopic(name, 4))
            await topics.delete(name)

    churning = asyncio.create_task(churn())
    try:
        for _ in range(3):
            async with asyncio.timeout(STOP_SECONDS_MAX):
                await nodes.stop(3)
            await nodes.start(3)
    finally:
        is_over = True
        await churning


async def test_a_node_among_fifty_that_nobody_reaches_stops_in_time(nodes: Nodes) -> None:
    config = nodes.config(1)
    unreachable = tuple(f"{number}=127.0.0.1:9" for number in range(2, 52))
    nodes._config = replace(
        nodes._config, cluster=replace(config.cluster, peers=(*config.cluster.peers[:1], *unreachable))
    )
    await nodes.start(1)
    # Nobody takes over what it leads, and its peers are asked all the time.
    await nodes.running[1].running.services.topics.create(NewTopic("alone", 50, 1))
    async with asyncio.timeout(STOP_SECONDS_MAX):
        await nodes.stop(1)
