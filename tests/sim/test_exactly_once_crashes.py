"""Transactions that take from a queue, reject, write and delay: all of it becomes true together, or nothing does.

The power is cut at any step of the disk. A transaction shows by its plain record whether it happened; then its acked
jobs are done, its rejected jobs lie among the dead letters, and its delayed message has come: each once. If it did not
happen its jobs come again and nothing else is ever seen of it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

import pytest
from tests.sim.stories import crash_at, crash_at_every_step, live_in_peace, live_many_lives, seeds
from tests.sim.test_transaction_crashes import CONFIG as TRANSACTIONS_CONFIG
from tests.sim.test_transaction_crashes import committed_values

from goqueue.broker.arrivals.arrival import Facts
from goqueue.broker.topics import NewTopic
from goqueue.codec.batch_encode import encode_batch
from goqueue.config import DelayConfig, DeliveryConfig
from goqueue.coordinator.shard import Transaction
from goqueue.delivery.values import Action, Delivery, Receive, Settlement
from goqueue.errors import ConcurrentTransactions, NotLeader
from goqueue.records import Acks, NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.clock import seeded_rng
from goqueue.testing.sim_node import SimNode
from goqueue.transactions.commands import Producer

CONFIG = replace(
    TRANSACTIONS_CONFIG,
    delay=DelayConfig(),
    # Nobody dies of too many deliveries here: only a rejection makes a dead letter.
    delivery=DeliveryConfig(visibility_ms=1_000, retries_max=1_000),
)
JOBS, LETTERS = "jobs", "jobs.dlq"
# One whose messages say by themselves when they are due, and one where the sender says it.
OUT = {"out": {}, "timed": {"goqueue.delay.headers": "true"}}
JOB_PLACES = [TopicPartition(JOBS, number) for number in range(2)]
OUT_PLACES = [TopicPartition(topic, number) for topic in OUT for number in range(2)]
WORKERS = ("one", "two", "three")
TIMEOUT_MS = 2_000
DELAY_MS_MAX = 300


@dataclass
class Piece:
    """One transaction: what it would do, and how its worker was told that it ended."""

    acked: set[bytes] = field(default_factory=set)
    rejected: set[bytes] = field(default_factory=set)
    is_delayed: bool = False
    end: bool | None = None


class World:
    """A node, its workers, and what they were promised, over all lives."""

    def __init__(self, seed: int) -> None:
        self.node = SimNode(seed, CONFIG)
        self.pieces: dict[bytes, Piece] = {}
        self.jobs: set[bytes] = set()
        # Jobs that the look at the end of a life took and acknowledged by themselves.
        self.drained: set[bytes] = set()
        # Jobs whose ack was on its way when the power went: it counts, or the job is delivered again.
        self.unanswered: set[bytes] = set()
        self.count = 0

    async def work(self, services: Services) -> None:
        for topic, config in {JOBS: {}, **OUT}.items():
            if services.topics.find(topic) is None:
                await services.topics.create(NewTopic(topic, config=config))
        rng = seeded_rng(self.node.seed, self.node.lives, "workers")
        await self.feed(services)
        await asyncio.gather(*(self.take_turns(services, name, Random(rng.getrandbits(64))) for name in WORKERS))

    async def feed(self, services: Services) -> None:
        records = []
        for _ in range(12):
            self.count += 1
            records.append(NewRecord(None, b"job %d" % self.count))
        results = await services.publish.publish_records(JOBS, records, acks=Acks.ALL)
        assert all(one.error is None for one in results)
        self.jobs |= {one.value for one in records if one.value}

    async def take_turns(self, services: Services, name: str, rng: Random) -> None:
        transactions = services.transactions
        producer = await transactions.init_producer(name, timeout_ms=TIMEOUT_MS)
        sequences = dict.fromkeys(OUT_PLACES, 0)
        for _ in range(3):
            self.count += 1
            value = b"%s %d" % (name.encode(), self.count)
            piece = self.pieces[value] = Piece()
            while True:
                try:
                    number = await transactions.begin(name, producer)
                    break
                except ConcurrentTransactions:
                    await asyncio.sleep(0.01)
            await self.settle(services, name, producer, number, piece, rng)
            await self.send(services, name, producer, number, sequences, value, piece, rng)
            await asyncio.sleep(rng.random() * 0.2)
            choice = rng.random()
            if choice < 0.1:
                return  # gone: its transaction must end by itself
            commit = choice < 0.7
            await transactions.end(name, producer, commit=commit, number=number)
            piece.end = commit

    async def settle(
        self, services: Services, name: str, producer: Producer, number: int, piece: Piece, rng: Random
    ) -> None:
        found = await services.delivery.receive(Receive("g", name, JOB_PLACES, rng.randrange(1, 4)))
        rejects = rng.random() < 0.4
        (piece.rejected if rejects else piece.acked).update(one.value or b"" for one in found)
        receipts = [one.receipt for one in found]
        if not receipts:
            return
        places = services.delivery.places_of(receipts)
        await services.transactions.take_part(name, producer, places, number=number)
        transaction = Transaction(producer.producer_id, producer.epoch)
        await services.delivery.promise(receipts, transaction, rejected=rejects, reason="bad")

    async def send(
        self,
        services: Services,
        name: str,
        producer: Producer,
        number: int,
        sequences: dict[TopicPartition, int],
        value: bytes,
        piece: Piece,
        rng: Random,
    ) -> None:
        """A plain record, and mostly a delayed one in the same batch; sometimes the batch is sent again."""
        place = rng.choice(OUT_PLACES)
        piece.is_delayed = rng.random() < 0.8
        delay_ms = rng.randrange(1, DELAY_MS_MAX)
        assert not await services.transactions.add_partitions(name, producer, [place], number=number)
        records, dues = [NewRecord(None, value + b" now")], [None]
        if piece.is_delayed and place.topic == "timed":
            records.append(NewRecord(None, value + b" later", (("goqueue-delay-ms", b"%d" % delay_ms),)))
            dues = None
        elif piece.is_delayed:
            await services.staging.load(place)
            records.append(NewRecord(None, value + b" later"))
            dues = [None, services.clock.now_ms() + delay_ms]
        sequence = sequences[place]
        sequences[place] += len(records)
        for _ in range(rng.choice([1, 1, 2])):
            await self.append(services, place, producer, sequence, records, dues)

    async def append(
        self,
        services: Services,
        place: TopicPartition,
        producer: Producer,
        sequence: int,
        records: Sequence[NewRecord],
        dues: Sequence[int | None] | None,
    ) -> None:
        batch = encode_batch(
            records,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
            transactional=True,
            now_ms=services.clock.now_ms(),
        )
        while True:
            try:
                pending = services.publish.append(*place, batch, acks=Acks.ALL, facts=Facts(dues=dues))
                break
            except NotLeader:
                await asyncio.sleep(0.01)
        if pending.durable is not None:
            await pending.durable

    async def check(self, services: Services) -> None:
        """Wait until no transaction is open and nothing is due, then hold what is there against what was promised."""
        if any(services.topics.find(topic) is None for topic in (JOBS, *OUT)):
            assert not any(piece.end for piece in self.pieces.values())
            return
        await asyncio.sleep((TIMEOUT_MS + DELAY_MS_MAX) / 1000 + 2)
        await self.drain(services)
        seen = Counter([value for place in OUT_PLACES for value in await committed_values(services, place)])
        letters = await self.letters(services)
        assert not set(letters.values()) - {1}, f"a dead letter came twice: {letters}"
        acked, rejected = Counter[bytes](), Counter[bytes]()
        for value, piece in self.pieces.items():
            shown = seen[value + b" now"]
            assert shown in {0, 1}, f"{value!r} is there {shown} times"
            assert piece.end is None or piece.end is bool(shown), f"{value!r} was promised {piece.end}: {shown}"
            later = seen[value + b" later"]
            assert later == (shown and piece.is_delayed), f"{value!r} is there {shown} times, its delayed one {later}"
            if shown:
                acked.update(piece.acked)
                rejected.update(piece.rejected)
        done = [*acked.elements(), *rejected.elements(), *self.drained]
        assert len(done) == len(set(done)), "a job was done twice"
        lost = self.jobs - set(done) - self.unanswered
        assert not lost, f"jobs were lost: {lost}"
        assert set(letters) == set(rejected), "the dead letters are not the rejected jobs"
        assert services.delay.stats().pending.get("out", 0) == 0

    async def drain(self, services: Services) -> None:
        """Take and acknowledge every job that nobody holds any more."""
        for _ in range(100):
            found: Sequence[Delivery] = await services.delivery.receive(
                Receive("g", "drain", JOB_PLACES, 100, wait_ms=2_000)
            )
            if not found:
                return
            taken = {one.value or b"" for one in found}
            assert not taken & self.drained, f"{taken & self.drained} came again after a durable ack"
            self.unanswered |= taken
            for result in await services.delivery.settle(
                [Settlement(one.receipt, Action.ACK) for one in found], durable=True
            ):
                assert result.error is None, result.error
            self.unanswered -= taken
            self.drained |= taken
        raise AssertionError("the queue does not run empty")

    async def letters(self, services: Services) -> Counter[bytes]:
        if services.topics.find(LETTERS) is None:
            return Counter()
        places = {TopicPartition(LETTERS, number): 0 for number in range(2)}
        read = await services.reads.read(places, limit=10_000, max_bytes=2**24)
        return Counter([record.value or b"" for one in read.values() for record in one.records])


def test_without_a_crash_all_of_a_transaction_becomes_true_or_nothing() -> None:
    for seed in seeds(4):
        world = live_in_peace(World, seed, lives=2)
        ended = [piece.end for piece in world.pieces.values()]
        assert True in ended
        assert False in ended
        assert any(piece.end and piece.is_delayed and piece.rejected for piece in world.pieces.values())


def test_a_power_cut_at_any_step_makes_no_part_of_a_transaction_true() -> None:
    for seed in seeds(1):
        crash_at(World, seed, lambda steps: range(3, steps, 9))


def test_many_lives_in_a_row_make_no_part_of_a_transaction_true() -> None:
    for seed in seeds(5):
        live_many_lives(World, seed, lives=5)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_power_cut_at_every_step_of_many_lives_makes_no_part_of_a_transaction_true() -> None:
    for seed in seeds(8):
        crash_at_every_step(World, seed)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_very_many_lives_make_no_part_of_a_transaction_true() -> None:
    for seed in seeds(300):
        live_many_lives(World, seed, lives=8)
