"""PeerDoor: accepts connections of other nodes, and bounds those that have not authenticated.

Whoever reaches the port can open connections. Each has a few seconds, so many may be open in all, and fewer from one
address: somebody who holds all that an address may have does not keep the other nodes out.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

_BACKLOG = 128
STRANGERS_MAX = 256
STRANGERS_PER_ADDRESS_MAX = 32
_ACCEPTED_PER_TURN = 64
_PAUSE_SECONDS = 0.5
_LOGGED_PER_SECOND = 5
_log = logging.getLogger("goqueue.cluster")

# Serves one connection. It calls what it is given besides as soon as the other side has authenticated.
Arrive = Callable[[socket.socket, Callable[[], None]], Coroutine[Any, Any, None]]


class PeerDoor:
    """Accepts connections on a bound socket until it is closed."""

    def __init__(self, sock: socket.socket, arrive: Arrive) -> None:
        self._socket = sock
        self._arrive = arrive
        self._strangers: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_open = False
        self._second, self._logged = 0, 0

    @property
    def strangers(self) -> int:
        """Connections that have not authenticated."""
        return self._strangers.total()

    def open(self) -> None:
        """Accept connections from now on."""
        self._loop = asyncio.get_running_loop()
        self._socket.setblocking(False)
        self._socket.listen(_BACKLOG)
        self._is_open = True
        self._loop.add_reader(self._socket, self._accept)

    def tell(self, text: str) -> None:
        """Log what a stranger did, but so many lines per second at most."""
        second = int(self._loop.time())
        if second != self._second:
            self._second, self._logged = second, 0
        self._logged += 1
        if self._logged <= _LOGGED_PER_SECOND:
            _log.warning("%s", text)

    async def close(self) -> None:
        """Accept no more, and end every connection. A second close does no harm."""
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._socket)
        self._socket.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_PER_TURN):
            try:
                connection, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # Hardly any file handles are left: without a pause this would run all the time.
                self.tell(f"connections of other nodes cannot be accepted: {error}")
                self._loop.remove_reader(self._socket)
                self._loop.call_later(_PAUSE_SECONDS, self._accept_again)
                return
            host = str(address[0])
            if self._strangers.total() >= STRANGERS_MAX or self._strangers[host] >= STRANGERS_PER_ADDRESS_MAX:
                connection.close()
                self.tell(f"too many connections from {host} to the port for other nodes have not authenticated")
                continue
            connection.setblocking(False)
            self._begin(connection, host)

    def _accept_again(self) -> None:
        if self._is_open:
            self._loop.add_reader(self._socket, self._accept)

    def _begin(self, connection: socket.socket, host: str) -> None:
        self._strangers[host] += 1
        is_stranger = True

        def authenticated() -> None:
            nonlocal is_stranger
            if is_stranger:
                is_stranger = False
                self._strangers[host] -= 1
                if not self._strangers[host]:
                    del self._strangers[host]

        def ended(task: asyncio.Task[None]) -> None:
            authenticated()
            self._tasks.discard(task)

        task = self._loop.create_task(self._arrive(connection, authenticated))
        self._tasks.add(task)
        task.add_done_callback(ended)


async def first_byte(connection: socket.socket) -> int:
    """The first byte that the other side sends, left where it is; -1 if it sends none."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            found = connection.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            readable: asyncio.Future[None] = loop.create_future()
            loop.add_reader(connection, _wake, readable)
            try:
                await readable
            finally:
                loop.remove_reader(connection)
        else:
            return found[0] if found else -1


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
