"""The network between nodes, as the cluster sees it: authenticated connections that carry whole messages.

`tcp.network` is the real one, `goqueue.testing.sim_network` one with faults by a seed. A connection keeps the order of
its messages and loses none in the middle: after a failure it is closed, and whoever needs it connects again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from goqueue.ports import Buffer

# What a connection is for, said by the node that connects. Each purpose has its own messages.
REPLICATION = 1
CALLS = 2
# Replication of partitions whose follower is not in sync: it may be slow, and holds up nobody.
CATCHING_UP = 3


class PeerConnection(Protocol):
    """One connection to another node of the cluster."""

    # The node at the other end, proved by the handshake.
    peer: int

    async def send(self, message: Buffer | Sequence[Buffer]) -> None:
        """Send one message, given whole or in parts. Waits while the peer reads slower than we write.

        Raises PeerUnreachable if the connection is closed, and PeerLost if it broke while the message was on its way.
        That it returns does not mean that the message arrived.
        """
        ...

    async def receive(self) -> Buffer | None:
        """The next message; None when the connection is closed, by either side or by a failure."""
        ...

    def close(self) -> None:
        """Close at once; what was not sent yet is dropped. A second close does no harm."""
        ...


# Called in a task of its own for each connection that a peer opened, with its purpose. The connection is closed
# when it returns.
Accept = Callable[[PeerConnection, int], Awaitable[None]]


class PeerNetwork(Protocol):
    """Connections to and from the other nodes."""

    async def connect(self, node_id: int, purpose: int) -> PeerConnection:
        """Connect to a node, which proves who it is; raises PeerUnreachable."""
        ...

    async def listen(self, accept: Accept) -> None:
        """Begin to take connections of peers."""
        ...

    async def close(self) -> None:
        """Close the listener and every connection. A second close does no harm."""
        ...
