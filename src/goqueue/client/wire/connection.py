"""One connection to one broker: requests go out and answers come back in the same order."""

from __future__ import annotations

import socket
import ssl
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from struct import Struct
from typing import Any

from goqueue.client.wire.errors import AnswerLost, LoginFailed
from goqueue.client.wire.login import log_in
from goqueue.client.wire.security import WireSecurity
from goqueue.codec.kafka.decode import response_decoder
from goqueue.codec.kafka.encode import request_encoder
from goqueue.ports import Buffer

ANSWER_BYTES_MAX = 1 << 30
# Spare bytes behind every answer: who reads numbers eight bytes at a time may look past its end.
ROOM_BYTES = 16
_SOCKET_BUFFER_BYTES = 4 * 1024 * 1024
# The system takes no more at once.
_PARTS_MAX = 1024
_TIMEVAL = Struct("ll")
# A session is renewed before it ends.
_SESSION_SHARE = 0.8


class AnswerBuffer:
    """Memory for one answer after the other: whoever gives it away again has done with the answer before."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def room(self, size: int) -> memoryview:
        """So many bytes, with room behind them."""
        if len(self._bytes) < size + ROOM_BYTES:
            self._bytes = bytearray(size + ROOM_BYTES)
        return memoryview(self._bytes)[:size]


class WireConnection:
    """A socket. `call` asks and waits; `send` and `receive` do half of it each, for many in flight."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str,
        timeout_s: float,
        tls: ssl.SSLContext | None = None,
        security: WireSecurity | None = None,
    ) -> None:
        self._socket = socket.create_connection((host, port), timeout=timeout_s)
        with suppress(OSError):
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SOCKET_BUFFER_BYTES)
        self._timeout_s = timeout_s
        self._is_tls = tls is not None
        if tls is None:
            self._leave_time_to_the_system()
        else:
            try:
                self._socket = tls.wrap_socket(self._socket, server_hostname=host)
            except ssl.SSLCertVerificationError as error:
                self._socket.close()
                raise LoginFailed(f"the certificate of {host}:{port} is not trusted: {error.verify_message}") from error
        self.where = f"{host}:{port}"
        self._client_id = client_id
        self._correlation_id = 0
        self._owed: deque[tuple[int, int, int]] = deque()
        self.is_open = True
        self._security = security if security is not None and security.mechanism else None
        # When to log in again; None: the session does not end.
        self._log_in_at: float | None = None
        if self._security is not None:
            self._log_in()

    @property
    def in_flight(self) -> int:
        """Requests whose answers have not been read."""
        return len(self._owed)

    def call(self, api_key: int, version: int, request: Mapping[str, Any], buffer: AnswerBuffer | None = None) -> Any:
        """Send a request and return its answer."""
        self.send(api_key, version, request)
        return self.receive(buffer)

    def send(self, api_key: int, version: int, request: Mapping[str, Any]) -> None:
        """Send a request; `receive` returns the answers in the order of the requests."""
        if self._log_in_at is not None and not self._owed and time.monotonic() >= self._log_in_at:
            self._log_in()
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        parts = request_encoder(api_key, version)(self._correlation_id, self._client_id, request)
        self._owed.append((api_key, version, self._correlation_id))
        try:
            self._send_all(parts)
        except OSError as error:
            raise self._broken(f"sending failed: {self._told(error)}") from error

    def receive(self, buffer: AnswerBuffer | None = None) -> Any:
        """The answer to the oldest request that has none yet. Its records are views of `buffer`, if one is given."""
        api_key, version, correlation_id = self._owed.popleft()
        try:
            size = int.from_bytes(self._fill(memoryview(bytearray(4))), "big")
            if not 4 <= size <= ANSWER_BYTES_MAX:
                raise self._broken(f"an answer of {size} bytes: is this a Kafka port?")
            data = self._fill((buffer or AnswerBuffer()).room(size))
        except OSError as error:
            raise self._broken(f"no answer: {self._told(error)}") from error
        got, answer = response_decoder(api_key, version)(data)
        if got != correlation_id:
            raise self._broken(f"answer {got} came for request {correlation_id}")
        return answer

    def close(self) -> None:
        """End the connection; harmless when it has ended. Another thread that reads from it is woken."""
        self.is_open = False
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _log_in(self) -> None:
        """Log in, for the first time or again (KIP-368)."""
        self._log_in_at = None
        if self._security is None:
            return
        try:
            lifetime_ms = log_in(self, self._security)
        except BaseException:
            self.close()
            raise
        if lifetime_ms:
            self._log_in_at = time.monotonic() + lifetime_ms / 1000 * _SESSION_SHARE

    def _send_all(self, parts: Sequence[Buffer]) -> None:
        """Together, so that the broker is not woken for the first few bytes alone."""
        if self._is_tls:
            self._socket.sendall(b"".join(parts))
            return
        left = deque(memoryview(part) for part in parts if len(part))
        while left:
            sent = self._socket.sendmsg(islice(left, _PARTS_MAX))
            while left and sent >= len(left[0]):
                sent -= len(left.popleft())
            if sent:
                left[0] = left[0][sent:]

    def _fill(self, data: memoryview) -> memoryview:
        view = data
        flags = 0 if self._is_tls else socket.MSG_WAITALL
        while view:
            count = self._socket.recv_into(view, 0, flags)
            if not count:
                raise self._broken("the broker closed the connection")
            view = view[count:]
        return data

    def _leave_time_to_the_system(self) -> None:
        """With a timeout of Python's own, every piece of a large answer costs two calls and a wait for the GIL."""
        seconds, rest = divmod(self._timeout_s, 1)
        limit = _TIMEVAL.pack(int(seconds), int(rest * 1_000_000))
        with suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
            self._socket.settimeout(None)

    def _told(self, error: OSError) -> str:
        # What the system says of its own timeout is that one should try again.
        return f"timed out after {self._timeout_s:g} s" if isinstance(error, BlockingIOError) else str(error)

    def _broken(self, reason: str) -> AnswerLost:
        self.close()
        return AnswerLost(f"{self.where}: {reason}")
