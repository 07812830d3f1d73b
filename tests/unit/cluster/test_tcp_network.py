"""The network between nodes over TCP: messages, order, size, and who is let in."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from random import SystemRandom

import pytest

from goqueue.cluster.network import CALLS, REPLICATION, PeerConnection
from goqueue.cluster.tcp.messages import TcpMessages
from goqueue.cluster.tcp.network import PeerAddress, TcpNetwork
from goqueue.errors import PeerLost, PeerRefused, PeerUnreachable

SECRET, OLD_SECRET = b"a secret of the cluster", b"the secret before"


class Nodes:
    """Networks of some nodes that know each other's addresses."""

    def __init__(self) -> None:
        self.addresses: dict[int, PeerAddress] = {}
        self.networks: list[TcpNetwork] = []

    def join(self, node_id: int, *, secrets: tuple[bytes, ...] = (SECRET,), cluster_id: str = "c") -> TcpNetwork:
        sock = socket.create_server(("127.0.0.1", 0))
        self.addresses.setdefault(node_id, PeerAddress("127.0.0.1", sock.getsockname()[1]))
        network = TcpNetwork(
            node_id=node_id,
            cluster_id=cluster_id,
            secrets=secrets,
            address_of=self.addresses.get,
            sock=sock,
            rng=SystemRandom(),
        )
        self.networks.append(network)
        return network


@asynccontextmanager
async def some_nodes() -> AsyncIterator[Nodes]:
    nodes = Nodes()
    try:
        yield nodes
    finally:
        for network in nodes.networks:
            await network.close()


async def echo(connection: PeerConnection, purpose: int) -> None:
    while (message := await connection.receive()) is not None:
        await connection.send([f"{connection.peer} {purpose} ".encode(), message])


async def test_messages_of_every_size_arrive_whole_and_in_order() -> None:
    async with some_nodes() as nodes:
        one, two = nodes.join(1), nodes.join(2)
        await two.listen(echo)
        connection = await one.connect(2, REPLICATION)
        messages = [b"", b"x", b"y" * 65_530, b"z" * 65_536, b"w" * 3_000_000, b"v", b"u" * 1_000_001]

        async def receive() -> list[bytes]:
            return [bytes(await connection.receive() or b"") for _ in messages]

        received = asyncio.create_task(receive())
        for message in messages:
            await connection.send([message[:10], message[10:]])
        assert await received == [b"1 1 " + message for message in messages]
        assert connection.peer == 2


async def test_a_peer_that_closes_ends_the_connection_for_both() -> None:
    closed: list[bool] = []

    async def take_one(connection: PeerConnection, _purpose: int) -> None:
        await connection.receive()
        closed.append(True)

    async with some_nodes() as nodes:
        one, two = nodes.join(1), nodes.join(2)
        await two.listen(take_one)
        connection = await one.connect(2, CALLS)
        await connection.send(b"only this")
        assert await connection.receive() is None
        with pytest.raises(PeerUnreachable, match="node 2 cannot be reached"):
            await connection.send(b"too late")
        assert closed == [True]


async def test_both_sides_find_out_that_a_machine_is_gone_although_nothing_is_sent() -> None:
    """After a power failure nobody closes the connection: the leader of an idle topic served it for ever."""
    accepted: asyncio.Queue[PeerConnection] = asyncio.Queue()

    async def keep(connection: PeerConnection, _purpose: int) -> None:
        accepted.put_nowait(connection)
        await connection.receive()

    async with some_nodes() as nodes:
        one, two = nodes.join(1), nodes.join(2)
        await two.listen(keep)
        connecting = await one.connect(2, REPLICATION)
        for side in (connecting, await accepted.get()):
            assert isinstance(side, TcpMessages)
            assert side._transport is not None
            sock = side._transport.get_extra_info("socket")
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            silent_s = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
            silent_s += sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) * sock.getsockopt(
                socket.IPPROTO_TCP, socket.TCP_KEEPCNT
            )
            assert silent_s < 30


