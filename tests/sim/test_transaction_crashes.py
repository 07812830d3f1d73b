"""Transactions in simulation: the power is cut at any step, and each is wholly visible or wholly hidden."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

import pytest
from tests.sim.stories import crash_at, crash_at_every_step, live_in_peace, live_many_lives, seeds

from goqueue.broker.reading.fetch import FetchQuery, PartitionRead
from goqueue.broker.topics import NewTopic
from goqueue.codec.batch import parse_batch_header
from goqueue.codec.batch_decode import decode_records
from goqueue.codec.batch_encode import encode_batch
from goqueue.config import BrokerConfig, Config, DurabilityConfig, GroupsConfig, LogConfig, TransactionsConfig
from goqueue.coordinator.shard import Transaction
from goqueue.errors import ConcurrentTransactions
from goqueue.groups.service import NewOffset
from goqueue.records import Acks, Isolation, NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.clock import seeded_rng
from goqueue.testing.sim_node import SimNode
from goqueue.transactions.commands import Producer

CONFIG = Config(
    broker=BrokerConfig(default_partitions=2),
    log=LogConfig(segment_bytes=1024, index_interval_bytes=128, retention_ms=-1, retention_check_ms=100),
    durability=DurabilityConfig(flush_interval_ms=40, checkpoint_interval_ms=150, syncfs_files_min=6),
    groups=GroupsConfig(offsets_partitions=2),
    transactions=TransactionsConfig(state_partitions=2),
)
TOPICS = ("debit", "credit")
PLACES = [TopicPartition(topic, partition) for topic in TOPICS for partition in range(2)]
WRITERS = ("one", "two", "three")
TIMEOUT_MS = 2_000


class World:
    """A node, its transactional writers, and what they were promised, over all lives."""

    def __init__(self, seed: int) -> None:
        self.node = SimNode(seed, CONFIG)
        # Where each transaction wrote, and its end: None while its writer was not told.
        self.wrote: dict[bytes, set[TopicPartition]] = {}
        self.ends: dict[bytes, bool | None] = {}
        # The offset that each transaction would commit, for its writer's group.
        self.offsets: dict[bytes, tuple[str, int]] = {}
        self.count = 0
        self.hidden_for_ever: set[bytes] = set()
        self.shown: set[bytes] = set()

    async def work(self, services: Services) -> None:
        for topic in TOPICS:
            if services.topics.find(topic) is None:
                await services.topics.create(NewTopic(topic))
        rng = seeded_rng(self.node.seed, self.node.lives, "writers")
        await asyncio.gather(*(self.write(services, name, Random(rng.getrandbits(64))) for name in WRITERS))

    async def write(self, services: Services, name: str, rng: Random) -> None:
        transactions = services.transactions
        producer = await self.patiently(lambda: transactions.init_producer(name, timeout_ms=TIMEOUT_MS))
        sequences = dict.fromkeys(PLACES, 0)
        for _ in range(4):
            self.count += 1
            value = f"{name} {self.count}".encode()
            places = rng.sample(PLACES, rng.randrange(1, 4))
            self.wrote[value], self.ends[value] = set(places), None
            await self.patiently(lambda places=places: transactions.add_partitions(name, producer, places))
            await self.send(services, producer, sequences, places, value)
            if rng.random() < 0.7:
                await transactions.add_group(name, producer, name)
                self.offsets[value] = (name, self.count)
                outcomes = await services.groups.commit_in_transaction(
                    name,
                    [NewOffset("debit", 0, self.count)],
                    Transaction(producer.producer_id, producer.epoch),
                )
                assert outcomes == (None,)
            await asyncio.sleep(rng.random() * 0.05)
            choice = rng.random()
            if choice < 0.1:
                return  # gone: its transaction must end by itself
            commit = choice < 0.7
            await transactions.end(name, producer, commit=commit)
            self.ends[value] = commit
            await asyncio.sleep(rng.random() * 0.05)

    async def send(
        self,
        services: Services,
        producer: Producer,
        sequences: dict[TopicPartition, int],
        places: Sequence[TopicPartition],
        value: bytes,
    ) -> None:
        for place in places:
            batch = encode_batch(
                [NewRecord(None, value), NewRecord(None, value)],
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                base_sequence=sequences[place],
                transactional=True,
                now_ms=services.clock.now_ms(),
            )
            sequences[place] += 2
            pending = services.publish.append(*place, batch, acks=Acks.ALL)
            if pending.durable is not None:
                await pending.durable

    async def patiently(self, ask):  # type: ignore[no-untyped-def]
        while True:
            try:
                return await ask()
            except ConcurrentTransactions:
                await asyncio.sleep(0.01)

    async def check(self, services: Services) -> None:
        """Wait until no transaction is open, then hold what can be read against what was promised."""
        if any(services.topics.find(topic) is None for topic in TOPICS):
            assert not any(self.ends.values())
            return
        await asyncio.sleep(TIMEOUT_MS / 1000 + 1)
        seen = {place: await committed_values(services, place) for place in PLACES}
        for value, places in self.wrote.items():
            counts = {place: seen[place].count(value) for place in places}
            assert set(counts.values()) in ({0}, {2}), f"{value!r} is torn: {counts}"
            is_visible = set(counts.values()) == {2}
            end = self.ends[value]
            assert end is None or end is is_visible, f"{value!r} was promised {end}, but is visible: {is_visible}"
            # What one life showed or hid, the next must not change.
            assert is_visible or value not in self.shown
            assert not is_visible or value not in self.hidden_for_ever
            (self.shown if is_visible else self.hidden_for_ever).add(value)
        await self.check_offsets(services)

    async def check_offsets(self, services: Services) -> None:
        for name in WRITERS:
            committed = [
                offset for value, (group, offset) in self.offsets.items() if group == name and value in self.shown
            ]
            found = await services.groups.fetch_offsets(name, [TopicPartition("debit", 0)], require_stable=True)
            offsets = [one.offset for one in found.values()]
            assert offsets == committed[-1:], f"group {name} is at {offsets}, its transactions say {committed[-1:]}"


async def committed_values(services: Services, place: TopicPartition) -> list[bytes | None]:
    """All that a committed reader sees: batches of aborted producers are left out, as clients do."""
    values: list[bytes | None] = []
    offset = 0
    while True:
        query = FetchQuery([PartitionRead(*place, offset, 1 << 20)], 1 << 20, isolation=Isolation.READ_COMMITTED)
        (read,) = await services.fetch.fetch(query)
        assert read.error is None, read.error
        assert read.last_stable_offset == read.high_watermark, f"{place} has a transaction that nobody ends"
        if not read.batches:
            return values
        aborted = sorted(read.aborted, key=lambda one: one.first_offset)
        for batch in read.batches:
            header = parse_batch_header(batch)
            offset = header.last_offset + 1
            if header.is_control:
                continue
            is_aborted = any(
                one.producer_id == header.producer_id and one.first_offset <= header.base_offset <= one.last_offset
                for one in aborted
            )
            if not is_aborted:
                values += [record.value for record in decode_records(batch)]


def test_without_a_crash_every_transaction_ends_as_its_writer_was_told() -> None:
    for seed in seeds(4):
        world = live_in_peace(World, seed, lives=2)
        assert world.shown
        assert world.hidden_for_ever


def test_a_power_cut_at_any_step_tears_no_transaction() -> None:
    for seed in seeds(1):
        crash_at(World, seed, lambda steps: range(3, steps, 9))


def test_many_lives_in_a_row_tear_no_transaction() -> None:
    for seed in seeds(5):
        live_many_lives(World, seed, lives=5)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_power_cut_at_every_step_of_many_lives_tears_no_transaction() -> None:
    for seed in seeds(8):
        crash_at_every_step(World, seed)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_very_many_lives_tear_no_transaction() -> None:
    for seed in seeds(300):
        live_many_lives(World, seed, lives=8)
