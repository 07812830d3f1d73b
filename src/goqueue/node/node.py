"""Node: started once, stopped once, however often either is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from goqueue.errors import ShuttingDown
from goqueue.node.config.addresses import Address
from goqueue.servers.services import Services

if TYPE_CHECKING:
    from goqueue.security.service import Security


@dataclass(frozen=True, slots=True)
class Running:
    """What a started node is made of, as far as others need to know."""

    services: Services
    data_dir: str
    # Of the first listener of each protocol.
    kafka: Address
    http: Address
    # None: there is no gRPC listener.
    grpc: Address | None = None
    # All listeners by name, and the names of those that use TLS.
    listeners: Mapping[str, Address] = field(default_factory=dict)
    tls: frozenset[str] = frozenset()
    # There when security is on.
    security: Security | None = None
    # File with the authorities that client certificates are checked against; empty: none is set.
    client_ca: str = ""

    @property
    def http_url(self) -> str:
        """Where the HTTP API is."""
        is_tls = any(self.listeners[name] == self.http for name in self.tls)
        return f"{'https' if is_tls else 'http'}://{self.http}"


# Opens everything in order and leaves on the stack how each is closed again.
Wire = Callable[[AsyncExitStack], Awaitable[Running]]


class Node:
    """A broker in this process. What was opened first is closed last."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._running: Running | None = None
        self._stack: AsyncExitStack | None = None
        self._turn = asyncio.Lock()
        self._stopped = False

    @property
    def running(self) -> Running:
        """Its parts; raises ShuttingDown before the start and after the stop."""
        if self._running is None:
            raise ShuttingDown("the node is not running")
        return self._running

    async def start(self) -> Running:
        """Open everything. If one part fails, what was opened before is closed again."""
        async with self._turn:
            if self._stopped:
                raise ShuttingDown("the node has been stopped")
            if self._running is None:
                stack = AsyncExitStack()
                try:
                    self._running = await self._wire(stack)
                except BaseException:
                    # Closed as by a stop, without the error: what was opened before it is in order.
                    await stack.aclose()
                    raise
                self._stack = stack
            return self._running

    async def stop(self) -> None:
        """Close everything, last opened first. A second stop waits for the first and does no harm."""
        async with self._turn:
            self._stopped = True
            stack, self._stack, self._running = self._stack, None, None
            if stack is not None:
                await stack.aclose()
