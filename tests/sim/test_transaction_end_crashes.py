"""One transaction with sends, an ack, a rejection and delayed sends; its coordinator dies at each step of ending it.

The transaction is whole when it is ended. From then on the power is cut at one step of the disk after the other: while
the decision is written, while partitions get staged messages, promises and markers, while delayed messages fire and
while the rejected job moves to the dead letters. The client repeats its call in the next life, which may be cut too.
In the end everything of a committed transaction is there once, and nothing of an aborted one.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.sim.stories import each_seed
from tests.sim.test_transaction_crashes import CONFIG as TRANSACTIONS_CONFIG
from tests.sim.test_transaction_crashes import committed_values

from goqueue.broker.arrivals.arrival import Facts
from goqueue.broker.topics import NewTopic
from goqueue.codec.batch_encode import encode_batch
from goqueue.config import DelayConfig, DeliveryConfig
from goqueue.coordinator.shard import Transaction
from goqueue.delivery.values import Action, Receive, Settlement
from goqueue.errors import NotLeader
from goqueue.records import Acks, NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.clock import seeded_rng
from goqueue.testing.disk import Survival
from goqueue.testing.sim_node import SimNode
from goqueue.transactions.commands import Producer

VISIBILITY_MS = 30_000
CONFIG = replace(
    TRANSACTIONS_CONFIG,
    delay=DelayConfig(),
    delivery=DeliveryConfig(visibility_ms=VISIBILITY_MS, retries_max=1_000),
)
JOBS, LETTERS = TopicPartition("jobs", 0), TopicPartition("jobs.dlq", 0)
# Messages of one say by themselves when they are due; of the other, the sender says it.
TIMED, OUT = TopicPartition("timed", 0), TopicPartition("out", 0)
DELAY_MS = 200
WHOLE = Counter([b"now", b"later by header", b"later"])


class World:
    """A node, and a client that has one transaction."""

    def __init__(self, seed: int, *, commit: bool) -> None:
        self.node = SimNode(seed, CONFIG)
        self.commit = commit
        self.producer = Producer(0, 0)
        self.number = 0

    async def prepare(self, services: Services) -> None:
        """Everything of the transaction but its end, and a job that it has nothing to do with."""
        for topic, config in (("jobs", {}), ("out", {}), ("timed", {"goqueue.delay.headers": "true"})):
            await services.topics.create(NewTopic(topic, 1, config=config))
        jobs = [NewRecord(None, value) for value in (b"acked", b"rejected", b"left")]
        assert all(one.error is None for one in await services.publish.publish_records("jobs", jobs, acks=Acks.ALL))
        transactions = services.transactions
        self.producer = producer = await transactions.init_producer("tx", timeout_ms=800_000)
        self.number = number = await transactions.begin("tx", producer)
        found = {one.value: one.receipt for one in await services.delivery.receive(Receive("g", "c", [JOBS], 3))}
        receipts = [found[b"acked"], found[b"rejected"]]
        await transactions.take_part("tx", producer, services.delivery.places_of(receipts), number=number)
        transaction = Transaction(producer.producer_id, producer.epoch)
        await services.delivery.promise(receipts[:1], transaction)
        await services.delivery.promise(receipts[1:], transaction, rejected=True, reason="bad")
        assert not await transactions.add_partitions("tx", producer, [TIMED, OUT], number=number)
        by_header = (("goqueue-delay-ms", b"%d" % DELAY_MS),)
        await self.send(
            services, TIMED, [NewRecord(None, b"now"), NewRecord(None, b"later by header", by_header)], None
        )
        await services.staging.load(OUT)
        await self.send(services, OUT, [NewRecord(None, b"later")], [services.clock.now_ms() + DELAY_MS])

    async def send(
        self,
        services: Services,
        place: TopicPartition,
        records: Sequence[NewRecord],
        dues: Sequence[int | None] | None,
    ) -> None:
        batch = encode_batch(
            records,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            base_sequence=0,
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

    async def end(self, services: Services) -> None:
        """End it, and stay until all that follows from that has happened."""
        await services.transactions.end("tx", self.producer, commit=self.commit, number=self.number)
        async with asyncio.timeout(20):
            # Virtual time: nobody waits.
            while services.transactions.ending_count or (await services.delivery.stats()).dying:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await asyncio.sleep(3 * DELAY_MS / 1000)

    async def check(self, services: Services) -> None:
        """The client repeats its call in each life, and is told the same."""
        await self.end(services)
        await asyncio.sleep(VISIBILITY_MS / 1000)
        seen = Counter([*await committed_values(services, TIMED), *await committed_values(services, OUT)])
        assert seen == (WHOLE if self.commit else Counter())
        letters: list[bytes | None] = []
        if services.topics.find(LETTERS.topic) is not None:
            found = await services.reads.read({LETTERS: 0}, limit=9, max_bytes=9999)
            letters += [one.value for one in found[LETTERS].records]
        assert letters == ([b"rejected"] if self.commit else [])
        expected = [b"left"] if self.commit else [b"acked", b"left", b"rejected"]
        came = await services.delivery.receive(Receive("g", "drain", [JOBS], 10))
        assert sorted(one.value or b"" for one in came) == expected
        settled = await services.delivery.settle([Settlement(one.receipt, Action.ACK) for one in came], durable=True)
        assert all(one.error is None for one in settled)
        assert not any(services.delay.stats().pending.values())
        assert (await services.delivery.stats()).dying == 0


def crash_at(step: int, survival: Survival, *, commit: bool, seed: int | None = None) -> bool:
    """A coordinator that dies at this step of ending the transaction. False: it has no such step."""
    world = World(step if seed is None else seed, commit=commit)
    node = world.node
    assert node.live(world.prepare, is_killed=True)
    crashed = not node.live(world.end, crash_at_step=step, survival=survival)
    if crashed and step % 2:
        # Its successor dies while it goes on.
        node.live(world.end, crash_at_step=step // 2 + 5, survival=survival)
    assert node.live(world.check), f"after a cut at step {step}"
    return crashed


def test_a_coordinator_that_dies_while_it_ends_a_transaction_ends_all_of_it_once() -> None:
    survivals = list(Survival)
    for step in (7, 40, 64):
        assert crash_at(step, survivals[step % len(survivals)], commit=True)
    assert crash_at(52, survivals[0], commit=False)
    assert not crash_at(10_000, survivals[0], commit=True)


@pytest.mark.parametrize("seed", each_seed(5))
def test_a_coordinator_may_die_whatever_the_order_of_events(seed: int) -> None:
    rng = seeded_rng(seed, "cut")
    crash_at(rng.randrange(1, 90), rng.choice(list(Survival)), commit=rng.random() < 0.7, seed=seed)


@pytest.mark.slow
@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("survival", list(Survival), ids=str)
def test_a_coordinator_may_die_at_each_step_of_ending_a_transaction(survival: Survival, *, commit: bool) -> None:
    step = 1
    while crash_at(step, survival, commit=commit):
        step += 1
    assert step > 60
