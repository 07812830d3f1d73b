"""Three whole nodes in one simulated loop, with real sessions and the real controller: another node leads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, TypeVar

from goqueue.broker.arrivals.deduplication.ids import DEDUPLICATION_HEADER
from goqueue.broker.arrivals.record_publishing import Published
from goqueue.broker.topics import NewTopic
from goqueue.codec.batch_decode import decode_records
from goqueue.codec.batch_encode import encode_batch
from goqueue.config import Config
from goqueue.delivery.values import Action, Receive, Settlement
from goqueue.errors import GoQueueError, wire_of
from goqueue.node.assemble import assemble
from goqueue.node.assembly.cluster import STORE_S_MAX
from goqueue.node.node import Node, Running
from goqueue.records import Acks, NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.clock import ManualClock, seeded_rng
from goqueue.testing.cluster.loop import ClusterLoop, Life
from goqueue.testing.disk import Survival
from goqueue.testing.kv_model import KvModel
from goqueue.testing.memory_files import MemoryFiles
from goqueue.testing.sim_loop import DelayedOffload
from goqueue.testing.sim_network import SimNetwork, SimPeerNetwork
from goqueue.testing.sim_node import bury

NODES = (1, 2, 3)
T = TypeVar("T")


class Nodes:
    """The nodes of one cluster, each in a life of its own."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.clock = ManualClock()
        self.loop = ClusterLoop(self.clock, order=seeded_rng(seed, "order"))
        self.network = SimNetwork(seeded_rng(seed, "network"))
        self.files = {node: MemoryFiles(seed=seeded_rng(seed, node).getrandbits(64)) for node in NODES}
        self.lives: dict[int, Life] = {}
        self.all_lives: list[Life] = []
        self.members: dict[int, SimPeerNetwork] = {}
        self.running: dict[int, Running] = {}
        self.nodes: dict[int, Node] = {}
        self.model: KvModel

    def play(self, story: Callable[[Nodes], Awaitable[None]]) -> None:
        async def run() -> None:
            self.model = KvModel(leases_expire=True)
            await asyncio.gather(*(self.start(node) for node in NODES))
            await story(self)

        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(run())
        finally:
            for life in self.all_lives:
                self.loop.thaw(life)
            bury(self.loop)
            asyncio.set_event_loop(None)

    async def start(self, node_id: int) -> None:
        config = Config()
        config = replace(
            config,
            broker=replace(config.broker, node_id=node_id),
            tracing=replace(config.tracing, enabled=False),
            cluster=replace(config.cluster, peers=tuple(f"{node}=node-{node}:1" for node in NODES)),
        )
        life = self.lives[node_id] = Life(node_id)
        self.all_lives.append(life)
        self.members[node_id] = self.network.join(node_id)
        rng = seeded_rng(self.seed, node_id, len(self.all_lives))
        self.nodes[node_id] = assemble(
            config,
            files=self.files[node_id],
            clock=self.clock,
            rng=rng,
            offload=DelayedOffload(Random(rng.random())),
            kv=self.model.client(),
            network=self.members[node_id],
        )
        self.running[node_id] = await self.loop.start(life, self.nodes[node_id].start())

    def cut_power(self, node_id: int) -> None:
        self.lives[node_id].is_over = True
        self.network.leave(self.members[node_id], silently=True)
        self.files[node_id] = self.files[node_id].crash(Survival.NOTHING)
        del self.running[node_id]

    async def publish(self, partition: int, value: bytes, sequence: int) -> tuple[int, int]:
        """Store a record with acks=all, wherever it is led; returns the node and the offset."""
        batch = encode_batch(
            [NewRecord(None, value)],
            producer_id=9,
            producer_epoch=0,
            base_sequence=sequence,
            now_ms=self.clock.now_ms(),
        )
        for _ in range(400):
            for node_id, running in list(self.running.items()):
                publish = running.services.publish

                async def work(publish: object = publish) -> int:
                    opening = publish.opening("orders", partition)  # type: ignore[attr-defined]
                    if opening is not None:
                        await opening
                    pending = publish.append("orders", partition, batch, acks=Acks.ALL)  # type: ignore[attr-defined]
                    if pending.durable is not None:
                        await pending.durable
                    return int(pending.appended.base_offset)

                try:
                    return node_id, await self.loop.start(self.lives[node_id], work())
                except GoQueueError:
                    await asyncio.sleep(0.02)
        raise AssertionError(f"nobody takes {value!r}")

    async def at_leader(self, node_id: int, work: Callable[[Services], Coroutine[Any, Any, T]]) -> T:
        """Do something with a queue of the partition that the node leads. Retriable errors are retried."""
        for _ in range(100):
            try:
                return await self.loop.start(self.lives[node_id], work(self.running[node_id].services))
            except GoQueueError as error:
                if not wire_of(error).retriable:
                    raise
                await asyncio.sleep(0.1)
        raise AssertionError(f"node {node_id} does not answer")

    def values(self, node_id: int, partition: int) -> list[bytes]:
        """What a node has of a partition, below its high watermark."""
        log = self.running[node_id].services.queries._partitions.replica("orders", partition).log
        read = log.read_batches(log.start_offset, max_bytes=1 << 24, upper=log.high_watermark)
        return [record.value or b"" for batch in read.batches for record in decode_records(batch)]


