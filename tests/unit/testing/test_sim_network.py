"""The simulated network between nodes: order, blocked directions, broken connections, nodes that are gone."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from goqueue.cluster.network import CALLS, PeerConnection
from goqueue.errors import PeerUnreachable
from goqueue.testing.sim_loop import run
from goqueue.testing.sim_network import SimNetwork


async def echo(connection: PeerConnection, _purpose: int) -> None:
    while (message := await connection.receive()) is not None:
        await connection.send(message)


def test_messages_keep_their_order_though_each_takes_its_own_time() -> None:
    async def story() -> None:
        network = SimNetwork(Random(3))
        one, two = network.join(1), network.join(2)
        await two.listen(echo)
        connection = await one.connect(2, CALLS)
        for number in range(50):
            await connection.send(b"%d" % number)
        assert [await connection.receive() for _ in range(50)] == [b"%d" % number for number in range(50)]

    run(story(), order=Random(3))


def test_a_blocked_direction_holds_what_is_sent_and_the_other_one_works() -> None:
    async def story() -> None:
        network = SimNetwork(Random(1))
        one, two = network.join(1), network.join(2)
        received: list[bytes | None] = []

        async def note(connection: PeerConnection, _purpose: int) -> None:
            await connection.send(b"welcome")
            while (message := await connection.receive()) is not None:
                received.append(bytes(message))

        await two.listen(note)
        connection = await one.connect(2, CALLS)
        network.block(1, 2)
        await connection.send(b"held")
        assert await connection.receive() == b"welcome"
        await asyncio.sleep(1)
        assert received == []
        with pytest.raises(PeerUnreachable):
            await one.connect(2, CALLS)
        network.heal()
        await asyncio.sleep(1)
        # It arrives, or the connection is broken: never something else.
        assert received == [b"held"] or connection.is_closed

    run(story())


@pytest.mark.parametrize("silently", [False, True])
def test_a_node_that_is_gone_closes_its_connections_at_once_or_after_a_while(*, silently: bool) -> None:
    async def story() -> None:
        network = SimNetwork(Random(1))
        one, two = network.join(1), network.join(2)
        await two.listen(echo)
        connection = await one.connect(2, CALLS)
        network.leave(two, silently=silently)
        before = asyncio.get_running_loop().time()
        assert await connection.receive() is None
        waited_s = asyncio.get_running_loop().time() - before
        assert (waited_s > 1) == silently
        with pytest.raises(PeerUnreachable):
            await one.connect(2, CALLS)

    run(story())
