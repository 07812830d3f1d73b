"""A topic that is deleted while its log is being synced, and made again at once."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random

import pytest

from goqueue.broker.topics import NewTopic
from goqueue.config import Config, DurabilityConfig
from goqueue.errors import GoQueueError
from goqueue.log.state.checkpoint import stored_topic_id
from goqueue.node.assemble import assemble
from goqueue.records import Acks, NewRecord
from goqueue.testing.clock import ManualClock, seeded_rng
from goqueue.testing.memory_files import MemoryFiles
from goqueue.testing.sim_loop import DelayedOffload, run

SETTINGS = Config(durability=DurabilityConfig(flush_interval_ms=4))
SMALL_SEGMENTS = {"segment.bytes": "1024"}


# In some of these a round of the old log ends after the directory has become its successor's.
@pytest.mark.parametrize("seed", range(80))
def test_the_old_log_writes_nothing_into_the_directory_of_its_successor(seed: int) -> None:
    clock = ManualClock()
    stored, expected = run(delete_and_recreate(seed, clock), clock=clock)

    assert stored == expected


async def delete_and_recreate(seed: int, clock: ManualClock):
    """The topic ids in the new directory, now and a while later, beside the id of the new topic."""
    rng, files = Random(seed), MemoryFiles(seed=seed)
    offload = DelayedOffload(rng, delay_ms_max=20)
    node = assemble(SETTINGS, files=files, clock=clock, rng=seeded_rng(seed), offload=offload)
    services = (await node.start()).services

    async def write() -> None:
        with suppress(GoQueueError):
            for _ in range(60):
                record = NewRecord(None, b"old" * rng.randrange(1, 300))
                await services.publish.publish_records("t", [record], acks=rng.choice([Acks.LEADER, Acks.ALL]))
                await asyncio.sleep(rng.random() * 0.004)

    await services.topics.create(NewTopic("t", 1, config=SMALL_SEGMENTS))
    writers = [asyncio.create_task(write()) for _ in range(3)]
    await asyncio.sleep(rng.random() * 0.2)
    await services.topics.delete("t")
    successor = await services.topics.create(NewTopic("t", 1, config=SMALL_SEGMENTS))
    (new,) = await services.publish.publish_records("t", [NewRecord(None, b"new")], acks=Acks.ALL)
    assert new.error is None
    at_once = stored_topic_id(files, "logs/t/0")
    await asyncio.gather(*writers)
    await asyncio.sleep(rng.random() * 0.05)
    later = stored_topic_id(files, "logs/t/0")
    await node.stop()
    return {at_once, later}, {successor.topic_id}
