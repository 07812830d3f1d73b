"""The Kafka server: accepts connections, keeps count of them, and lets them go."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import structs

from goqueue.handles import are_scarce
from goqueue.servers.doors import Door, OpenDoor
from goqueue.servers.kafka.connections.connection import Connection
from goqueue.servers.kafka.connections.framing import Arena
from goqueue.servers.kafka.connections.memory_budget import MemoryBudget
from goqueue.servers.kafka.dispatch import Dispatcher, Frame
from goqueue.servers.kafka.reading.fetch_sessions import FetchSessions
from goqueue.servers.kafka.reading.share_sessions import ShareSessions

if TYPE_CHECKING:
    from goqueue.security.service import Security
    from goqueue.servers.services import Services

logger = logging.getLogger(__name__)

# Requests under way at a stop get this long; long polls do not, since nobody misses their answer.
STOP_SECONDS_MAX = 2.0
REFUSALS_LOGGED_PER_SECOND = 10
REVOKED_SECONDS = 0.1


class KafkaServer:
    """Serves the Kafka protocol from `start` until `stop`; a second stop does no harm."""

    def __init__(
        self,
        services: Services,
        doors: Sequence[Door],
        *,
        dispatcher: Dispatcher | None = None,
        security: Security | None = None,
    ) -> None:
        self.security = security
        self.limits = services.config.limits
        self.budget = MemoryBudget(self.limits.inflight_bytes_max)
        self.answers = services.answers
        share_sessions = ShareSessions(services.config.groups.share_sessions_max)
        fetch_sessions = FetchSessions(self.limits.fetch_sessions_max)
        # Clients of a door are told that door's address.
        self._dispatchers = [
            dispatcher
            or Dispatcher(
                structs.replace(
                    services,
                    identity=structs.replace(services.identity, kafka_host=door.host, kafka_port=door.port),
                    cluster=services.cluster.through(door.name, door.host, door.port),
                ),
                times=services.request_times,
                share_sessions=share_sessions,
                fetch_sessions=fetch_sessions,
            )
            for door in doors
        ]
        self.arena = Arena()
        self._doors = [
            OpenDoor(door, partial(Connection, self, one)) for door, one in zip(doors, self._dispatchers, strict=True)
        ]
        self._connections: set[Connection] = set()
        self._addresses: Counter[str] = Counter()
        self._principals: Counter[str] = Counter()
        self._none_left = asyncio.Event()
        self._none_left.set()
        self._tasks: set[asyncio.Task[Frame | None]] = set()
        self._is_serving = False
        self._sweep: asyncio.TimerHandle | None = None
        self._refusals = _RefusalLog()

    async def start(self) -> None:
        """Accept connections."""
        self.loop = asyncio.get_running_loop()
        for door in self._doors:
            await door.open()
        self._is_serving = True
        if self.security is not None:
            self.security.store.subscribe(self.revoke)
        self._schedule_sweep()

    async def stop(self) -> None:
        """Accept no more, let the requests under way finish, close every connection."""
        was_serving, self._is_serving = self._is_serving, False
        if not was_serving:
            return
        for door in self._doors:
            door.close()
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in self._connections:
            connection.stop_reading()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=STOP_SECONDS_MAX)
        for connection in list(self._connections):
            connection.close()
        for task in self._tasks:
            task.cancel()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._none_left.wait(), STOP_SECONDS_MAX)
        for connection in list(self._connections):
            connection.abort()
        await asyncio.sleep(0)

    @property
    def connection_count(self) -> int:
        """How many clients are connected."""
        return len(self._connections)

    # --- connections call -------------------------------------------------------------

    def opened(self, connection: Connection) -> None:
        """Count a connection in, unless there are too many."""
        self._connections.add(connection)
        self._addresses[connection.peer.address] += 1
        self._none_left.clear()
        if len(self._connections) > self.limits.connections_max:
            connection.refuse(f"there are {self.limits.connections_max} connections already")
        elif self._addresses[connection.peer.address] > self.limits.connections_per_address_max:
            connection.refuse(f"its address has {self.limits.connections_per_address_max} connections already")
        elif are_scarce(connection.descriptor):
            connection.refuse("the process has hardly any file handles left: raise its limit (ulimit -n)")

    def closed(self, connection: Connection) -> None:
        """Count it out."""
        self._connections.discard(connection)
        _count_out(self._addresses, connection.peer.address)
        if connection.principal:
            _count_out(self._principals, connection.principal)
        if connection.dispatcher.share_sessions:
            self.spawn(self._lost(connection))
        if not self._connections:
            self._none_left.set()

    async def _lost(self, connection: Connection) -> None:
        await connection.dispatcher.connection_lost(connection.peer)

    def spawn(self, answer: Coroutine[Any, Any, Frame | None]) -> asyncio.Task[Frame | None]:
        """Work on an answer that takes time."""
        task = self.loop.create_task(answer)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def authenticated(self, connection: Connection, before: str) -> None:
        """A connection has an owner now, or another one than `before`."""
        principal = connection.principal
        if before:
            _count_out(self._principals, before)
        self._principals[principal] += 1
        if self._principals[principal] > self.limits.connections_per_principal_max:
            connection.refuse(f"{principal} has {self.limits.connections_per_principal_max} connections already")

    def revoke(self, principals: frozenset[str] | None) -> None:
        """Close the connections of those who have lost a credential or an access; None: of everybody.

        Requests that wait for messages end with them, so that nothing more is delivered. A client that still may
        connects again by itself.
        """
        for connection in self._connections:
            if connection.principal and (principals is None or connection.principal in principals):
                # Not at once: it may be the connection that is about to be told that the change was made.
                self.loop.call_later(REVOKED_SECONDS, connection.refuse, "an access of its principal was revoked")

    def log_refusal(self, peer: str, reason: str) -> None:
        """Say why a connection was closed."""
        self._refusals.add(self.loop.time(), peer, reason)

    # --- idle connections -------------------------------------------------------------

    def _schedule_sweep(self) -> None:
        # One timer for all connections: they are many, and closing one late does no harm.
        self._sweep = self.loop.call_later(self.limits.idle_connection_ms / 4000, self._close_idle)

    def _close_idle(self) -> None:
        oldest = self.loop.time() - self.limits.idle_connection_ms / 1000
        for connection in [one for one in self._connections if one.active_at < oldest and not one.is_busy]:
            logger.info("closing connection from %s: idle", connection.peer.address)
            connection.abort()
        self._schedule_sweep()


def _count_out(counter: Counter[str], name: str) -> None:
    counter[name] -= 1
    if counter[name] <= 0:
        del counter[name]


class _RefusalLog:
    """Logs why connections were closed, but lets no flood of them fill the disk."""

    def __init__(self) -> None:
        self._second = 0
        self._logged = 0
        self._left_out = 0

    def add(self, now: float, peer: str, reason: str) -> None:
        if int(now) != self._second:
            self._second = int(now)
            self._logged = 0
            if self._left_out:
                logger.warning("closed %d more connections that are not listed here", self._left_out)
                self._left_out = 0
        if self._logged < REFUSALS_LOGGED_PER_SECOND:
            self._logged += 1
            logger.warning("closing connection from %s: %s", peer, reason)
        else:
            self._left_out += 1