async def test_a_sender_waits_while_its_peer_does_not_read() -> None:
    gate = asyncio.Event()
    read: list[int] = []

    async def lazy(connection: PeerConnection, _purpose: int) -> None:
        await gate.wait()
        while (message := await connection.receive()) is not None:
            read.append(len(message))

    async with some_nodes() as nodes:
        one, two = nodes.join(1), nodes.join(2)
        await two.listen(lazy)
        connection = await one.connect(2, REPLICATION)
        sending = asyncio.create_task(_send_many(connection, 64, 1_000_000))
        done, _ = await asyncio.wait([sending], timeout=0.3)
        assert not done
        gate.set()
        await asyncio.wait_for(sending, 10)


async def test_a_message_that_was_on_its_way_when_the_connection_broke_may_have_arrived() -> None:
    """A call that failed before it was sent is sent again by itself; this one must not be."""

    async def never_reads(_connection: PeerConnection, _purpose: int) -> None:
        await asyncio.Event().wait()

    async with some_nodes() as nodes:
        one, two = nodes.join(1), nodes.join(2)
        await two.listen(never_reads)
        connection = await one.connect(2, CALLS)
        sending = asyncio.create_task(_send_many(connection, 64, 1_000_000))
        done, _ = await asyncio.wait([sending], timeout=0.2)
        assert not done
        connection.close()
        with pytest.raises(PeerLost):
            await sending


async def _send_many(connection: PeerConnection, count: int, size: int) -> None:
    for _ in range(count):
        await connection.send(bytes(size))


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [((SECRET, OLD_SECRET), (OLD_SECRET,)), ((OLD_SECRET,), (SECRET, OLD_SECRET)), ((OLD_SECRET, SECRET), (SECRET,))],
)
async def test_nodes_with_one_secret_in_common_talk_while_it_is_rotated(
    mine: tuple[bytes, ...], theirs: tuple[bytes, ...]
) -> None:
    async with some_nodes() as nodes:
        one, two = nodes.join(1, secrets=mine), nodes.join(2, secrets=theirs)
        await two.listen(echo)
        connection = await one.connect(2, CALLS)
        await connection.send(b"hello")
        assert bytes(await connection.receive() or b"") == b"1 2 hello"


async def test_a_node_with_another_secret_is_refused_and_told_where_to_look() -> None:
    async with some_nodes() as nodes:
        one, two = nodes.join(1, secrets=(b"guessed",)), nodes.join(2)
        await two.listen(echo)
        with pytest.raises(PeerRefused, match=r"cluster\.secret"):
            await one.connect(2, REPLICATION)


async def test_a_node_of_another_cluster_and_a_wrong_address_are_refused() -> None:
    async with some_nodes() as nodes:
        one, other = nodes.join(1), nodes.join(3, cluster_id="another")
        two = nodes.join(2)
        await two.listen(echo)
        nodes.addresses[4] = nodes.addresses[2]
        with pytest.raises(PeerRefused, match="part of cluster 'c', not of 'another'"):
            await other.connect(2, CALLS)
        with pytest.raises(PeerRefused, match="this is node 2, not node 4"):
            await one.connect(4, CALLS)
        with pytest.raises(PeerUnreachable, match="address is not known"):
            await one.connect(9, CALLS)


@pytest.mark.parametrize(
    "said", [b"GET / HTTP/1.1\r\n\r\n", b"\x00\x00\xff\xff" + bytes(2000), b"\x00\x00\x00\x02\xc1\xc1"]
)
async def test_a_stranger_is_cut_off(said: bytes) -> None:
    async with some_nodes() as nodes:
        two = nodes.join(2)
        await two.listen(echo)
        reader, writer = await asyncio.open_connection(*nodes.addresses[2])
        writer.write(said)
        with suppress(ConnectionResetError):
            assert await asyncio.wait_for(reader.read(), 10) == b""
        writer.close()


async def test_nobody_listens_there_any_more() -> None:
    async with some_nodes() as nodes:
        one, two = nodes.join(1), nodes.join(2)
        await two.listen(echo)
        connection = await one.connect(2, CALLS)
        await two.close()
        assert await connection.receive() is None
        with pytest.raises(PeerUnreachable):
            await one.connect(2, CALLS)
