"""Queues of a whole simulated cluster: an ack that was answered is remembered, whoever leads next."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
from tests.sim.whole_cluster import NODES, WholeCluster

from goqueue.broker.topics import NewTopic
from goqueue.cluster.session import Session
from goqueue.delivery.leases.receipts import parse_nonce, split_receipt
from goqueue.delivery.state.commands import EndPromises, Promise, Settle, SettleShare
from goqueue.delivery.state.records import QueuePlace
from goqueue.delivery.values import Action, Delivery, Receive, Settlement, SettleResult
from goqueue.errors import CoordinatorUnavailable, GoQueueError, NotEnoughReplicas
from goqueue.log.partition_log import PartitionLog
from goqueue.metadata.events import Assignment
from goqueue.records import Acks, LogKind, NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.disk import Survival

PLACE = TopicPartition("work", 0)
# Longer than two sessions last, one after the other.
VISIBILITY_MS = 60_000


def assignment(cluster: WholeCluster) -> Assignment:
    topic = cluster.metadata.image.topic(PLACE.topic)
    assert topic is not None
    return cluster.metadata.image.assignments(topic.topic_id)[PLACE.partition]


async def until(holds: Callable[[], bool], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def fill(cluster: WholeCluster, count: int) -> None:
    async def create(services: Services) -> None:
        if services.topics.find(PLACE.topic) is None:
            await services.topics.create(NewTopic(PLACE.topic, partitions=1, replication_factor=3))

    await cluster.somewhere(create)
    await until(lambda: cluster.metadata.image.topic(PLACE.topic) is not None)
    records = [NewRecord(None, b"%d" % number) for number in range(count)]

    async def store(services: Services) -> None:
        results = await services.publish.publish_records(PLACE.topic, records, acks=Acks.ALL, partition=0)
        assert all(one.error is None for one in results), results

    await cluster.somewhere(store)


async def take(
    cluster: WholeCluster, node: int, limit: int = 100, *, wait_ms: int = 0, visibility_ms: int = VISIBILITY_MS
) -> list[Delivery]:
    request = Receive("g", "c", [PLACE], limit, wait_ms=wait_ms, visibility_ms=visibility_ms)
    return await cluster.call(node, lambda services: services.delivery.receive(request))


async def ack(cluster: WholeCluster, node: int, found: list[Delivery]) -> list[SettleResult]:
    settlements = [Settlement(one.receipt, Action.ACK) for one in found]
    return await cluster.call(node, lambda services: services.delivery.settle(settlements))


def test_an_ack_that_was_answered_is_known_to_an_eligible_replica_that_leads_next() -> None:
    """With fewer in-sync replicas than `min.insync.replicas`, the one that left last may lead next."""
    cluster = WholeCluster(1)

    async def story() -> None:
        await fill(cluster, 4)
        leader = assignment(cluster).leader
        first, last = [node for node in NODES if node != leader]
        await until(lambda: len(assignment(cluster).isr) == 3)
        found = await take(cluster, leader, limit=2)
        cluster.kill(first)
        await until(lambda: len(assignment(cluster).isr) == 2)
        cluster.kill(last)
        # It waits for the node that was killed last, until that is in sync no more.
        waiting = await ack(cluster, leader, found[:1])
        assert assignment(cluster).isr == (leader,)
        assert assignment(cluster).eligible == (last,)
        refused = await ack(cluster, leader, found[1:])
        assert [type(one.error) for one in refused] == [NotEnoughReplicas]
        with pytest.raises(CoordinatorUnavailable, match=r"fewer than min\.insync\.replicas"):
            await take(cluster, leader)
        cluster.kill(leader)
        await cluster.start(last)
        await until(lambda: assignment(cluster).leader == last)
        await cluster.start(first)
        await until(lambda: len(assignment(cluster).isr) == 2)
        await asyncio.sleep(VISIBILITY_MS / 1000)
        again = await take(cluster, last, wait_ms=3000)
        answered = {one.value for one, result in zip(found, waiting, strict=False) if result.error is None}
        assert not {one.value for one in again} & answered
        assert all(one.error is None for one in await ack(cluster, last, again))

    cluster.play(story)


@pytest.mark.parametrize("seed", [0, 4])
def test_a_node_that_has_just_registered_anew_gives_out_nothing_before_it_knows_who_leads(seed: int) -> None:
    """Its session is alive again before the controller has looked at what it led, and then its loop hangs."""
    cluster = WholeCluster(seed)

    async def story() -> None:
        await fill(cluster, 4)
        former = assignment(cluster).leader
        await until(lambda: len(assignment(cluster).isr) == 3)
        await take(cluster, former, limit=2, visibility_ms=1_000)
        slot = cluster.slots[former]
        life, session = slot.life, session_of(cluster, former)
        assert life is not None
        others = [found.kv for node, found in cluster.slots.items() if node != former and found.kv is not None]
        for kv in others:
            # Whoever is the controller needs a while to look at all that the node led.
            kv.is_cut_off = True
        await cluster.model.client().revoke(session.lease)
        await session.lost.wait()
        while not session.is_alive():  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        life.is_frozen = True
        for kv in others:
            kv.is_cut_off = False
        assert assignment(cluster).leader == former
        asked = [asyncio.ensure_future(take(cluster, former)) for _ in range(5)]
        await until(lambda: assignment(cluster).leader not in {-1, former}, seconds=3)
        found = await take(cluster, assignment(cluster).leader, wait_ms=2_000)
        results = await ack(cluster, assignment(cluster).leader, found)
        answered = {one.value for one, result in zip(found, results, strict=True) if result.error is None}
        assert len(answered) == 4
        assert session.is_alive()
        cluster.loop.thaw(life)
        for outcome in await asyncio.gather(*asked, return_exceptions=True):
            assert isinstance(outcome, GoQueueError) or not outcome, f"given out again: {outcome}"

    cluster.play(story)


def session_of(cluster: WholeCluster, node: int) -> Session:
    """The session of a node that serves."""
    services = cluster.slots[node].services
    assert services is not None
    problem = services.delivery._receiver._session_problem
    return problem.__self__.session  # type: ignore[no-any-return]


def test_an_end_that_a_new_leader_is_told_again_is_answered_when_every_replica_has_synced_it() -> None:
    """The coordinator forgets the transaction then; and whichever replica comes back first after a blackout leads."""
    cluster = WholeCluster(1)

    async def story() -> None:
        await fill(cluster, 4)
        leader = assignment(cluster).leader
        successor, slow = [node for node in NODES if node != leader]
        await until(lambda: len(assignment(cluster).isr) == 3)
        found = await take(cluster, leader)
        lease = parse_nonce(split_receipt(found[0].receipt)[3], "").lease_id
        share = SettleShare(lease, 1, Action.ACK, [one.offset for one in found])
        await submit(cluster, leader, Promise(7, [share], 0, 0))
        slow_disk = cluster.slots[slow].offload
        assert slow_disk is not None
        slow_disk.slowness = 100_000
        end = EndPromises(7, commit=True, producer_epoch=0, coordinator_epoch=0)
        before = delivery_log(cluster, slow).end_offset
        first = asyncio.ensure_future(submit(cluster, leader, end))
        while delivery_log(cluster, slow).end_offset == before:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        cluster.kill(leader)
        await until(lambda: assignment(cluster).leader == successor)
        second = asyncio.ensure_future(submit(cluster, successor, end))
        await asyncio.wait([second], timeout=1)
        answered = second.done() and second.exception() is None
        assert delivery_log(cluster, slow).synced_end <= before
        for node in (successor, slow):
            cluster.cut_power(node, Survival.NOTHING)
        await asyncio.gather(first, second, return_exceptions=True)
        await cluster.start(slow)
        await until(lambda: assignment(cluster).leader == slow and assignment(cluster).isr == (slow,))
        await retried(lambda: submit(cluster, slow, Settle(())))
        (queue,) = [one for _, one in cluster.slots[slow].services.delivery.queues()]  # type: ignore[union-attr]
        assert not (answered and queue.pending), "the end was answered, and is forgotten"

    cluster.play(story)


def test_a_promise_that_a_new_leader_is_told_again_is_answered_when_every_replica_has_synced_it() -> None:
    """The transaction may be committed then; and whichever replica comes back first after a blackout leads."""
    cluster = WholeCluster(1)

    async def story() -> None:
        await fill(cluster, 4)
        leader = assignment(cluster).leader
        successor, slow = [node for node in NODES if node != leader]
        await until(lambda: len(assignment(cluster).isr) == 3)
        found = await take(cluster, leader)
        lease = parse_nonce(split_receipt(found[0].receipt)[3], "").lease_id
        kept, promise = (
            Promise(producer, [SettleShare(lease, 1, Action.ACK, [one.offset for one in some])], 0, 0)
            for producer, some in ((6, found[:1]), (7, found[1:]))
        )
        await submit(cluster, leader, kept)
        slow_disk = cluster.slots[slow].offload
        assert slow_disk is not None
        slow_disk.slowness = 100_000
        before = delivery_log(cluster, slow).end_offset
        first = asyncio.ensure_future(submit(cluster, leader, promise))
        while delivery_log(cluster, slow).end_offset == before:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        cluster.kill(leader)
        await until(lambda: assignment(cluster).leader == successor)
        second = asyncio.ensure_future(submit(cluster, successor, promise))
        await asyncio.wait([second], timeout=1)
        answered = second.done() and second.exception() is None
        assert delivery_log(cluster, slow).synced_end <= before
        for node in (successor, slow):
            cluster.cut_power(node, Survival.NOTHING)
        await asyncio.gather(first, second, return_exceptions=True)
        await cluster.start(slow)
        await until(lambda: assignment(cluster).leader == slow and assignment(cluster).isr == (slow,))
        await retried(lambda: submit(cluster, slow, Settle(())))
        (queue,) = [one for _, one in cluster.slots[slow].services.delivery.queues()]  # type: ignore[union-attr]
        assert not answered or 7 in queue.pending.values(), "the promise was answered, and is forgotten"

    cluster.play(story)


async def retried(work: Callable[[], Awaitable[object]]) -> None:
    """Answers get lost now and then."""
    for _ in range(5):
        with suppress(GoQueueError):
            await work()
            return
    raise AssertionError("nobody answers")


async def submit(cluster: WholeCluster, node: int, command: object) -> object:
    """Run a command on the delivery log's machine, as a part of the node that has looked at the transaction does."""
    topic = cluster.metadata.image.topic(PLACE.topic)
    assert topic is not None
    at = QueuePlace(topic.topic_id, PLACE.partition)

    async def work(services: Services) -> object:
        return await services.delivery._shards._shards.submit_to(at, command)

    return await cluster.call(node, work)


def delivery_log(cluster: WholeCluster, node: int) -> PartitionLog:
    """A node's copy."""
    services = cluster.slots[node].services
    assert services is not None
    member = services.delivery._partitions.replica(*PLACE).member(LogKind.DELIVERY)
    assert member is not None
    return member.log
