"""SimNetwork: the network between simulated nodes, with delays, broken connections and partitions by a seed.

    network = SimNetwork(Random(7))
    one, two = network.join(1), network.join(2)      # a `PeerNetwork` for each life of a node
    network.block(1, 2)                              # nothing of what 1 sends reaches 2; the other way works
    network.heal()
    network.leave(one)                               # the process is gone: its peers see closed connections

Messages of one connection keep their order. What is sent into a blocked direction waits, as TCP would send it again,
and arrives after the healing unless the connection breaks first.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Sequence
from random import Random

from goqueue.cluster.network import Accept
from goqueue.errors import PeerUnreachable
from goqueue.ports import Buffer

_CONNECT_SECONDS_MAX = 3.0
# How long data may wait for its way before the sender's kernel gives the connection up.
_UNSENT_SECONDS_MAX = 10.0
_UNSENT_BYTES_MAX = 4 * 1024 * 1024


class SimNetwork:
    """All links between the nodes. Methods that change it happen at once."""

    def __init__(self, rng: Random, *, delay_ms: tuple[float, float] = (0.1, 2.0)) -> None:
        self.rng = rng
        self.delay_ms = delay_ms
        self.connections_broken = 0
        self._members: dict[int, SimPeerNetwork] = {}
        self._blocked: set[tuple[int, int]] = set()
        self._slowness: dict[tuple[int, int], float] = {}
        self._wires: list[_Wire] = []

    def join(self, node_id: int) -> SimPeerNetwork:
        """The network of one life of a node."""
        member = SimPeerNetwork(self, node_id)
        self._members[node_id] = member
        return member

    def leave(self, member: SimPeerNetwork, *, silently: bool = False) -> None:
        """End that life's connections. `silently`, as a power cut does, its peers find out by waiting."""
        member.is_gone = True
        if self._members.get(member.node_id) is member:
            del self._members[member.node_id]
        for wire in list(self._wires):
            if member.node_id in (wire.sender.node_id, wire.receiver.node_id) and (
                wire.sender is member or wire.receiver is member
            ):
                wire.lose(silently=silently)

    def member(self, node_id: int) -> SimPeerNetwork | None:
        """The living member of that id."""
        return self._members.get(node_id)

    def block(self, sender: int, receiver: int) -> None:
        """Let nothing through in this direction."""
        self._blocked.add((sender, receiver))

    def isolate(self, node_id: int) -> None:
        """Cut a node off, both ways."""
        for other in self._members:
            if other != node_id:
                self.block(node_id, other)
                self.block(other, node_id)

    def heal(self) -> None:
        """Unblock all directions and slow no link any more. What waited arrives, or its connection breaks."""
        self._blocked.clear()
        self._slowness.clear()
        for wire in list(self._wires):
            if wire.waits and self.rng.random() < 0.5:
                wire.break_off()
            else:
                wire.go_on()

    def slow(self, sender: int, receiver: int, factor: float) -> None:
        """Make one direction slower."""
        self._slowness[sender, receiver] = factor

    def break_one(self) -> None:
        """Break a connection, if there is one."""
        if self._wires:
            self.rng.choice(self._wires).break_off()

    def is_blocked(self, sender: int, receiver: int) -> bool:
        """Whether nothing goes through in this direction."""
        return (sender, receiver) in self._blocked

    def delay_s(self, sender: int, receiver: int) -> float:
        """How long the next message takes."""
        low, high = self.delay_ms
        return (low + self.rng.random() * (high - low)) / 1000 * self._slowness.get((sender, receiver), 1.0)

    def add(self, wire: _Wire) -> None:
        """A direction of a connection that has begun."""
        self._wires.append(wire)

    def remove(self, wire: _Wire) -> None:
        """A direction of a connection that has ended."""
        if wire in self._wires:
            self._wires.remove(wire)


class SimPeerNetwork:
    """A `PeerNetwork` for one life of one node."""

    def __init__(self, network: SimNetwork, node_id: int) -> None:
        self._network = network
        self.node_id = node_id
        self.is_gone = False
        self.accept: Accept | None = None
        # Connections are served in the context of the node that listens: a simulation knows nodes by it.
        self._context: contextvars.Context | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        # In the order of their opening, which a set would not keep.
        self._open: dict[SimConnection, None] = {}

    async def connect(self, node_id: int, purpose: int) -> SimConnection:
        """See `PeerNetwork.connect`."""
        network = self._network
        await asyncio.sleep(network.delay_s(self.node_id, node_id))
        peer = network.member(node_id)
        if network.is_blocked(self.node_id, node_id) or network.is_blocked(node_id, self.node_id):
            await asyncio.sleep(_CONNECT_SECONDS_MAX)
            raise PeerUnreachable(node_id, "no answer")
        await asyncio.sleep(network.delay_s(node_id, self.node_id))
        if peer is None or peer.is_gone or peer.accept is None or self.is_gone:
            raise PeerUnreachable(node_id, "connection refused")
        here, there = SimConnection(node_id), SimConnection(self.node_id)
        here.join(_Wire(network, self, peer, there), there)
        there.join(_Wire(network, peer, self, here), here)
        self._open[here] = None
        peer.serve(there, purpose)
        return here

    async def listen(self, accept: Accept) -> None:
        """See `PeerNetwork.listen`."""
        self.accept = accept
        self._context = contextvars.copy_context()

    async def close(self) -> None:
        """See `PeerNetwork.close`."""
        self.accept = None
        for connection in list(self._open):
            connection.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._network.leave(self)

    def serve(self, connection: SimConnection, purpose: int) -> None:
        """A peer has connected."""
        if self._context is None:
            raise RuntimeError("nobody listens")
        coroutine = self._accepted(connection, purpose)
        task = asyncio.get_running_loop().create_task(coroutine, context=self._context.copy())
        self._open[connection] = None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accepted(self, connection: SimConnection, purpose: int) -> None:
        accept = self.accept
        try:
            if accept is not None:
                await accept(connection, purpose)
        finally:
            connection.close()
            self._open.pop(connection, None)


