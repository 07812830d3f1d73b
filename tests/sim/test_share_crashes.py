"""Share consumers in simulation: the broker is killed or the power is cut, life after life, and no message is lost.

In one life a message is with one consumer at a time. What was accepted stays accepted when the process
is killed; a power cut may take the acceptances of the last second with it, so then some come again.
"""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from tests.sim.stories import each_seed
from tests.unit.servers.kafka.share_client import ACCEPT, REJECT, RELEASE, ShareClient, ack_errors, acquired
from tests.unit.servers.kafka.test_share import caller

from goqueue.broker.topics import NewTopic
from goqueue.codec.batch_encode import encode_batch
from goqueue.config import BrokerConfig, Config, DeliveryConfig, DurabilityConfig, GroupsConfig, LogConfig
from goqueue.records import Acks, NewRecord, TopicPartition
from goqueue.servers.kafka.connections.peer import Peer
from goqueue.servers.kafka.dispatch import Dispatcher
from goqueue.servers.services import Services
from goqueue.testing.clock import seeded_rng
from goqueue.testing.sim_node import SimNode

CONFIG = Config(
    broker=BrokerConfig(default_partitions=1),
    log=LogConfig(segment_bytes=4096, index_interval_bytes=128, retention_ms=-1, retention_check_ms=100),
    durability=DurabilityConfig(flush_interval_ms=40, checkpoint_interval_ms=150),
    groups=GroupsConfig(offsets_partitions=1),
    delivery=DeliveryConfig(backoff_ms=20, backoff_ms_max=50),
)
AT, LETTERS = TopicPartition("jobs", 0), TopicPartition("jobs.dlq", 0)
CONSUMERS = ("a", "b", "c")


class World:
    """What was sent and what consumers were told, over all lives."""

    def __init__(self, seed: int) -> None:
        self.node = SimNode(seed, CONFIG)
        self.sent = 0
        self.accepted: set[int] = set()
        self.rejected: set[int] = set()
        # An answer was sent and its result never came: either may hold.
        self.unknown: set[int] = set()
        self.held: dict[int, str] = {}
        self.is_strict = True

    async def work(self, services: Services) -> None:
        self.held.clear()
        if services.topics.find("jobs") is None:
            await services.topics.create(NewTopic("jobs", partitions=1))
        self.forget_lost(services)
        topic_id = services.topics.get("jobs").topic_id
        dispatcher = Dispatcher(services)
        rng = seeded_rng(self.node.seed, self.node.lives, "work")
        clients = [ShareClient(caller(dispatcher, Peer(name)), topic_id, member_id=name) for name in CONSUMERS]
        await asyncio.gather(
            self.send(services, Random(rng.getrandbits(64))),
            *(self.consume(one, Random(rng.getrandbits(64))) for one in clients),
        )

    def forget_lost(self, services: Services) -> None:
        """What was said of messages that were not durable and are lost does not count: others get their offsets."""
        end = services.queries.offsets("jobs", 0).end_offset
        for told in (self.accepted, self.rejected, self.unknown):
            told -= {offset for offset in told if offset >= end}

    async def send(self, services: Services, rng: Random) -> None:
        for _ in range(8):
            count = rng.randrange(1, 6)
            batch = encode_batch([NewRecord(None, b"x")] * count, now_ms=services.clock.now_ms())
            pending = services.publish.append("jobs", 0, batch, acks=Acks.ALL)
            if pending.durable is not None:
                await pending.durable
            self.sent = services.queries.offsets("jobs", 0).last_stable_offset
            await asyncio.sleep(rng.random() * 0.05)

    async def consume(self, client: ShareClient, rng: Random) -> None:
        await client.beat()
        for _ in range(6):
            reply = await client.fetch(max_records=rng.randrange(1, 6), max_wait=30)
            mine = [offset for first, last, _ in acquired(reply) for offset in range(first, last + 1)]
            for offset in mine:
                assert offset not in self.held, f"{offset} is with {self.held[offset]} and given to {client.member_id}"
                assert not (self.is_strict and offset in self.accepted | self.rejected), f"{offset} came again"
                self.held[offset] = client.member_id
            await asyncio.sleep(rng.random() * 0.05)
            for offset in mine:
                await self.answer(client, offset, rng.choice([ACCEPT, ACCEPT, RELEASE, REJECT]))
        await client.fetch(epoch=-1)

    async def answer(self, client: ShareClient, offset: int, kind: int) -> None:
        self.unknown.add(offset)
        # From here on it may be given to another before the answer's result is here.
        del self.held[offset]
        reply = await client.acknowledge({0: [(offset, offset, [kind])]})
        assert ack_errors(reply) == [0]
        self.unknown.discard(offset)
        if kind == ACCEPT:
            self.accepted.add(offset)
        elif kind == REJECT:
            self.rejected.add(offset)

    async def drain(self, services: Services) -> None:
        """Take all that is left; together with what was settled before it must be all that was sent."""
        if services.topics.find("jobs") is None:
            assert self.sent == 0
            return
        self.forget_lost(services)
        topic_id = services.topics.get("jobs").topic_id
        client = ShareClient(caller(Dispatcher(services)), topic_id, member_id="last")
        taken: set[int] = set()
        end = services.queries.offsets("jobs", 0).last_stable_offset
        assert end >= self.sent
        while (await services.delivery.positions.committed("g", [AT])).get(AT, 0) < end:
            for first, last, _ in acquired(await client.fetch(max_wait=60_000)):
                taken.update(range(first, last + 1))
                await client.acknowledge({0: [(first, last, [ACCEPT])]})
        letters = await dead(services)
        lost = set(range(self.sent)) - taken - self.accepted - letters - self.unknown
        assert not lost, f"lost: {sorted(lost)}"
        # A rejection that a power cut took with it may have been followed by an acceptance.
        assert self.rejected - self.unknown - self.accepted <= letters | taken, "a rejected message is no dead letter"
        if self.is_strict:
            assert not taken & self.accepted, "an accepted message came again"


async def dead(services: Services) -> set[int]:
    """Where the dead letters come from; each is there once."""
    await asyncio.sleep(1)
    if services.topics.find(LETTERS.topic) is None:
        return set()
    found = (await services.reads.read({LETTERS: 0}, limit=10_000, max_bytes=2**20))[LETTERS].records
    origins = [int(value or b"") for one in found for name, value in one.headers if name == "goqueue-dlq-offset"]
    assert len(origins) == len(set(origins)) == len(found), "a dead letter is there twice"
    return set(origins)


@pytest.mark.parametrize("seed", each_seed(12))
def test_a_broker_that_is_killed_keeps_every_promise(seed: int) -> None:
    world = World(seed)
    for _ in range(4):
        world.node.live(world.work, is_killed=True)
    assert world.node.live(world.drain)


@pytest.mark.parametrize("seed", each_seed(25))
def test_a_power_cut_at_any_step_loses_no_message(seed: int) -> None:
    world = World(seed)
    world.is_strict = False
    rng = seeded_rng(seed, "crashes")
    for _ in range(4):
        world.node.live(world.work, crash_at_step=1 + rng.getrandbits(8))
    assert world.node.live(world.drain)
