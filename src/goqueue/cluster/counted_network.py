"""The network between nodes with its bytes counted, for the metrics."""

from __future__ import annotations

from collections.abc import Sequence

from goqueue.cluster.network import Accept, PeerConnection, PeerNetwork
from goqueue.ports import Buffer


class Traffic:
    """Bytes of messages between this node and its peers."""

    __slots__ = ("bytes_in", "bytes_out")

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0


class CountedNetwork:
    """A network that counts what goes through it."""

    def __init__(self, network: PeerNetwork, traffic: Traffic) -> None:
        self._network = network
        self._traffic = traffic

    async def connect(self, node_id: int, purpose: int) -> PeerConnection:
        """See `PeerNetwork.connect`."""
        return _Counted(await self._network.connect(node_id, purpose), self._traffic)

    async def listen(self, accept: Accept) -> None:
        """See `PeerNetwork.listen`."""

        async def counted(connection: PeerConnection, purpose: int) -> None:
            await accept(_Counted(connection, self._traffic), purpose)

        await self._network.listen(counted)

    async def close(self) -> None:
        """See `PeerNetwork.close`."""
        await self._network.close()


class _Counted:
    """One connection of such a network."""

    __slots__ = ("_connection", "_traffic", "peer")

    def __init__(self, connection: PeerConnection, traffic: Traffic) -> None:
        self._connection = connection
        self._traffic = traffic
        self.peer = connection.peer

    async def send(self, message: Buffer | Sequence[Buffer]) -> None:
        await self._connection.send(message)
        parts = (message,) if isinstance(message, bytes | bytearray | memoryview) else message
        self._traffic.bytes_out += sum(map(len, parts))

    async def receive(self) -> Buffer | None:
        message = await self._connection.receive()
        if message is not None:
            self._traffic.bytes_in += len(message)
        return message

    def close(self) -> None:
        self._connection.close()