async def eventually(holds: Callable[[], bool], what: str, seconds: float = 60) -> None:
    for _ in range(int(seconds * 20)):
        if holds():
            return
        await asyncio.sleep(0.05)
    raise AssertionError(what)


def test_what_was_acknowledged_survives_the_power_cut_of_its_leader_and_the_node_comes_back() -> None:
    async def story(nodes: Nodes) -> None:
        topics = nodes.running[1].services.topics
        creating = topics.create(NewTopic("orders", partitions=3, replication_factor=3))
        topic = await nodes.loop.start(nodes.lives[1], creating)
        assert topic.config["min.insync.replicas"] == "2"
        leaders = {number: (await nodes.publish(number, b"before", 0))[0] for number in range(3)}
        assert set(leaders.values()) == set(NODES), "leaders are spread"
        gone = leaders[0]
        nodes.cut_power(gone)
        cut_s = nodes.loop.time()
        for number in range(3):
            leader, offset = await nodes.publish(number, b"after", 1)
            assert leader != gone
            assert offset == 1
        assert nodes.loop.time() - cut_s < 10, "the session takes six seconds to end"
        await nodes.start(gone)
        for number in range(3):
            await nodes.publish(number, b"again", 2)
        everything = [b"before", b"after", b"again"]
        await eventually(
            lambda: all(nodes.values(node, number) == everything for node in NODES for number in range(3)),
            "every replica has everything",
        )

    Nodes(seed=1).play(story)


def test_sessions_last_long_after_the_time_that_a_start_may_take() -> None:
    async def story(nodes: Nodes) -> None:
        before = dict(nodes.running[1].services.cluster._image().sessions)
        await asyncio.sleep(5 * STORE_S_MAX)
        for node in NODES:
            assert dict(nodes.running[node].services.cluster._image().sessions) == before
            assert [check.name for check in nodes.running[node].services.checks() if check.problem] == []

    Nodes(seed=5).play(story)


def test_an_acknowledged_message_stays_so_when_its_leader_loses_all_that_it_had_not_synced() -> None:
    async def story(nodes: Nodes) -> None:
        creating = nodes.running[1].services.topics.create(NewTopic("orders", partitions=1, replication_factor=3))
        await nodes.loop.start(nodes.lives[1], creating)
        for sequence in range(4):
            leader, _ = await nodes.publish(0, b"%d" % sequence, sequence)
        settled = await nodes.at_leader(leader, acknowledge_two)
        assert settled == ["acked", "acked"]
        nodes.cut_power(leader)
        successor, _ = await nodes.publish(0, b"4", 4)
        assert successor != leader
        # Past the visibility of whatever was leased before.
        await asyncio.sleep(31)
        assert await nodes.at_leader(successor, receive_all) == [2, 3, 4]

    Nodes(seed=2).play(story)


def test_a_repeat_is_recognised_by_the_next_leader_which_has_followed_the_window() -> None:
    async def story(nodes: Nodes) -> None:
        window = {"goqueue.dedup.window.ms": "300000"}
        new = NewTopic("orders", partitions=1, replication_factor=3, config=window)
        await nodes.loop.start(nodes.lives[1], nodes.running[1].services.topics.create(new))
        leader, _ = await nodes.publish(0, b"without an id", 0)
        first = [await nodes.at_leader(leader, partial(send_with_id, name=name)) for name in ("a", "b")]
        assert [one.offset for one in first] == [1, 2]
        # The followers look once a second; the last id comes between their look and the power cut.
        await asyncio.sleep(3)
        last = await nodes.at_leader(leader, partial(send_with_id, name="c"))
        nodes.cut_power(leader)
        successor, _ = await nodes.publish(0, b"to find the leader", 1)
        assert successor != leader
        again = [await nodes.at_leader(successor, partial(send_with_id, name=name)) for name in ("a", "b", "c", "d")]
        assert again[:3] == [one._replace(duplicate=True) for one in (*first, last)]
        assert (again[3].offset, again[3].duplicate) == (5, False)

    Nodes(seed=3).play(story)


async def send_with_id(services: Services, name: str) -> Published:
    record = NewRecord(None, b"v", ((DEDUPLICATION_HEADER, name.encode()),), timestamp_ms=77)
    (sent,) = await services.publish.publish_records("orders", [record], acks=Acks.ALL)
    assert isinstance(sent, Published)
    return sent


async def acknowledge_two(services: Services) -> list[str]:
    taken = await services.delivery.receive(Receive("g", "c", [TopicPartition("orders", 0)], 2))
    assert [one.offset for one in taken] == [0, 1]
    results = await services.delivery.settle([Settlement(one.receipt, Action.ACK) for one in taken])
    return [one.action_taken for one in results]


async def receive_all(services: Services) -> list[int]:
    taken = await services.delivery.receive(Receive("g", "c", [TopicPartition("orders", 0)], 10))
    return [one.offset for one in taken]
