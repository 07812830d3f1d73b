"""A queue through power cuts and kills at any step: nothing lost, nothing after its durable ack, each death once.

The stated window: an ack that was not asked to be durable may be forgotten by a power cut within
the flush interval, and its message then comes again. A kill forgets nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import pytest
from tests.sim.stories import each_seed

from goqueue.broker.topics import NewTopic
from goqueue.config import Config, DeliveryConfig
from goqueue.delivery.values import Action, Delivery, Receive, Settlement
from goqueue.records import Acks, NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.clock import seeded_rng
from goqueue.testing.sim_node import SimNode

PLACES = [TopicPartition("t", 0), TopicPartition("t", 1)]
CONFIG = Config(delivery=DeliveryConfig(visibility_ms=2_000, retries_max=2, backoff_ms=200))
LIVES = 6
STEPS = 25
REJECT_STEPS = 80

At = tuple[int, int]


@dataclass
class History:
    """What clients know for certain."""

    rng: Random
    stored: set[At] = field(default_factory=set)
    # Acks that were sent: the power may go between what the node does and what it says.
    sent: set[At] = field(default_factory=set)
    acked: set[At] = field(default_factory=set)
    acked_for_good: set[At] = field(default_factory=set)
    seen: dict[At, int] = field(default_factory=dict)
    # Whether every delivery since the last power cut was seen by its consumer, and none was given back.
    counts_are_exact: bool = True
    held: list[Delivery] = field(default_factory=list)

    def delivered(self, found: Sequence[Delivery]) -> None:
        for one in found:
            at = (one.partition, one.offset)
            assert at not in self.acked_for_good, f"{at} was delivered after its ack was durable"
            before = self.seen.get(at, 0)
            if self.counts_are_exact:
                assert one.delivery_count == before + 1, f"{at} was delivered {before} times, not {one.delivery_count}"
                assert at not in self.acked, f"{at} was delivered after its ack"
            assert 1 <= one.delivery_count <= 3
            self.seen[at] = one.delivery_count
        self.held += found

    def power_was_cut(self) -> None:
        """What was not durable may be forgotten, and what nobody was told may have happened."""
        self.counts_are_exact = False
        self.held.clear()


class Client:
    """A consumer and producer of random habits, for one life."""

    def __init__(self, services: Services, history: History) -> None:
        self.services = services
        self.history = history
        self.rng = history.rng

    async def live(self) -> None:
        if self.services.topics.find("t") is None:
            await self.services.topics.create(NewTopic("t", 2))
        for _ in range(STEPS):
            await self.rng.choice([self.publish, self.receive, self.receive, self.settle, self.settle, self.wait])()

    async def publish(self) -> None:
        records = [
            NewRecord(b"%d" % self.rng.randrange(4), b"v", (("goqueue-priority", b"%d" % self.rng.randrange(5)),))
            for _ in range(self.rng.randint(1, 8))
        ]
        for one in await self.services.publish.publish_records("t", records, acks=Acks.ALL):
            assert one.error is None
            self.history.stored.add((one.partition, one.offset))

    async def receive(self) -> None:
        limit = self.rng.randint(1, 10)
        self.history.delivered(await self.services.delivery.receive(Receive("g", "c", PLACES, limit)))

    async def settle(self) -> None:
        if not self.history.held:
            return
        chosen = self.rng.sample(self.history.held, self.rng.randint(1, len(self.history.held)))
        durable = self.rng.random() < 0.5
        actions = [self.rng.choice([Action.ACK, Action.ACK, Action.NACK, Action.REJECT, Action.EXTEND]) for _ in chosen]
        self.history.sent |= {
            (one.partition, one.offset) for one, action in zip(chosen, actions, strict=True) if action is Action.ACK
        }
        results = await self.services.delivery.settle(
            [Settlement(one.receipt, action) for one, action in zip(chosen, actions, strict=True)], durable=durable
        )
        for one, action, result in zip(chosen, actions, results, strict=True):
            if result.error is None and action is Action.ACK:
                at = (one.partition, one.offset)
                self.history.acked.add(at)
                if durable:
                    self.history.acked_for_good.add(at)
        answered = {one.receipt for one, action in zip(chosen, actions, strict=True) if action is not Action.EXTEND}
        self.history.held = [one for one in self.history.held if one.receipt not in answered]

    async def wait(self) -> None:
        await asyncio.sleep(self.rng.choice([0.01, 0.5, 2.1, 5]))


async def dead_letters(services: Services) -> list[At]:
    if services.topics.find("t.dlq") is None:
        return []
    places = {TopicPartition("t.dlq", number): 0 for number in range(2)}
    read = await services.reads.read(places, limit=10_000, max_bytes=2**24)
    return [
        (int(said["goqueue-dlq-partition"] or b""), int(said["goqueue-dlq-offset"] or b""))
        for one in read.values()
        for record in one.records
        for said in [dict(record.headers)]
    ]


async def drain(services: Services, history: History) -> None:
    """Acknowledge whatever still comes, and wait until nothing is outstanding."""
    history.held.clear()
    for _ in range(200):
        found = await services.delivery.receive(Receive("g", "d", PLACES, 100, wait_ms=3_000))
        for one in found:
            assert (one.partition, one.offset) not in history.acked_for_good
        await services.delivery.settle([Settlement(one.receipt, Action.ACK) for one in found], durable=True)
        history.sent |= {(one.partition, one.offset) for one in found}
        stats = await services.delivery.stats()
        if not found and not (stats.in_flight or stats.waiting or stats.dying):
            break
    dead = await dead_letters(services)
    assert len(dead) == len(set(dead)), "a dead letter came twice"
    assert not history.stored - history.sent - set(dead), "messages were lost"
    assert not history.acked_for_good & set(dead), "an acknowledged message died"
    ends = await services.delivery.positions.committed("g", PLACES)
    assert all(ends[at] == services.queries.offsets(*at).end_offset for at in ends)


@pytest.mark.parametrize("seed", each_seed(30))
def test_a_queue_survives_power_cuts_at_random_steps(seed: int) -> None:
    node = SimNode(seed, CONFIG)
    history = History(seeded_rng(seed, "client"))
    for _ in range(LIVES):
        crash_at = history.rng.choice([None, history.rng.randint(1, 200)])
        is_killed = history.rng.random() < 0.5
        if not node.live(
            lambda services: Client(services, history).live(), crash_at_step=crash_at, is_killed=is_killed
        ):
            history.power_was_cut()
    assert node.live(lambda services: drain(services, history))


@pytest.mark.parametrize("seed", each_seed(10))
def test_a_queue_survives_kills_with_exact_counts(seed: int) -> None:
    node = SimNode(seed, CONFIG)
    history = History(seeded_rng(seed, "client"))
    for _ in range(LIVES):
        assert node.live(lambda services: Client(services, history).live(), is_killed=history.rng.random() < 0.7)
    assert history.counts_are_exact
    assert node.live(lambda services: drain(services, history))


@pytest.mark.parametrize("seed", each_seed(60))
def test_a_rejected_message_dies_exactly_once_wherever_the_power_goes(seed: int) -> None:
    node = SimNode(seed, CONFIG)
    history = History(seeded_rng(seed, "client"))

    async def prepare(services: Services) -> None:
        await services.topics.create(NewTopic("t", 2))
        for one in await services.publish.publish_records(
            "t", [NewRecord(b"%d" % n, b"v") for n in range(6)], acks=Acks.ALL
        ):
            history.stored.add((one.partition, one.offset))

    async def reject(services: Services) -> None:
        found = await services.delivery.receive(Receive("g", "c", PLACES, 10))
        await services.delivery.settle([Settlement(one.receipt, Action.REJECT) for one in found])
        await asyncio.sleep(1)

    assert node.live(prepare)
    # Seeds in a row are spread over all steps of a life that is no shorter.
    assert not node.live(reject, crash_at_step=1 + 3 * seed % REJECT_STEPS)
    history.power_was_cut()
    assert node.live(lambda services: drain(services, history))
