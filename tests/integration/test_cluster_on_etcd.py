"""Three nodes in this process on a real etcd: they register, place topics, fail over, and hand over when they stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.etcd_server import EtcdServer, free_ports, require_etcd

from goqueue.broker.topics import NewTopic
from goqueue.client import connect
from goqueue.config import Config
from goqueue.errors import ConfigError, NotCoordinator, TopicNotFound, UnsupportedFeatureLevel
from goqueue.metadata.events import GroupSettings
from goqueue.metadata.features import KNOWN_LEVELS, METADATA_VERSION, MOVING_REPLICAS_LEVEL
from goqueue.metadata.image import Image
from goqueue.metadata.keys import session_key
from goqueue.metadata.shared.etcd.connection import Connection
from goqueue.metadata.shared.etcd.etcd_kv import EtcdKv
from goqueue.metadata.shared.kv_backup import decode_backup, restore_backup, take_backup
from goqueue.metadata.shared.kv_snapshot import read_image
from goqueue.node.assemble import assemble
from goqueue.node.node import Node


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    require_etcd()
    server = EtcdServer(tmp_path_factory.mktemp("etcd")).start()
    yield server
    server.stop()


class Nodes:
    """Nodes 1 to 3, each with a directory of its own."""

    def __init__(self, home: Path, url: str, prefix: str) -> None:
        self.home, self.prefix = home, prefix
        secret = home / "secret"
        secret.write_text("a secret of this cluster\n")
        secret.chmod(0o600)
        plain = Config()
        ports = free_ports(3)
        self._config = replace(
            plain,
            listeners=replace(plain.listeners, kafka="127.0.0.1:0", http="127.0.0.1:0"),
            cluster=replace(
                plain.cluster,
                peers=tuple(f"{number}=127.0.0.1:{port}" for number, port in enumerate(ports, 1)),
                secret_file=str(secret),
                session_ms=2_000,
                leader_return_ms=500,
            ),
            metadata=replace(plain.metadata, mode="external", endpoints=(url,), prefix=prefix),
            tracing=replace(plain.tracing, enabled=False),
        )
        self.kv = EtcdKv(Connection([url]))
        self.running: dict[int, Node] = {}
        # Nodes that hold the level of the metadata.
        self.levels_max: dict[int, int] = {}

    def config(self, number: int) -> Config:
        broker = replace(self._config.broker, node_id=number, data_dir=str(self.home / f"node{number}"))
        cluster = replace(self._config.cluster, metadata_level_max=self.levels_max.get(number, -1))
        return replace(self._config, broker=broker, cluster=cluster)

    async def start(self, *numbers: int) -> None:
        nodes = {number: assemble(self.config(number)) for number in numbers}
        await asyncio.gather(*(node.start() for node in nodes.values()))
        self.running |= nodes

    async def stop(self, number: int) -> None:
        await self.running.pop(number).stop()

    async def image(self) -> Image:
        return await read_image(self.kv, self.prefix)

    async def until(self, is_so: Callable[[Image], bool]) -> Image:
        async with asyncio.timeout(30):
            while not is_so(image := await self.image()):  # noqa: ASYNC110 - other processes change it
                await asyncio.sleep(0.02)
        return image

    async def close(self) -> None:
        await asyncio.gather(*(node.stop() for node in self.running.values()))
        await self.kv.close()


@pytest.fixture
async def nodes(server: EtcdServer, tmp_path: Path) -> AsyncIterator[Nodes]:
    nodes = Nodes(tmp_path, server.url, f"/{tmp_path.name}")
    yield nodes
    await nodes.close()


def leaders(image: Image, name: str) -> set[int]:
    topic = image.topic(name)
    assert topic is not None
    return {one.leader for one in image.assignments(topic.topic_id)}


async def until_true(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110 - the disk is watched
            await asyncio.sleep(0.02)


async def test_nodes_register_place_topics_and_take_over_from_each_other(nodes: Nodes) -> None:
    await nodes.start(1, 2, 3)
    image = await nodes.image()
    assert set(image.sessions) == {1, 2, 3}
    assert not any(node.fenced for node in image.nodes().values())
    topics = nodes.running[1].running.services.topics
    created = await topics.create(NewTopic("t", 6))
    assert (created.replication_factor, created.config) == (3, {"min.insync.replicas": "2"})
    assert leaders(await nodes.image(), "t") == {1, 2, 3}

    # A clean stop hands over before it closes, and leaves its token.
    await nodes.stop(2)
    image = await nodes.image()
    assert leaders(image, "t") == {1, 3}
    assert image.nodes()[2].clean_token
    await nodes.start(2)
    await nodes.until(lambda image: leaders(image, "t") == {1, 2, 3})

    # A session that ends takes the leaderships with it; the node registers again by itself, in a new epoch.
    before = (await nodes.image()).sessions[3]
    held = await nodes.kv.get(f"{nodes.prefix}{session_key(3)}")
    assert held is not None
    await nodes.kv.revoke(held.lease)
    image = await nodes.until(lambda image: image.sessions.get(3, 0) > before)
    image = await nodes.until(lambda image: leaders(image, "t") == {1, 2, 3})
    topic = image.topic("t")
    assert topic is not None
    assert sum(one.leader_epoch for one in image.assignments(topic.topic_id)) >= 6


async def test_a_directory_is_kept_apart_from_other_nodes_and_from_nodes_on_their_own(nodes: Nodes) -> None:
    await nodes.start(1)
    await nodes.stop(1)
    config = nodes.config(1)
    with pytest.raises(ConfigError, match="belongs to node 1 of its cluster"):
        await assemble(replace(config, broker=replace(config.broker, node_id=2))).start()
    with pytest.raises(ConfigError, match=r"metadata\.mode is embedded"):
        await assemble(replace(config, metadata=Config().metadata)).start()
    with pytest.raises(ConfigError, match="lead to cluster"):
        await assemble(replace(config, metadata=replace(config.metadata, prefix=f"{nodes.prefix}-other"))).start()


async def test_an_unfit_server_that_did_not_answer_when_the_node_was_started_is_refused_too(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [[], ["http://10.0.0.1:2379: etcd 3.5.1 can lose data"]]

    async def problems(*_: object) -> list[str]:
        return answers.pop(0)

    monkeypatch.setattr("goqueue.node.cluster.etcd.version_problems", problems)
    with pytest.raises(ConfigError, match=r"3\.5\.1 can lose data"):
        await assemble(nodes.config(1)).start()
    assert (await nodes.image()).nodes() == {}, "it has written nothing"


async def test_metadata_is_restored_into_an_empty_store_with_higher_epochs(nodes: Nodes) -> None:
    await nodes.start(1)
    topics = nodes.running[1].running.services.topics
    await topics.create(NewTopic("t", 2, replication_factor=1, config={"retention.ms": "5000"}))
    backup = decode_backup((await take_backup(nodes.kv, nodes.prefix)).encoded())
    before = await nodes.image()
    await topics.create(NewTopic("later", 1, replication_factor=1))
    await nodes.stop(1)
    nodes.prefix += "-restored"
    await restore_backup(nodes.kv, nodes.prefix, backup)
    config = nodes.config(1)
    node = assemble(replace(config, metadata=replace(config.metadata, prefix=nodes.prefix)))
    await node.start()
    nodes.running[1] = node
    image = await nodes.until(lambda image: leaders(image, "t") <= {1, 2, 3} and image.cluster_id != "")
    assert image.cluster_id == before.cluster_id
    topic = image.topic("t")
    assert topic is not None
    assert topic.config["retention.ms"] == "5000"
    assert min(one.leader_epoch for one in image.assignments(topic.topic_id)) >= 1_000_000
    assert image.sessions[1] > before.sessions[1]
    with pytest.raises(TopicNotFound):
        node.running.services.topics.get("later")


async def test_a_node_that_holds_the_level_of_the_metadata_holds_it_for_all(nodes: Nodes) -> None:
    nodes.levels_max = {1: 1}
    # One after the other, as in an upgrade: a node that is registered alone is all nodes.
    await nodes.start(1)
    await nodes.start(2)
    image = await nodes.until(lambda image: image.feature_levels().get(METADATA_VERSION) == 1)
    assert {number: node.features[METADATA_VERSION] for number, node in image.nodes().items()} == {1: 1, 2: 3}
    defaults = nodes.running[2].running.services.defaults
    with pytest.raises(UnsupportedFeatureLevel, match="from level 2"):
        await defaults.alter({"log.retention_ms": "60000"})

    # Also while it is away: it could be started again.
    await nodes.stop(1)
    with pytest.raises(UnsupportedFeatureLevel, match="from level 2"):
        await defaults.alter({"log.retention_ms": "60000"})

    nodes.levels_max = {}
    await nodes.start(1)
    await nodes.until(lambda image: image.feature_levels().get(METADATA_VERSION) == 3)
    await defaults.alter({"log.retention_ms": "60000"})
    assert (await nodes.image()).broker_defaults == {"log.retention_ms": "60000"}


async def lose_session(nodes: Nodes, number: int) -> None:
    """End the session of a node that runs, as when it was cut off: others take over, and it registers again."""
    found = await nodes.kv.get(nodes.prefix + session_key(number))
    assert found is not None
    await nodes.kv.revoke(found.lease)


@pytest.mark.slow
@pytest.mark.parametrize("level", [0, 1])
async def test_elections_go_on_while_one_node_is_held_at_an_earlier_level(nodes: Nodes, level: int) -> None:
    """A rolling upgrade: node 1 agrees to the earlier level, nodes 2 and 3 know all. Nothing newer may be written."""
    nodes.levels_max = {1: level}
    # One after the other: a node that is registered alone is all nodes.
    await nodes.start(1)
    await nodes.start(2, 3)
    services = nodes.running[1].running.services
    topic = await services.topics.create(NewTopic("orders", 3))
    urls = ",".join(f"http://{one.running.http}" for one in nodes.running.values())
    sent: list[str] = []

    async def produce(count: int) -> None:
        async with connect(urls) as client, client.producer(acks="all") as producer:
            for _ in range(count):
                sent.append(f"order {len(sent)}")
                await producer.send("orders", sent[-1])

    def is_whole(image: Image) -> bool:
        return all(len(one.isr) == 3 and one.leader >= 0 for one in image.assignments(topic.topic_id))

    await nodes.until(is_whole)
    await produce(20)
    for number in (1, 2, 3):
        before = {one.leader_epoch for one in (await nodes.image()).assignments(topic.topic_id)}
        await lose_session(nodes, number)
        await nodes.until(
            lambda image, before=before: {one.leader_epoch for one in image.assignments(topic.topic_id)} != before
        )
        await nodes.until(is_whole)
        await produce(20)

    # Below the minimum: who left is written down as eligible only where every node knows what that is.
    await nodes.stop(3)
    await nodes.stop(2)
    image = await nodes.until(lambda image: all(one.isr == (1,) for one in image.assignments(topic.topic_id)))
    is_remembered = any(one.eligible for one in image.assignments(topic.topic_id))
    assert is_remembered == (level >= MOVING_REPLICAS_LEVEL)
    assert image.feature_levels().get(METADATA_VERSION, 0) == level
    await nodes.start(2, 3)
    await nodes.until(is_whole)
    urls = ",".join(f"http://{one.running.http}" for one in nodes.running.values())
    await produce(20)

    # The last node is upgraded, and the level follows.
    await nodes.stop(1)
    nodes.levels_max = {}
    await nodes.start(1)
    await nodes.until(lambda image: image.feature_levels().get(METADATA_VERSION) == KNOWN_LEVELS[METADATA_VERSION])
    await nodes.until(is_whole)
    urls = ",".join(f"http://{one.running.http}" for one in nodes.running.values())
    await produce(20)
    found: list[str] = []
    async with connect(urls) as client:
        for partition in range(3):
            read = await client.get(f"/topics/orders/partitions/{partition}/messages?offset=0&limit=1000")
            found += [one["value"] for one in read["messages"]]
    assert sorted(found) == sorted(sent)


@pytest.mark.slow
async def test_settings_of_groups_move_into_the_metadata_when_all_nodes_know_them(nodes: Nodes) -> None:
    nodes.levels_max = {1: 2}
    await nodes.start(1)
    await nodes.start(2, 3)
    groups = {number: node.running.services.groups for number, node in nodes.running.items()}
    set_at: set[int] = set()
    for number, one in groups.items():
        # Only the coordinator of the group has its settings as long as a node does not know the level.
        try:
            await one.alter_settings("g", {"consumer.session.timeout.ms": "6000"}, delivery={"retries_max": 7})
            set_at.add(number)
        except NotCoordinator:
            continue
    (coordinator,) = set_at
    assert (await nodes.image()).group_settings == {}
    assert (await groups[coordinator].ensure_queue("g")).policy == {"retries_max": 7}

    nodes.levels_max = {}
    await nodes.stop(1)
    await nodes.start(1)
    expected = GroupSettings(session_timeout_ms=6_000, policy={"retries_max": 7})
    await nodes.until(lambda image: image.group_settings == {"g": expected})
    for number, node in nodes.running.items():
        services = node.running.services
        await services.defaults._metadata.catch_up()
        assert (await services.groups.settings("g")).session_timeout_ms == 6_000
        await services.groups.alter_settings("g", {}, delivery={"retries_max": number})
        assert (await nodes.image()).group_settings["g"].policy == {"retries_max": number}


async def test_topics_that_were_deleted_while_a_node_was_away_leave_its_disk(nodes: Nodes) -> None:
    await nodes.start(1, 2, 3)
    services = nodes.running[1].running.services
    async with connect(f"http://{nodes.running[1].running.http}") as client, client.producer(acks="all") as producer:
        for name in ("gone", "again", "kept"):
            await services.topics.create(NewTopic(name, 1))
            await producer.send(name, "a record")
    logs = nodes.home / "node3" / "logs"
    await until_true(lambda: all((logs / name / "0").is_dir() for name in ("gone", "again", "kept")))
    await nodes.stop(3)
    await services.topics.delete("gone")
    await services.topics.delete("again")
    await nodes.until(lambda image: not image.deletions())
    await services.topics.create(NewTopic("again", 2))

    await nodes.start(3)

    assert not (logs / "gone").exists()
    assert (logs / "kept" / "0").is_dir()
    await until_true(lambda: not list((nodes.home / "node3" / "deleted").iterdir()))
    assert not (nodes.home / "node3" / "set-aside").exists()
