"""Delay by record header in simulation, from a client with several batches on their way, over kills and power cuts.

One seed decides everything: `GOQUEUE_SIM_SEED=7 pytest tests/sim/test_delay_pipelined.py` plays seed 7 alone.
"""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from tests.sim.stories import each_seed

from goqueue.broker.topics import NewTopic
from goqueue.codec.batch_encode import encode_batch
from goqueue.config import Config, DelayConfig, DurabilityConfig, LogConfig
from goqueue.errors import NotLeader
from goqueue.records import Acks, NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.clock import seeded_rng
from goqueue.testing.disk import Survival
from goqueue.testing.sim_node import SimNode

CONFIG = Config(
    log=LogConfig(segment_bytes=2048, index_interval_bytes=128, retention_ms=-1, retention_check_ms=100),
    delay=DelayConfig(),
    durability=DurabilityConfig(flush_interval_ms=40, checkpoint_interval_ms=150),
)
PARTITIONS = 2
BATCHES = 10
IN_FLIGHT_MAX = 5
DELAY_MS_MAX = 300


class Client:
    """An idempotent producer: whatever happens, it sends the same batches under the same sequences, in order."""

    def __init__(self, seed: int, partition: int) -> None:
        self.partition = partition
        self.names: list[bytes] = []
        self._rng = seeded_rng(seed, "client", partition)
        self._records: list[list[NewRecord]] = []
        self._answered = 0

    async def work(self, services: Services, rng: Random) -> None:
        while self._answered < BATCHES:
            answers: list[asyncio.Future[None] | None] = []
            for number in range(self._answered, min(self._answered + rng.randrange(1, IN_FLIGHT_MAX + 1), BATCHES)):
                answers.append(self._send(services, number))
                await asyncio.sleep(rng.choice([0, 0, 0.001, 0.02]))
            for answer in answers:
                # Those behind one that was refused are sent again with it.
                if answer is None:
                    await asyncio.sleep(0.01)
                    break
                await answer
                self._answered += 1

    def _send(self, services: Services, number: int) -> asyncio.Future[None] | None:
        now_ms = services.clock.now_ms()
        if number == len(self._records):
            self._records.append([self._record(now_ms) for _ in range(3)])
        batch = encode_batch(
            self._records[number], producer_id=7, producer_epoch=0, base_sequence=3 * number, now_ms=now_ms
        )
        try:
            pending = services.publish.append("t", self.partition, batch, acks=Acks.ALL)
        except NotLeader:
            return None
        return asyncio.ensure_future(pending.durable if pending.durable is not None else asyncio.sleep(0))

    def _record(self, now_ms: int) -> NewRecord:
        name = b"%d-%d" % (self.partition, len(self.names))
        self.names.append(name)
        due_ms = now_ms + self._rng.randrange(DELAY_MS_MAX)
        header = self._rng.choice(
            [
                ("goqueue-deliver-at", b"%d" % due_ms),
                ("goqueue-delay-ms", b"%d" % (due_ms - now_ms)),
                ("plain", b""),
            ]
        )
        return NewRecord(None, name, (header,))


@pytest.mark.parametrize("survival", [Survival.EVERYTHING, None], ids=["kills", "power cuts"])
@pytest.mark.parametrize("seed", each_seed(40))
def test_batches_that_are_sent_again_in_order_are_never_refused_and_their_messages_come_once(
    seed: int, survival: Survival | None
) -> None:
    node = SimNode(seed, CONFIG)
    clients = [Client(seed, partition) for partition in range(PARTITIONS)]

    async def story(services: Services) -> None:
        if services.topics.find("t") is None:
            config = {"goqueue.delay.headers": "true"}
            await services.topics.create(NewTopic("t", partitions=PARTITIONS, config=config))
        rng = seeded_rng(seed, node.lives, "timing")
        await asyncio.gather(*(client.work(services, Random(rng.getrandbits(64))) for client in clients))

    async def check(services: Services) -> None:
        await story(services)
        await asyncio.sleep(3)
        places = {TopicPartition("t", client.partition): 0 for client in clients}
        found = await services.reads.read(places, limit=1000, max_bytes=10**6)
        names = sorted(record.value or b"" for one in found.values() for record in one.records)
        assert names == sorted(name for client in clients for name in client.names)

    rng = seeded_rng(seed, "cuts")
    for _ in range(6):
        node.live(story, crash_at_step=rng.randrange(3, 120), survival=survival)
        node.clock.advance(ms=rng.choice([0, 50, 500]))
    assert node.live(check)
