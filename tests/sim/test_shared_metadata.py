"""Several nodes change one shared store of metadata over a network that loses, delays and repeats.

One seed decides everything. The model of the store keeps every transaction and is the judge: a commit
that was answered is in it exactly once, one that was refused is not, no update is lost, and every node
takes in the same transactions, each once and in order.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

import pytest

from goqueue.broker.arrivals.producer_ids import ProducerIds
from goqueue.errors import GoQueueError, GuardFailed, MetadataUnavailable
from goqueue.metadata.events import (
    Assignment,
    Delta,
    Event,
    PartitionsAdded,
    Topic,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
)
from goqueue.metadata.keys import partition_key, settings_key
from goqueue.metadata.shared.kv import KvError
from goqueue.metadata.shared.kv_lane import Lane
from goqueue.metadata.shared.kv_store import KvMetadata
from goqueue.metadata.store import Guard
from goqueue.testing.clock import seeded_rng
from goqueue.testing.kv_model import KvFaults, KvModel
from goqueue.testing.sim_loop import run

ONE = Assignment(leader=1, leader_epoch=0, replicas=(1,), isr=(1,))
# More partitions than a transaction holds: they are staged.
LARGE = 130
FAULTS = KvFaults(
    unavailable=0.05,
    lost_call=0.1,
    lost_reply=0.1,
    late=0.1,
    repeated=0.1,
    watch_broken=0.1,
    delay_s_max=0.02,
)


@dataclass
class History:
    """What the clients of the stores were told, with the instants of each call."""

    increments: int = 0
    unknown: int = 0
    blocks: list[int] = field(default_factory=list)
    committed: list[tuple[float, float, int]] = field(default_factory=list)


class Node:
    def __init__(self, store: KvMetadata, rng: Random, history: History) -> None:
        self.store = store
        self.rng = rng
        self.history = history
        self.opened_at = store.image.revision
        self.deltas: list[Delta] = []
        self.ids = ProducerIds(store, block_size=2)
        store.subscribe(self.deltas.append)

    async def live(self) -> None:
        for _ in range(12):
            await self.rng.choice([self.increment, self.allocate, self.create, self.grow, self.delete])()

    async def increment(self) -> None:
        """Raise a counter in the settings of a topic by one, under a guard: no raise may be lost or made twice."""
        while True:
            topic = self.store.image.topic("counter")
            assert topic is not None
            guard = Guard(settings_key(topic.topic_id), self.store.image.revision_of(settings_key(topic.topic_id)))
            config = {"count": str(int(topic.config["count"]) + 1)}
            try:
                await self.commit([TopicConfigChanged("counter", topic.topic_id, config)], [guard])
            except GuardFailed:
                continue
            except MetadataUnavailable:
                self.history.unknown += 1
                return
            self.history.increments += 1
            return

    async def allocate(self) -> None:
        try:
            self.history.blocks.append(await self.ids.allocate())
        except MetadataUnavailable:
            return

    async def create(self) -> None:
        name, topic_id = self.rng.choice("abc"), UUID(int=self.rng.getrandbits(120))
        count = self.rng.choice([2, LARGE])
        await self.tried([TopicCreated(Topic(name, topic_id, count), (ONE,) * count)])

    async def grow(self) -> None:
        topic = self.store.image.topic(self.rng.choice("abc"))
        if topic is not None:
            added = (ONE,) * self.rng.choice([2, LARGE, 2 * LARGE])
            await self.tried([PartitionsAdded(topic.name, topic.topic_id, topic.partition_count, added)])

    async def delete(self) -> None:
        topic = self.store.image.topic(self.rng.choice("abc"))
        if topic is not None:
            await self.tried([TopicDeleted(topic.name, topic.topic_id)])

    async def tried(self, events: list[Event]) -> None:
        try:
            await self.commit(events, [])
        except GoQueueError:
            return

    async def commit(self, events: list[Event], guards: list[Guard]) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        revision = await self.store.commit(events, guards)
        self.history.committed.append((begun, loop.time(), revision))
        assert self.store.image.revision >= revision


def key_of(delta: Delta) -> tuple[int, list[str]]:
    return delta.revision, sorted(repr(event) for event in delta.events)


async def story(seed: int, *, compacts: bool) -> None:
    model, history = KvModel(), History()
    founder = await KvMetadata.open(model.client(), prefix="/goqueue", rng=seeded_rng(seed, "founder"))
    judged: list[Delta] = []
    founder.subscribe(judged.append)
    await founder.commit([TopicCreated(Topic("counter", UUID(int=1), 1, config={"count": "0"}), (ONE,))])
    nodes = []
    for number in range(3):
        client = model.client(seeded_rng(seed, "network", number), FAULTS)
        store = await KvMetadata.open(client, prefix="/goqueue", rng=seeded_rng(seed, "store", number))
        nodes.append(Node(store, seeded_rng(seed, "node", number), history))
    lives = asyncio.gather(*(node.live() for node in nodes))
    while compacts and not lives.done():
        await asyncio.sleep(0.3)
        model.compact(model.revision - 5)
    await lives
    # What is late arrives, and everybody hears of it.
    await asyncio.sleep(5)
    await asyncio.gather(founder.catch_up(), *(node.store.catch_up() for node in nodes))
    check(model, history, founder, nodes, judged, compacts=compacts)
    for store in (founder, *(node.store for node in nodes)):
        await store.close()


def check(
    model: KvModel, history: History, founder: KvMetadata, nodes: list[Node], judged: list[Delta], *, compacts: bool
) -> None:
    topic = founder.image.topic("counter")
    assert topic is not None
    count = int(topic.config["count"])
    assert history.increments <= count <= history.increments + history.unknown
    assert len(set(history.blocks)) == len(history.blocks)
    # Nothing is left of creations that were refused, and nothing is missing of those that were made.
    partitions = {
        f"/goqueue{partition_key(known.topic_id, number)}"
        for known in founder.image.topics()
        for number in range(known.partition_count)
    }
    assert {key for key in model.pairs if key.startswith(("/goqueue/p/", "/goqueue/stage/"))} == partitions
    # Linearizable: what was answered before another call began has the lower revision, and none is answered twice.
    revisions = [revision for _, _, revision in history.committed]
    assert len(set(revisions)) == len(revisions)
    for _, ended, revision in history.committed:
        assert all(later > revision for begun, _, later in history.committed if begun > ended)
    for node in nodes:
        heard = [delta.revision for delta in node.deltas]
        assert heard == sorted(set(heard))
        if not compacts:
            expected = [key_of(delta) for delta in judged if delta.revision > node.opened_at]
            assert [key_of(delta) for delta in node.deltas] == expected
        assert node.store.image.topics() == founder.image.topics()
        assert node.store.image.deletions() == founder.image.deletions()
        assert node.store.image.next_producer_id == founder.image.next_producer_id
        for known in founder.image.topics():
            assert node.store.image.assignments(known.topic_id) == founder.image.assignments(known.topic_id)
            key = settings_key(known.topic_id)
            assert node.store.image.revision_of(key) == model.pairs[f"/goqueue{key}"].mod_revision


@pytest.mark.parametrize("seed", range(15))
def test_nodes_over_a_bad_network_lose_and_repeat_nothing(seed: int) -> None:
    run(story(seed, compacts=False), order=seeded_rng(seed, "order"))


@pytest.mark.parametrize("seed", range(5))
def test_nodes_that_fall_behind_compactions_agree_in_the_end(seed: int) -> None:
    run(story(seed, compacts=True), order=seeded_rng(seed, "order"))


def test_an_engine_that_takes_a_lost_reply_for_a_refusal_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks can fail: a change whose reply was lost is then made twice."""

    async def never_made(self: Lane, token: bytes | None) -> None:
        del token
        while True:
            with suppress(KvError):
                own = await self._kv.get(self._key)
                self._revision, self._is_known = 0 if own is None else own.mod_revision, True
                return

    monkeypatch.setattr(Lane, "_settle", never_made)
    assert any(is_found_out(seed) for seed in range(15))


def is_found_out(seed: int) -> bool:
    try:
        run(story(seed, compacts=False), order=seeded_rng(seed, "order"))
    except AssertionError:
        return True
    return False
