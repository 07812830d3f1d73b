"""A leader that is frozen or cut off while others lead: what was settled there is given out by no door of it later."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from random import randrange

import pytest
from tests.e2e.cluster.network import can_have_namespaces
from tests.e2e.cluster.queue_doors import HELD_S, Door, GrpcDoor, HttpDoor, ShareDoor, SocketDoor
from tests.e2e.cluster.real_nodes import RealCluster, RealNode, real_cluster
from tests.e2e.cluster.test_cluster_smoke import ask

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not can_have_namespaces(), reason="network namespaces are not allowed here"),
]
MESSAGES = 40
VISIBILITY_S = 5.0
GRPC_PORT = randrange(12_000, 32_000)

# What befalls the leader, and how it ends.
Fault = tuple[Callable[[RealCluster, RealNode], None], Callable[[RealCluster, RealNode], None]]


def freeze(_cluster: RealCluster, node: RealNode) -> None:
    node.freeze()


def thaw(_cluster: RealCluster, node: RealNode) -> None:
    node.thaw()


def isolate(cluster: RealCluster, node: RealNode) -> None:
    assert cluster.network is not None
    cluster.network.isolate(node.number)


def mend(cluster: RealCluster, node: RealNode) -> None:
    assert cluster.network is not None
    cluster.network.mend(node.number)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GOQUEUE_LISTENERS_GRPC", f"0.0.0.0:{GRPC_PORT}")
        with real_cluster(tmp_path_factory.mktemp("frozen"), namespaces=True) as found:
            yield found


def doors_at(node: RealNode, topic: str, partition: int) -> list[Door]:
    place = (node, topic, partition, VISIBILITY_S)
    return [HttpDoor(*place), SocketDoor(*place), GrpcDoor(*place, GRPC_PORT), ShareDoor(*place)]


def leader_of(node: RealNode, topic: str, partition: int) -> int:
    rows = ask(node, f"/cluster/partitions?topic={topic}")["partitions"]
    return int(next(one["leader"] for one in rows if one["partition"] == partition))


@pytest.mark.parametrize("fault", [(freeze, thaw), (isolate, mend)], ids=["frozen", "cut off"])
async def test_what_others_had_settled_is_not_given_out_again(cluster: RealCluster, fault: Fault) -> None:
    begin, end = fault
    cluster.wait_whole()
    topic = f"work-{begin.__name__}"
    settings = {"delivery.visibility.timeout.ms": str(int(VISIBILITY_S * 1000))}
    ask(cluster.nodes[0], "/topics", {"name": topic, "num_partitions": 3, "config": settings})
    former, other = cluster.nodes[0], cluster.nodes[1]
    partition = next(one for one in range(3) if leader_of(other, topic, one) == former.number)
    sent = [{"value": str(number), "partition": partition} for number in range(MESSAGES)]
    ask(former, f"/topics/{topic}/messages", {"messages": sent})

    # Of each group some are settled, the others in flight, and a poll waits for what comes next.
    doors, waiting = doors_at(former, topic, partition), doors_at(former, topic, partition)
    confirmed: dict[str, set[int]] = {}
    for door in doors:
        taken: set[int] = set()
        deadline = time.monotonic() + 20
        while len(taken) < MESSAGES and time.monotonic() < deadline:
            taken |= await door.take(2)
        assert taken == set(range(MESSAGES)), f"{door.name} gave out {sorted(taken)}"
        confirmed[door.name] = await door.ack(range(5))
        assert confirmed[door.name] == set(range(5)), door.name
    held = [asyncio.ensure_future(door.take(HELD_S)) for door in waiting]
    await asyncio.sleep(0.5)
    begin(cluster, former)
    began = time.monotonic()
    # These wait in the sockets of a frozen node, and are the first that it reads.
    asked = doors_at(former, topic, partition)
    late = [asyncio.ensure_future(door.take(3)) for door in asked]
    late_acks = [asyncio.ensure_future(door.ack(range(30, 35))) for door in doors]

    while leader_of(other, topic, partition) in {-1, former.number}:
        assert time.monotonic() < began + 40, "others lead when its session has ended"
        await asyncio.sleep(0.2)
    successor = cluster.nodes[leader_of(other, topic, partition) - 1]
    there = doors_at(successor, topic, partition)
    for door in there:
        deadline = time.monotonic() + 40
        while len(confirmed[door.name]) < 30 and time.monotonic() < deadline:
            taken = await door.take(2)
            again = taken & confirmed[door.name]
            assert not again, f"{door.name} at the successor gave out {sorted(again)} again"
            confirmed[door.name] |= await door.ack(offset for offset in taken if offset < 30)
        assert confirmed[door.name] == set(range(30)), door.name

    end(cluster, former)
    found = await asyncio.gather(*held, *late)
    for door, taken in zip([*waiting, *asked], found, strict=True):
        again = taken & confirmed[door.name]
        assert not again, f"{door.name} gave out {sorted(again)} again when its node went on"
    for door, acks in zip(doors, await asyncio.gather(*late_acks), strict=True):
        confirmed[door.name] |= acks
    cluster.wait_ready()
    cluster.wait_whole()

    # All others come, wherever it is asked, and nothing else.
    everybody = [*doors, *waiting, *asked, *there]
    for door in everybody:
        await door.close()
    deadline = time.monotonic() + 60
    while any(len(one) < MESSAGES for one in confirmed.values()) and time.monotonic() < deadline:
        for node in cluster.nodes:
            for door in doors_at(node, topic, partition):
                taken = await door.take(1)
                again = taken & confirmed[door.name]
                assert not again, f"{door.name} at node {node.number} gave out {sorted(again)} again"
                confirmed[door.name] |= await door.ack(taken)
                await door.close()
    assert confirmed == {door.name: set(range(MESSAGES)) for door in doors}


async def test_a_frozen_node_does_not_pass_on_what_others_had_settled_since(cluster: RealCluster) -> None:
    """The leader gave the messages to a poll that waits at another node, which freezes before it passes them on."""
    cluster.wait_whole()
    topic = "passed-on"
    ask(cluster.nodes[0], "/topics", {"name": topic, "num_partitions": 3})
    leader, between = cluster.nodes[0], cluster.nodes[1]
    partition = next(one for one in range(3) if leader_of(between, topic, one) == leader.number)
    for door in doors_at(between, topic, partition)[:2]:
        # The group and its queue are made.
        assert await door.take(0) == set()
    waiting, there = doors_at(between, topic, partition)[:2], doors_at(leader, topic, partition)[:2]
    held = [asyncio.ensure_future(door.take(HELD_S)) for door in waiting]
    await asyncio.sleep(1)
    between.freeze()
    sent = [{"value": str(number), "partition": partition} for number in range(MESSAGES)]
    body = {"messages": sent, "acks": "leader"}
    await asyncio.to_thread(ask, leader, f"/topics/{topic}/messages", body)
    confirmed: dict[str, set[int]] = {door.name: set() for door in there}
    deadline = time.monotonic() + 60
    while any(len(one) < MESSAGES for one in confirmed.values()) and time.monotonic() < deadline:
        for door in there:
            taken = await door.take(1)
            assert not taken & confirmed[door.name]
            confirmed[door.name] |= await door.ack(taken)
    assert confirmed == {door.name: set(range(MESSAGES)) for door in there}
    between.thaw()
    for door, found in zip(waiting, await asyncio.gather(*held), strict=True):
        assert not found, f"{door.name} gave out {sorted(found)} again when its node went on"
    cluster.wait_ready()
