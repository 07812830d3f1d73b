"""A cluster is switched from plain connections between nodes to TLS, node by node, while it takes messages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.etcd_server import EtcdServer, require_etcd
from tests.integration.test_cluster_on_etcd import Nodes

from goqueue.broker.topics import NewTopic
from goqueue.client import connect
from goqueue.config import Config
from goqueue.metadata.image import Image
from goqueue.node.cluster.issuing import issue


class SwitchedNodes(Nodes):
    """Each node with the setting `cluster.tls` of its own."""

    def __init__(self, home: Path, url: str, prefix: str) -> None:
        super().__init__(home, url, prefix)
        self.modes = dict.fromkeys((1, 2, 3), "off")
        issue(home / "tls", {number: ["127.0.0.1"] for number in self.modes})

    def config(self, number: int) -> Config:
        config, place = super().config(number), self.home / "tls" / f"node{number}"
        cluster = replace(
            config.cluster,
            tls=self.modes[number],
            tls_ca=str(place / "nodes-ca.pem"),
            tls_certificate=str(place / "node.pem"),
            tls_key=str(place / "node.key"),
        )
        return replace(config, cluster=cluster)


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[SwitchedNodes]:
    require_etcd()
    server = EtcdServer(tmp_path / "etcd").start()
    nodes = SwitchedNodes(tmp_path, server.url, "/switched")
    yield nodes
    await nodes.close()
    server.stop()


def all_in_sync(image: Image) -> bool:
    topic = image.topic("t")
    return topic is not None and all(len(one.isr) == 3 for one in image.assignments(topic.topic_id))


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_every_step_of_the_switch_and_of_the_way_back_takes_messages_on_all_replicas(
    nodes: SwitchedNodes,
) -> None:
    await nodes.start(1, 2, 3)
    await nodes.running[1].running.services.topics.create(NewTopic("t", 3))
    await nodes.until(all_in_sync)
    sent = 0
    for mode in ("optional", "required", "optional", "off"):
        for number in (1, 2, 3):
            await nodes.stop(number)
            nodes.modes[number] = mode
            await nodes.start(number)
            await nodes.until(all_in_sync)
            for asked in (1, 2, 3):
                url = f"http://{nodes.running[asked].running.http}"
                async with connect(url) as client, client.producer(acks="all") as producer:
                    await producer.send("t", f"{mode} {number} {asked}", partition=asked - 1)
                    sent += 1
    assert sent == 36
    image = await nodes.until(all_in_sync)
    topic = image.topic("t")
    assert topic is not None
    leaders = [one.leader for one in image.assignments(topic.topic_id)]
    queries = [nodes.running[leader].running.services.queries for leader in leaders]
    assert [one.offsets("t", at).high_watermark for at, one in enumerate(queries)] == [12, 12, 12]
