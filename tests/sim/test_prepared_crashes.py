"""Prepared transactions in simulation: the power is cut at any step, and each epoch is there once or not at all.

Writers behave as Spark does: an epoch whose commit was not answered is written again by new attempts.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from random import Random

import pytest
from tests.sim.stories import crash_at, crash_at_every_step, live_in_peace, live_many_lives, seeds
from tests.sim.test_transaction_crashes import CONFIG, PLACES, TOPICS, committed_values

from goqueue.broker.topics import NewTopic
from goqueue.codec.batch_encode import encode_batch
from goqueue.config import TransactionsConfig
from goqueue.records import Acks, NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.clock import seeded_rng
from goqueue.testing.sim_node import SimNode
from goqueue.transactions.commands import Claim, Producer

TIMEOUT_MS = 2_000
WRITERS = ("one", "two")
PREPARED_CONFIG = replace(CONFIG, transactions=TransactionsConfig(state_partitions=2, prepared_timeout_ms=TIMEOUT_MS))


@dataclass
class Attempt:
    """One attempt at one epoch: what its tasks wrote, and which of them count."""

    writer: str
    epoch: int
    wrote: dict[bytes, set[TopicPartition]]
    counted: set[bytes]


class World:
    """A node, the writers of epochs, and what they were promised, over all lives."""

    def __init__(self, seed: int) -> None:
        self.node = SimNode(seed, PREPARED_CONFIG)
        self.attempts: list[Attempt] = []
        self.done = dict.fromkeys(WRITERS, -1)
        self.shown: set[bytes] = set()

    async def work(self, services: Services) -> None:
        for topic in TOPICS:
            if services.topics.find(topic) is None:
                await services.topics.create(NewTopic(topic))
        rng = seeded_rng(self.node.seed, self.node.lives, "writers")
        await asyncio.gather(*(self.write(services, name, Random(rng.getrandbits(64))) for name in WRITERS))

    async def write(self, services: Services, writer: str, rng: Random) -> None:
        for _ in range(4):
            epoch = self.done[writer] + 1
            counted = await self.stage_all(services, writer, epoch, rng)
            await asyncio.sleep(rng.random() * 0.05)
            if counted is not None and rng.random() < 0.2:
                await services.transactions.decide_epoch(writer, epoch, commit=False)
                continue
            for _ in range(rng.randrange(1, 3)):
                await services.transactions.decide_epoch(writer, epoch, commit=True, claims=counted or ())
            self.done[writer] = epoch

    async def stage_all(self, services: Services, writer: str, epoch: int, rng: Random) -> list[Claim] | None:
        """Two tasks, and one more whose work does not count; None if the epoch turns out to be done."""
        number = len(self.attempts)
        attempt = Attempt(writer, epoch, {}, set())
        self.attempts.append(attempt)
        claims = []
        for task in range(3):
            producer = await services.transactions.open_participant(writer, epoch, f"{task}-{number}")
            if producer is None:
                return None
            value = f"{writer}/{epoch}/{task}-{number}".encode()
            attempt.wrote[value] = set(rng.sample(PLACES, rng.randrange(1, 4)))
            if task < 2:
                attempt.counted.add(value)
                claims.append(Claim(f"{task}-{number}", producer))
            await asyncio.gather(*(stage(services, producer, place, value) for place in attempt.wrote[value]))
        return claims

    async def check(self, services: Services) -> None:
        """Wait until nothing is staged, then hold what can be read against what was promised."""
        if any(services.topics.find(topic) is None for topic in TOPICS):
            assert set(self.done.values()) == {-1}
            return
        await asyncio.sleep(TIMEOUT_MS / 1000 + 1)
        seen = {place: await committed_values(services, place) for place in PLACES}
        shown: dict[tuple[str, int], list[Attempt]] = {}
        for attempt in self.attempts:
            visible = set()
            for value, places in attempt.wrote.items():
                counts = {place: seen[place].count(value) for place in places}
                assert set(counts.values()) in ({0}, {2}), f"{value!r} is torn: {counts}"
                if set(counts.values()) == {2}:
                    visible.add(value)
            assert visible in (set(), attempt.counted), f"only {visible} of {attempt} is visible"
            if visible:
                shown.setdefault((attempt.writer, attempt.epoch), []).append(attempt)
        assert all(len(attempts) == 1 for attempts in shown.values()), f"an epoch is there twice: {shown}"
        for writer, newest in self.done.items():
            assert all((writer, epoch) in shown for epoch in range(newest + 1)), f"an epoch of {writer} is lost"
        # What one life showed, the next must not take away.
        values = {value for attempts in shown.values() for one in attempts for value in one.counted}
        assert values >= self.shown
        self.shown = values


async def stage(services: Services, producer: Producer, place: TopicPartition, value: bytes) -> None:
    gate = services.transactions.admit(producer, [place])
    if gate is not None:
        await asyncio.shield(gate)
    batch = encode_batch(
        [NewRecord(None, value), NewRecord(None, value)],
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=0,
        transactional=True,
        now_ms=services.clock.now_ms(),
    )
    pending = services.publish.append(*place, batch, acks=Acks.ALL)
    if pending.durable is not None:
        await pending.durable


def test_without_a_crash_every_epoch_is_there_once() -> None:
    for seed in seeds(4):
        assert live_in_peace(World, seed, lives=2).shown


def test_a_power_cut_at_any_step_tears_no_epoch() -> None:
    for seed in seeds(1):
        crash_at(World, seed, lambda steps: range(3, steps, 9))


def test_many_lives_in_a_row_tear_no_epoch() -> None:
    for seed in seeds(5):
        live_many_lives(World, seed, lives=5)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_power_cut_at_every_step_of_many_lives_tears_no_epoch() -> None:
    for seed in seeds(8):
        crash_at_every_step(World, seed)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_very_many_lives_tear_no_epoch() -> None:
    for seed in seeds(300):
        live_many_lives(World, seed, lives=8)
