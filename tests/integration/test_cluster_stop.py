"""Nodes of a cluster stop: at once, for good, and whatever happens around them meanwhile."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from uuid import uuid4

import pytest
from tests.etcd_server import free_ports
from tests.integration.test_cluster_on_etcd import Nodes, leaders, nodes, server, until_true

from goqueue.broker.topics import NewTopic
from goqueue.cluster.control.controller import Controller
from goqueue.errors import ShuttingDown, StartInterrupted
from goqueue.node.assemble import assemble

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


@pytest.mark.parametrize("waits_for", ["the store", "the controller"])
async def test_a_start_that_waits_for_others_ends_when_it_is_asked_to(
    nodes: Nodes, waits_for: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Of three machines one is started first. Its operator need not wait until the others come in order to stop it."""
    monkeypatch.setattr("goqueue.node.assembly.cluster._TOLD_EVERY_S", 0.1)
    config, stopping = nodes.config(1), asyncio.Event()
    if waits_for == "the store":
        (port,) = free_ports(1)
        config = replace(config, metadata=replace(config.metadata, endpoints=(f"http://127.0.0.1:{port}",)))
    else:
        monkeypatch.setattr(Controller, "start", lambda _: None)
    node = assemble(config, stopping=stopping)
    starting = asyncio.create_task(node.start())
    async with asyncio.timeout(STOP_SECONDS_MAX):
        await until_true(
            lambda: "waiting for the metadata store" in caplog.text or "waits for the controller" in caplog.text
        )
        assert not starting.done()
        stopping.set()
        with pytest.raises(StartInterrupted):
            await starting
        await node.stop()
    assert "BootstrapFailed" not in caplog.text
    with pytest.raises(ShuttingDown):
        await node.start()
    monkeypatch.undo()
    # It has left nothing behind: the directory is free, and so is its id.
    await nodes.start(1, 2)
