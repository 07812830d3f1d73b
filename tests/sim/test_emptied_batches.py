"""A queue over partitions with lanes whose batches lose records on their way in: to delay, to deduplication, or all.

Power cuts and kills come at any step. Every message that is no repeat is delivered to every group, and none after its
durable acknowledgement; of messages with the same id one is stored.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

import pytest
from tests.sim.stories import each_seed

from goqueue.broker.topics import NewTopic
from goqueue.codec.batch_encode import encode_batch
from goqueue.codec.compression import Codec
from goqueue.config import Config, DelayConfig, DeliveryConfig, DurabilityConfig, LogConfig
from goqueue.delivery.values import Action, Receive, Settlement
from goqueue.errors import NotLeader
from goqueue.records import Acks, Header, NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.clock import seeded_rng
from goqueue.testing.sim_node import SimNode

PLACES = [TopicPartition("t", number) for number in range(3)]
GROUPS = ("g", "h")
CONFIG = Config(
    log=LogConfig(segment_bytes=2048, index_interval_bytes=128),
    durability=DurabilityConfig(flush_interval_ms=40, checkpoint_interval_ms=150),
    delay=DelayConfig(near_ms=1_000, near_max=1_000),
    delivery=DeliveryConfig(visibility_ms=5_000, retries_max=1_000),
)
TOPIC = {
    "goqueue.delay.headers": "true",
    "goqueue.priority.headers": "true",
    "goqueue.dedup.window.ms": str(24 * 3600 * 1000),
}
LIVES = 5


class Producer:
    """An idempotent producer of one partition, which sends a batch again until it is answered, over all lives."""

    def __init__(self, place: TopicPartition, rng: Random) -> None:
        self.place = place
        self.rng = rng
        self.sequence = 0
        self.unanswered: list[NewRecord] = []
        self.plain: set[bytes] = set()
        self.ids: set[bytes] = set()

    async def work(self, services: Services, batches: int) -> None:
        for _ in range(batches):
            await self.send(services)
            await asyncio.sleep(self.rng.random() * 0.1)

    async def send(self, services: Services) -> None:
        if not self.unanswered:
            kinds = self.rng.choice([("now",), ("later",), ("repeat",), ("now", "later", "repeat")])
            self.unanswered = [self._record(at, self.rng.choice(kinds)) for at in range(self.rng.randint(1, 5))]
        batch = encode_batch(
            self.unanswered,
            codec=self.rng.choice([Codec.NONE, Codec.GZIP]),
            producer_id=7 + self.place.partition,
            producer_epoch=0,
            base_sequence=self.sequence,
            now_ms=services.clock.now_ms(),
        )
        while True:
            try:
                pending = services.publish.append(*self.place, batch, acks=Acks.ALL)
                break
            except NotLeader:
                await asyncio.sleep(0.01)
        if pending.durable is not None:
            await pending.durable
        self.sequence += len(self.unanswered)
        self.unanswered = []

    def _record(self, at: int, kind: str) -> NewRecord:
        headers: list[Header] = [("goqueue-priority", b"%d" % self.rng.randrange(5))]
        name = b"%d/%d" % (self.place.partition, self.sequence + at)
        if kind == "later":
            headers.append(("goqueue-delay-ms", b"%d" % self.rng.randrange(1, 500)))
        if kind == "repeat":
            name = b"%d/id %d" % (self.place.partition, self.rng.randrange(4))
            headers.append(("goqueue-dedup-id", name))
        (self.ids if kind == "repeat" else self.plain).add(name)
        return NewRecord(None, name, tuple(headers))


class World:
    """A node, three producers and two groups."""

    def __init__(self, seed: int) -> None:
        self.node = SimNode(seed, CONFIG)
        self.rng = seeded_rng(seed, "clients")
        self.producers = [Producer(place, Random(self.rng.getrandbits(64))) for place in PLACES]
        self.delivered: dict[str, set[bytes]] = {group: set() for group in GROUPS}
        self.acked: dict[str, set[tuple[int, int]]] = {group: set() for group in GROUPS}

    async def work(self, services: Services) -> None:
        if services.topics.find("t") is None:
            await services.topics.create(NewTopic("t", len(PLACES), config=TOPIC))
        await asyncio.gather(
            *(one.work(services, 6) for one in self.producers),
            *(self.consume(services, group, turns=6) for group in GROUPS),
        )

    async def consume(self, services: Services, group: str, turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(self.rng.random() * 0.1)
            await self.receive(services, group, self.rng.randint(1, 8))

    async def receive(self, services: Services, group: str, limit: int, wait_ms: int = 0) -> int:
        found = await services.delivery.receive(Receive(group, "c", PLACES, limit, wait_ms=wait_ms))
        assert not {(one.partition, one.offset) for one in found} & self.acked[group], "came after its durable ack"
        self.delivered[group] |= {one.value or b"" for one in found}
        results = await services.delivery.settle([Settlement(one.receipt, Action.ACK) for one in found], durable=True)
        self.acked[group] |= {
            (one.partition, one.offset) for one, told in zip(found, results, strict=True) if told.error is None
        }
        return len(found)

    async def check(self, services: Services) -> None:
        """Send what is left, let everything come due, and empty the queues."""
        await self.work(services)
        await asyncio.sleep(10)
        read = await services.reads.read(dict.fromkeys(PLACES, 0), limit=10_000, max_bytes=2**24)
        stored = Counter(record.value or b"" for one in read.values() for record in one.records)
        expected = {name for one in self.producers for name in (*one.plain, *one.ids)}
        assert stored == Counter(expected)
        for group in GROUPS:
            while await self.receive(services, group, 100, wait_ms=100):
                pass
            assert self.delivered[group] == expected
            ends = await services.delivery.positions.committed(group, PLACES)
            assert all(ends[at] == services.queries.offsets(*at).end_offset for at in PLACES)
        assert not any(services.delay.stats().pending.values())


@pytest.mark.parametrize("seed", each_seed(20))
def test_every_message_is_stored_once_and_reaches_every_group_over_power_cuts(seed: int) -> None:
    world, rng = World(seed), seeded_rng(seed, "cuts")
    for _ in range(LIVES):
        crash_at_step = rng.choice([None, rng.randrange(1, 250), rng.randrange(1, 250)])
        world.node.live(world.work, crash_at_step=crash_at_step, is_killed=rng.random() < 0.5)
        world.node.clock.advance(ms=rng.choice([0, 100, 2_000]))
    assert world.node.live(world.check)
    assert world.node.live(world.check)


def test_without_a_crash_nothing_is_delivered_twice() -> None:
    world = World(1)
    for _ in range(3):
        assert world.node.live(world.work)
    assert world.node.live(world.check)
    for group in GROUPS:
        assert len(world.acked[group]) == len(world.delivered[group])
