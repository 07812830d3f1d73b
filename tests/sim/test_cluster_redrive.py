"""Redrives while several nodes lead the dead letters, and share consumers at leaders that did not run them."""

from __future__ import annotations

import asyncio

import pytest
from tests.sim.test_cluster_nodes import NODES, Nodes

from goqueue.broker.topics import NewTopic
from goqueue.delivery.dead_letters.letters import Edits
from goqueue.delivery.dead_letters.redrive import RedriveProgress, RedriveRequest, RedriveState
from goqueue.delivery.values import Action, Receive, Settlement
from goqueue.records import Acks, NewRecord, TopicPartition
from goqueue.servers.services import Services

PLACES = [TopicPartition("orders", number) for number in range(3)]
COUNT = 12
# A letter whose headers are edited is sent anew, as a record that is for one group only.
EDITED = Edits({"seen": b"yes"})


async def reject_all(nodes: Nodes) -> None:
    """Each of the messages is published and becomes a dead letter of group g; each node leads some of them."""

    async def publish(services: Services) -> None:
        await services.topics.create(NewTopic("orders", 3))
        await asyncio.sleep(1)

    async def reject(services: Services) -> int:
        anywhere = services.redrives._delivery
        found = await anywhere.receive(Receive("g", "c", PLACES, 100))
        await anywhere.settle([Settlement(one.receipt, Action.REJECT) for one in found])
        return len(found)

    await nodes.at_leader(1, publish)
    for place in PLACES:
        leader = leader_of(nodes, place)

        async def fill(services: Services, place: TopicPartition = place) -> None:
            records = [NewRecord(None, b"%d" % number) for number in range(COUNT // 3)]
            sent = await services.publish.publish_records(
                place.topic, records, acks=Acks.ALL, partition=place.partition
            )
            assert [one.error for one in sent] == [None] * len(records)

        await nodes.at_leader(leader, fill)
    rejected = 0
    while rejected < COUNT:
        rejected += await nodes.at_leader(1, reject)
    await asyncio.sleep(5)


def leader_of(nodes: Nodes, place: TopicPartition) -> int:
    (found,) = [node for node in NODES if nodes.running[node].services.delivery._partitions.is_led(*place)]
    return found


async def redrive(nodes: Nodes, node: int, request: RedriveRequest) -> RedriveProgress:
    async def run(services: Services) -> RedriveProgress:
        progress = await services.redrives.start(request)
        while progress.state is RedriveState.RUNNING:  # noqa: ASYNC110 - in simulated time
            await asyncio.sleep(0.1)
        return progress

    return await nodes.at_leader(node, run)


async def shared(nodes: Nodes, group: str) -> int:
    """How many messages share consumers of the group can have, at all leaders together."""
    count = 0
    for place in PLACES:

        async def acquire(services: Services, place: TopicPartition = place) -> int:
            await services.use_shared(group)
            found = await services.delivery.acquire(group, place, "member", limit=100)
            return sum(one.last - one.first + 1 for one in found)

        count += await nodes.at_leader(leader_of(nodes, place), acquire)
    return count


@pytest.mark.parametrize("node", NODES)
def test_a_second_redrive_succeeds_although_other_nodes_lead_dead_letters(node: int) -> None:
    async def story(nodes: Nodes) -> None:
        await reject_all(nodes)
        for redriven in (5, COUNT - 5):
            progress = await redrive(nodes, node, RedriveRequest("orders", limit=redriven))
            assert (progress.state, progress.error) == (RedriveState.DONE, None)
            assert progress.redriven == redriven

    Nodes(seed=1).play(story)


def test_share_consumers_of_every_leader_get_nothing_that_is_sent_back_to_another_group() -> None:
    async def story(nodes: Nodes) -> None:
        await reject_all(nodes)
        assert await shared(nodes, "others") == COUNT, "and every leader has seen that nothing was sent back"
        progress = await redrive(nodes, 1, RedriveRequest("orders", edits=EDITED))
        assert (progress.state, progress.redriven) == (RedriveState.DONE, COUNT)
        await asyncio.sleep(5)
        assert await shared(nodes, "others") == 0
        assert await shared(nodes, "g") == COUNT

    Nodes(seed=2).play(story)


def test_share_consumers_are_served_by_a_node_that_started_after_the_redrive() -> None:
    async def story(nodes: Nodes) -> None:
        await reject_all(nodes)
        await redrive(nodes, 1, RedriveRequest("orders", limit=5))
        for node in NODES:
            nodes.cut_power(node)
            await nodes.start(node)
            await asyncio.sleep(30)
        assert await shared(nodes, "others") == COUNT

    Nodes(seed=3).play(story)
