"""A redrive through power cuts at any step: each letter goes back once, however often the job is begun again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from goqueue.broker.topics import NewTopic
from goqueue.config import Config, DeliveryConfig
from goqueue.delivery.letters import LetterFilter
from goqueue.delivery.redrive import RedriveProgress, RedriveRequest, RedriveState
from goqueue.delivery.values import Action, Receive, Settlement
from goqueue.records import Acks, NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.sim_node import SimNode

PLACES = [TopicPartition("t", 0), TopicPartition("t", 1)]
LETTERS = [b"%d" % number for number in range(6)]


async def die(services: Services, letters: Sequence[bytes] = LETTERS) -> None:
    """Publish messages and reject every one."""
    await services.topics.create(NewTopic("t", 2))
    await services.publish.publish_records("t", [NewRecord(one, one) for one in letters], acks=Acks.ALL)
    while found := await services.delivery.receive(Receive("g", "c", PLACES, 1000)):
        await services.delivery.settle([Settlement(one.receipt, Action.REJECT) for one in found], durable=True)
        await asyncio.sleep(1)


async def redrive(services: Services, request: RedriveRequest | None = None) -> RedriveProgress:
    progress = await services.redrives.start(request or RedriveRequest("t"))
    while progress.state is RedriveState.RUNNING:  # noqa: ASYNC110 - in simulated time
        await asyncio.sleep(0.1)
    return progress


async def sent_back(services: Services) -> list[bytes]:
    """What consumers of the topic see behind its first records."""
    await asyncio.sleep(1)
    read = await services.reads.read(dict.fromkeys(PLACES, 0), limit=1000, max_bytes=2**20)
    records = [record for one in read.values() for record in one.records]
    return sorted(one.value or b"" for one in records if any(name == "goqueue-redriven-at" for name, _ in one.headers))


@pytest.mark.parametrize("step", range(1, 80))
def test_each_letter_goes_back_once_wherever_the_power_goes(step: int) -> None:
    node = SimNode(step, Config(delivery=DeliveryConfig(state_partitions=2)))

    async def first(services: Services) -> None:
        await redrive(services)

    async def again(services: Services) -> None:
        progress = await redrive(services)
        assert (progress.state, progress.failed) == (RedriveState.DONE, 0)
        assert await sent_back(services) == LETTERS
        assert (await redrive(services)).redriven == 0
        assert await sent_back(services) == LETTERS

    assert node.live(die)
    node.live(first, crash_at_step=step)
    assert node.live(again)


def test_a_letter_that_its_topic_does_not_take_stays_and_the_others_go() -> None:
    async def story(services: Services) -> None:
        await die(services, [b"a", b"large" * 100, b"c"])
        await services.topics.alter_config("t", {"max.message.bytes": "700"})
        progress = await redrive(services)
        assert (progress.state, progress.redriven, progress.failed) == (RedriveState.DONE, 2, 1)
        assert await sent_back(services) == [b"a", b"c"]
        await services.topics.alter_config("t", {"max.message.bytes": "100000"})
        assert (await redrive(services)).redriven == 1
        assert await sent_back(services) == sorted([b"a", b"large" * 100, b"c"])

    assert SimNode(3).live(story)


def test_a_redrive_that_may_hold_no_more_letters_says_so() -> None:
    async def story(services: Services) -> None:
        await die(services, [b"%03d" % number for number in range(100)])
        progress = await redrive(services, RedriveRequest("t", LetterFilter(key=b"none")))
        assert progress.state is RedriveState.FAILED
        assert "delivery.outstanding_max" in str(progress.error)
        # Given back when it ends, so that the next finds them all.
        assert (await redrive(services)).redriven == 100

    assert SimNode(4, Config(delivery=DeliveryConfig(outstanding_max=20))).live(story)
