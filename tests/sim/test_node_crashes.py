"""The whole node in simulation: clients at work, the power cut at any step of the disk, and no promise broken."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random

import pytest
from tests.sim.stories import ENDS, crash_at, crash_at_every_step, live_in_peace, live_many_lives, seeds

from goqueue.broker.topics import NewTopic
from goqueue.config import BrokerConfig, Config, DurabilityConfig, GroupsConfig, LogConfig
from goqueue.errors import GoQueueError
from goqueue.groups.service import NewOffset
from goqueue.records import Acks, NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.clock import seeded_rng
from goqueue.testing.faults import Crash
from goqueue.testing.history import History
from goqueue.testing.sim_node import SimNode

CONFIG = Config(
    broker=BrokerConfig(default_partitions=2),
    log=LogConfig(segment_bytes=1024, index_interval_bytes=128, retention_check_ms=100),
    durability=DurabilityConfig(
        flush_interval_ms=40, checkpoint_interval_ms=150, syncfs_files_min=6, disk_free_bytes_min=0
    ),
    groups=GroupsConfig(offsets_partitions=2),
)
ORDERS = "orders"
PASSING = "passing"
TABLE = "table"
RETENTION_MS = 2_000
TROUBLES = ("full disk", "failed sync")
TOPICS: dict[str, dict[str, str]] = {
    ORDERS: {},
    PASSING: {"retention.ms": str(RETENTION_MS)},
    TABLE: {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"},
}


@dataclass
class Producer:
    """An idempotent producer that sends a batch again until it knows what became of it."""

    producer_id: int | None = None
    sequence: int = 0
    unanswered: list[NewRecord] = field(default_factory=list)


class World:
    """A node, its clients and what they were promised, over all lives."""

    def __init__(self, seed: int) -> None:
        self.node = SimNode(seed, CONFIG)
        self.history = History(retention_ms={PASSING: RETENTION_MS})
        self.producer = Producer()
        self.values = 0
        # What goes wrong with the disk in this life; then clients put up with errors.
        self.trouble: str | None = None

    async def work(self, services: Services) -> None:
        """First see that every promise is kept, then make new ones."""
        await self.check(services)
        rng = seeded_rng(self.node.seed, self.node.lives, "clients")
        await self.create_topics(services)
        clients = [
            self.write(services, Random(rng.getrandbits(64)), ORDERS),
            self.write(services, Random(rng.getrandbits(64)), ORDERS),
            self.write(services, Random(rng.getrandbits(64)), PASSING),
            self.update(services, Random(rng.getrandbits(64))),
            self.write_in_sequence(services, Random(rng.getrandbits(64))),
            self.commit(services, Random(rng.getrandbits(64))),
            self.administer(services, Random(rng.getrandbits(64))),
        ]
        if self.trouble is not None:
            clients.append(self.make_trouble(Random(rng.getrandbits(64))))
        await asyncio.gather(*clients)
        if self.trouble == "failed sync":
            # The system may have forgotten what it still shows: only a power cut brings that to light.
            raise Crash

    async def check(self, services: Services) -> None:
        await self.history.check(services)

    async def create_topics(self, services: Services) -> None:
        for name, config in TOPICS.items():
            if services.topics.find(name) is None:
                assert name not in self.history.topics
                await services.topics.create(NewTopic(name, config=config))
            self.history.topics.add(name)

    async def write(self, services: Services, rng: Random, topic: str) -> None:
        for _ in range(6):
            await asyncio.sleep(rng.random() * 0.05)
            at = TopicPartition(topic, rng.randrange(2))
            acks = rng.choice(list(Acks))
            await self.send(services, at, [self.record(rng) for _ in range(rng.randrange(1, 4))], acks)

    async def update(self, services: Services, rng: Random) -> None:
        for _ in range(10):
            key = rng.choice([b"a", b"b", b"c"])
            at, value = TopicPartition(TABLE, 0), self.record(rng).value or b""
            self.history.try_update(at, key, value)
            results = await services.publish.publish_records(TABLE, [NewRecord(key, value)], acks=Acks.ALL, partition=0)
            if self.succeeded(results[0].error):
                self.history.updated(at, key)
            await asyncio.sleep(rng.random() * 0.05)

    async def write_in_sequence(self, services: Services, rng: Random) -> None:
        producer = self.producer
        if producer.producer_id is None:
            producer.producer_id = await services.producer_ids.allocate()
            self.history.producer_ids.append(producer.producer_id)
        for _ in range(5):
            producer.unanswered = producer.unanswered or [self.record(rng) for _ in range(rng.randrange(1, 4))]
            records, at = producer.unanswered, TopicPartition(ORDERS, 0)
            is_answered = await self.send(
                services,
                at,
                records,
                Acks.ALL,
                producer_id=producer.producer_id,
                producer_epoch=0,
                sequence=producer.sequence,
            )
            if is_answered:
                producer.sequence += len(records)
                producer.unanswered = []
            await asyncio.sleep(rng.random() * 0.05)

    async def send(
        self, services: Services, at: TopicPartition, records: list[NewRecord], acks: Acks, **producer: int
    ) -> bool:
        self.history.sent[at] |= {record.value for record in records if record.value}
        results = await services.publish.publish_records(
            at.topic, records, acks=acks, partition=at.partition, **producer
        )
        for record, result in zip(records, results, strict=True):
            if self.succeeded(result.error) and acks is Acks.ALL and record.value:
                self.history.acknowledge(at, result.offset, record.value, result.timestamp_ms)
        return all(result.error is None for result in results)

    async def commit(self, services: Services, rng: Random) -> None:
        for offset in range(5):
            group, at = rng.choice(["alpha", "beta"]), TopicPartition(ORDERS, rng.randrange(2))
            self.history.try_commit(group, at, offset)
            try:
                outcomes = await services.groups.commit(group, [NewOffset(at.topic, at.partition, offset)])
            except GoQueueError as error:
                outcomes = (error,)
            if self.succeeded(outcomes[0]):
                self.history.committed(group, at)
            await asyncio.sleep(rng.random() * 0.05)

    async def administer(self, services: Services, rng: Random) -> None:
        name = f"passing-by-{self.node.lives}"
        try:
            await services.topics.create(NewTopic(name))
            self.history.topics.add(name)
            await self.send(services, TopicPartition(name, 0), [self.record(rng)], Acks.ALL)
            self.history.producer_ids.append(await services.producer_ids.allocate())
            await asyncio.sleep(rng.random() * 3)
            self.history.topics.discard(name)
            await services.topics.delete(name)
            self.history.topics_deleted.add(name)
        except GoQueueError as error:
            self.succeeded(error)
        # Long enough for old segments of the topic with retention to go.
        await asyncio.sleep(RETENTION_MS / 1000)

    async def make_trouble(self, rng: Random) -> None:
        await asyncio.sleep(rng.random() * 0.3)
        files = self.node.files
        if self.trouble == "failed sync":
            files.faults.fail("sync", rng.choice(["logs/*", "logs/__consumer_offsets/*", "metadata/*", "*"]))
        else:
            files.faults.capacity_bytes = sum(map(len, files.tree().values())) + rng.randrange(2000)
            await asyncio.sleep(rng.random() * 0.3)
            files.faults.capacity_bytes = None

    def succeeded(self, error: GoQueueError | None) -> bool:
        assert error is None or self.trouble is not None, error
        return error is None

    def record(self, rng: Random) -> NewRecord:
        self.values += 1
        return NewRecord(b"key", f"value {self.values} ".encode() + b"." * rng.randrange(200))


def disk_trouble(world: World, end: str) -> None:
    world.trouble = end if end in TROUBLES else None


def test_a_life_without_a_crash_keeps_every_promise() -> None:
    for seed in seeds(3):
        live_in_peace(World, seed, lives=3)


def test_one_seed_plays_the_same_life_again() -> None:
    def play() -> tuple[dict[str, bytes], dict[TopicPartition, dict[int, bytes]]]:
        world = World(11)
        world.node.live(world.work, crash_at_step=200)
        world.node.live(world.work)
        return world.node.files.tree(), dict(world.history.acknowledged)

    assert play() == play()


def test_a_power_cut_at_any_step_breaks_no_promise() -> None:
    for seed in seeds(1):
        # Every step of the start, then some; the slow suite takes them all.
        crash_at(World, seed, lambda steps: [*range(1, 20), *range(20, steps, 13)])


def test_many_lives_in_a_row_break_no_promise() -> None:
    for seed in seeds(5):
        live_many_lives(World, seed, lives=5, ends=(*ENDS, *TROUBLES), before=disk_trouble)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_power_cut_at_every_step_of_many_lives_breaks_no_promise() -> None:
    for seed in seeds(8):
        crash_at_every_step(World, seed)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_very_many_lives_break_no_promise() -> None:
    for seed in seeds(400):
        live_many_lives(World, seed, lives=10, ends=(*ENDS, *TROUBLES), before=disk_trouble)