class SimConnection:
    """A `PeerConnection`: one end."""

    def __init__(self, peer: int) -> None:
        self.peer = peer
        self.outgoing: _Wire | None = None
        self.other: SimConnection | None = None
        self._received: deque[bytes] = deque()
        self._news: asyncio.Future[None] | None = None
        self.is_closed = False

    def join(self, outgoing: _Wire, other: SimConnection) -> None:
        """Tie this end to the other one."""
        self.outgoing, self.other = outgoing, other

    async def send(self, message: Buffer | Sequence[Buffer]) -> None:
        """See `PeerConnection.send`."""
        wire = self.outgoing
        if self.is_closed or wire is None:
            raise PeerUnreachable(self.peer, "the connection is closed")
        parts = [message] if isinstance(message, bytes | bytearray | memoryview) else message
        wire.send(b"".join(parts))
        while wire.unsent_bytes > _UNSENT_BYTES_MAX and not self.is_closed:  # noqa: ASYNC110 - time costs nothing here
            await asyncio.sleep(0.001)

    async def receive(self) -> bytes | None:
        """See `PeerConnection.receive`."""
        while not self._received:
            if self.is_closed:
                return None
            self._news = asyncio.get_running_loop().create_future()
            try:
                await self._news
            finally:
                self._news = None
        return self._received.popleft()

    def close(self) -> None:
        """See `PeerConnection.close`. The other end learns of it after what was sent before."""
        if not self.is_closed:
            self.end()
            if self.outgoing is not None:
                self.outgoing.send(None)

    def end(self) -> None:
        """Nothing more comes or goes at this end."""
        self.is_closed = True
        self._wake()

    def arrive(self, message: bytes) -> None:
        """A message is here."""
        if not self.is_closed:
            self._received.append(message)
            self._wake()

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)


class _Wire:
    """One direction of a connection: messages on their way, in order."""

    def __init__(
        self, network: SimNetwork, sender: SimPeerNetwork, receiver: SimPeerNetwork, end: SimConnection
    ) -> None:
        self.sender = sender
        self.receiver = receiver
        self.unsent_bytes = 0
        # Whether messages wait for a blocked direction.
        self.waits = False
        self._network = network
        self._end = end
        self._under_way: deque[bytes | None] = deque()
        self._is_cut = False
        # The network acts on its own, whatever becomes of the node that sent.
        self._context = contextvars.Context()
        network.add(self)

    def send(self, message: bytes | None) -> None:
        """Put a message on its way; None: the end of the connection."""
        if self._is_cut or self.sender.is_gone:
            return
        self._under_way.append(message)
        self.unsent_bytes += len(message or b"")
        self._later(self._network.delay_s(self.sender.node_id, self.receiver.node_id), self._deliver)

    def go_on(self) -> None:
        """The direction may be open again."""
        if self.waits:
            self.waits = False
            for _ in range(len(self._under_way)):
                self._later(self._network.delay_s(self.sender.node_id, self.receiver.node_id), self._deliver)

    def break_off(self) -> None:
        """End the connection now, at both ends; what was on its way is lost."""
        self._network.connections_broken += 1
        self.cut()
        other = self._end.other
        self._end.end()
        if other is not None:
            other.end()
            if self._end.outgoing is not None:
                self._end.outgoing.cut()

    def lose(self, *, silently: bool) -> None:
        """One of the two nodes is gone."""
        self.cut()
        if self.receiver.is_gone:
            self._end.end()
        elif silently:
            self._later(_UNSENT_SECONDS_MAX * (0.5 + self._network.rng.random()), self._end.end)
        else:
            self._later(self._network.delay_s(self.sender.node_id, self.receiver.node_id), self._end.end)

    def _deliver(self) -> None:
        if not self._under_way or self._is_cut:
            return
        if self._network.is_blocked(self.sender.node_id, self.receiver.node_id):
            if not self.waits:
                self.waits = True
                self._later(_UNSENT_SECONDS_MAX, self._give_up)
            return
        message = self._under_way.popleft()
        self.unsent_bytes -= len(message or b"")
        if message is None:
            self.cut()
            self._end.end()
        else:
            self._end.arrive(message)

    def _give_up(self) -> None:
        """The sender's kernel gives up. The receiver, which heard nothing, does not learn of it."""
        if self.waits and not self._is_cut:
            self.cut()
            other = self._end.other
            if other is not None:
                other.end()

    def cut(self) -> None:
        """Nothing goes this way any more; what was on its way is lost."""
        self._is_cut = True
        self._under_way.clear()
        self.unsent_bytes = 0
        self._network.remove(self)

    def _later(self, wait_s: float, call: object) -> None:
        asyncio.get_running_loop().call_later(wait_s, call, context=self._context)  # type: ignore[arg-type]
