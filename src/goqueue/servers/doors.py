"""Doors: where a front-end accepts connections, plain or with TLS.

Every new TLS connection uses the context that is current when it arrives, so that changed certificates and removed
authorities take effect without a restart. Handshakes are bounded in number and time: a client that opens a
connection and says nothing costs a slot for a few seconds.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import msgspec

BACKLOG = 1024
HANDSHAKE_SECONDS_MAX = 10.0
HANDSHAKES_MAX = 1024
HANDSHAKES_PER_ADDRESS_MAX = 128
_ACCEPTED_PER_TURN = 64
_PAUSE_SECONDS = 0.5
_LOGGED_PER_SECOND = 10
_log = logging.getLogger(__name__)


class TlsFiles(msgspec.Struct, frozen=True):
    """Where the certificate, its key and the authorities of clients are, for a library that reads them itself."""

    certificate: str
    key: str
    client_ca: str
    client_certificates: str


class Door(msgspec.Struct, frozen=True):
    """A bound socket, and what connections through it get."""

    name: str
    socket: socket.socket
    # What clients are told to connect to.
    host: str
    port: int
    # The context for a connection that arrives now; None: plain.
    tls: Callable[[], ssl.SSLContext] | None = None
    # The same as files; None: plain.
    files: TlsFiles | None = None


class OpenDoor:
    """Accepts connections through a door until it is closed."""

    def __init__(self, door: Door, make_protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        self._door = door
        self._make_protocol = make_protocol
        self._server: asyncio.Server | None = None
        self._handshakes: set[asyncio.Task[None]] = set()
        self._addresses: Counter[str] = Counter()
        self._is_open = False
        self._log = _FailureLog(door.name)

    async def open(self) -> None:
        """Accept connections from now on."""
        self._loop = asyncio.get_running_loop()
        if self._door.tls is None:
            self._server = await self._loop.create_server(self._make_protocol, sock=self._door.socket, backlog=BACKLOG)
            return
        self._context = self._door.tls
        self._door.socket.listen(BACKLOG)
        self._is_open = True
        self._loop.add_reader(self._door.socket, self._accept)

    def close(self) -> None:
        """Accept no more. A second close does no harm."""
        if self._server is not None:
            self._server.close()
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._door.socket)
            self._door.socket.close()
            for task in self._handshakes:
                task.cancel()

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_PER_TURN):
            try:
                connection, address = self._door.socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # Hardly any file handles are left: without a pause this would run all the time.
                self._log.add(self._loop.time(), "?", str(error))
                self._loop.remove_reader(self._door.socket)
                self._loop.call_later(_PAUSE_SECONDS, self._accept_again)
                return
            host = str(address[0])
            if len(self._handshakes) >= HANDSHAKES_MAX or self._addresses[host] >= HANDSHAKES_PER_ADDRESS_MAX:
                connection.close()
                self._log.add(self._loop.time(), host, "too many handshakes are under way")
                continue
            self._begin(connection, host)

    def _accept_again(self) -> None:
        if self._is_open:
            self._loop.add_reader(self._door.socket, self._accept)

    def _begin(self, connection: socket.socket, host: str) -> None:
        connection.setblocking(False)
        self._addresses[host] += 1
        task = self._loop.create_task(self._shake_hands(connection, host))
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    async def _shake_hands(self, connection: socket.socket, host: str) -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._make_protocol,
                sock=connection,
                ssl=self._context(),
                ssl_handshake_timeout=HANDSHAKE_SECONDS_MAX,
            )
        except (OSError, ssl.SSLError, TimeoutError) as error:
            self._log.add(self._loop.time(), host, _reason(error))
            with suppress(OSError):
                connection.close()
        finally:
            self._addresses[host] -= 1
            if not self._addresses[host]:
                del self._addresses[host]


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return f"the TLS handshake failed: {error.reason or error}"
    return f"the TLS handshake failed: {str(error) or 'it took too long'}"


class _FailureLog:
    """Logs why connections were closed, but so many per second at most."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._second = 0
        self._logged = 0

    def add(self, now: float, host: str, reason: str) -> None:
        if int(now) != self._second:
            self._second, self._logged = int(now), 0
        self._logged += 1
        if self._logged <= _LOGGED_PER_SECOND:
            _log.info("listener %s: closing connection from %s: %s", self._name, host, reason)
