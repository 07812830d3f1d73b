"""PeerCalls: one node asks another, and is asked. One connection per peer, many calls on it at once.

A call has a deadline, and its handler ends when the caller goes. A call that fails before it was sent may be sent
again (`PeerUnreachable`); one that was sent may have been done (`PeerLost`, `RequestTimedOut`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from goqueue.cluster.incoming_calls import CallHandler, IncomingCalls
from goqueue.cluster.network import CALLS
from goqueue.cluster.outgoing_calls import OnLate, OutgoingCalls
from goqueue.errors import PeerUnreachable, RequestTimedOut, ShuttingDown, UnknownPeerCall

if TYPE_CHECKING:
    from goqueue.cluster.network import PeerConnection, PeerNetwork

# Calls under way at once, to one peer and of one peer. Long polls are among them.
CALLS_MAX = 10_000


class PeerCalls:
    """Calls to and from the other nodes."""

    def __init__(self, network: PeerNetwork, node_id: int, *, calls_max: int = CALLS_MAX) -> None:
        self._network = network
        self._node_id = node_id
        self._calls_max = calls_max
        self._handlers: dict[str, CallHandler] = {}
        self._peers: dict[int, OutgoingCalls] = {}
        self._connecting: dict[int, asyncio.Lock] = {}
        self._has_begun = asyncio.Event()
        self._is_closed = False

    def serve(self, method: str, handler: CallHandler) -> None:
        """Answer calls of that name."""
        if method in self._handlers:
            raise ValueError(f"two handlers for {method!r}")
        self._handlers[method] = handler

    def begin(self) -> None:
        """All handlers are there: answer. Until then connections of peers wait."""
        self._has_begun.set()

    async def accept(self, connection: PeerConnection, _purpose: int = CALLS) -> None:
        """Answer the calls on a connection that a peer opened for them, until it ends."""
        await self._has_begun.wait()
        await IncomingCalls(connection, self._handlers, running_max=self._calls_max).run()

    async def call(
        self, node_id: int, method: str, body: bytes, *, timeout_ms: int, on_late: OnLate | None = None
    ) -> bytes:
        """Ask a node, this one included, and wait for its answer; its error is raised here.

        `on_late` is told of an answer that comes after the caller has gone: it may have to be undone.
        """
        if node_id == self._node_id:
            return await self._ask_here(method, body, timeout_ms)
        peer = await self._peer(node_id, timeout_ms)
        return await peer.call(method, body, timeout_ms=timeout_ms, on_late=on_late)

    async def close(self) -> None:
        """End all calls. A second close does no harm."""
        self._is_closed = True
        peers, self._peers = list(self._peers.values()), {}
        for one in peers:
            await one.close()

    async def _ask_here(self, method: str, body: bytes, timeout_ms: int) -> bytes:
        handler = self._handlers.get(method)
        if handler is None:
            raise UnknownPeerCall(method)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await handler(body, self._node_id)
        except TimeoutError:
            raise RequestTimedOut(f"{method!r} took longer than {timeout_ms} ms") from None

    async def _peer(self, node_id: int, timeout_ms: int) -> OutgoingCalls:
        found = self._peers.get(node_id)
        if found is not None and not found.is_closed:
            return found
        lock = self._connecting.setdefault(node_id, asyncio.Lock())
        try:
            async with asyncio.timeout(timeout_ms / 1000), lock:
                found = self._peers.get(node_id)
                if found is None or found.is_closed:
                    if self._is_closed:
                        raise ShuttingDown("the node is stopping")
                    connection = await self._network.connect(node_id, CALLS)
                    found = self._peers[node_id] = OutgoingCalls(connection, waiting_max=self._calls_max)
                return found
        except TimeoutError:
            raise PeerUnreachable(node_id, f"no connection within {timeout_ms} ms") from None
