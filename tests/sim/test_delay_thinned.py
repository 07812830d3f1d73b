"""A batch of which some records are delayed, sent again after a power cut at each step: every message comes once.

The slots of one batch are written to the delay log in several parts here, so that a cut may leave some of them.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from tests.sim.stories import each_seed
from tests.sim.test_delay_headers import CONFIG, send_batch

from goqueue.broker.topics import NewTopic
from goqueue.codec.batch_encode import encode_batch
from goqueue.codec.compression import Codec
from goqueue.records import NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.clock import seeded_rng
from goqueue.testing.disk import Survival
from goqueue.testing.sim_node import SimNode

PLACE = TopicPartition("t", 0)
RECORDS = 9
BATCHES = 2


def name(batch: int, at: int) -> bytes:
    return b"%s %d/%d" % (b"now" if at % 3 == 0 else b"late", batch, at)


EVERYTHING = Counter(name(batch, at) for batch in range(BATCHES) for at in range(RECORDS))


class World:
    """A client that sends its batches until each is answered, over all lives."""

    def __init__(self, seed: int) -> None:
        self.node = SimNode(seed, CONFIG)
        self.answered = 0

    async def work(self, services: Services) -> None:
        if services.topics.find("t") is None:
            await services.topics.create(NewTopic("t", 1, config={"goqueue.delay.headers": "true"}))
        while self.answered < BATCHES:
            await send_batch(services, self.batch(services, self.answered))
            self.answered += 1

    def batch(self, services: Services, number: int) -> bytes:
        late = (("goqueue-delay-ms", b"300"),)
        records = [NewRecord(None, name(number, at), () if at % 3 == 0 else late) for at in range(RECORDS)]
        return encode_batch(
            records,
            codec=Codec.GZIP if number else Codec.NONE,
            producer_id=7,
            producer_epoch=0,
            base_sequence=RECORDS * number,
            now_ms=services.clock.now_ms(),
        )

    async def finish(self, services: Services) -> None:
        """Send what is left, and look at what comes."""
        await self.work(services)
        await asyncio.sleep(5)
        found = await services.reads.read({PLACE: 0}, limit=1000, max_bytes=10**6)
        assert Counter(one.value for one in found[PLACE].records) == EVERYTHING
        assert services.delay.stats().pending == {"t": 0}


@pytest.mark.parametrize("survival", list(Survival), ids=str)
def test_every_message_of_a_batch_sent_again_comes_once_wherever_the_power_goes(
    survival: Survival, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goqueue.delay.service.BATCH_RECORDS_MAX", 2)
    step, crashed = 0, True
    while crashed:
        step += 1
        # One seed for all steps: the life before the cut is the same, so that no step is left out.
        world = World(1)
        crashed = not world.node.live(world.work, crash_at_step=step, survival=survival)
        if crashed and step % 2:
            # Another life in between, which dies while it sends again.
            world.node.live(world.work, crash_at_step=step // 2 + 5, survival=survival)
        assert world.node.live(world.finish), f"after a cut at step {step}"
    assert step > 30


@pytest.mark.parametrize("seed", each_seed(20))
def test_every_message_comes_once_though_time_passes_between_cuts(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was for later may be due when its batch is sent again, or delivered already."""
    monkeypatch.setattr("goqueue.delay.service.BATCH_RECORDS_MAX", 2)
    world, rng = World(seed), seeded_rng(seed, "cuts")
    for _ in range(5):
        world.node.live(world.work, crash_at_step=rng.randrange(1, 80))
        world.node.clock.advance(ms=rng.choice([0, 50, 400, 5_000]))
    assert world.node.live(world.finish)
