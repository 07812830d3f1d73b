"""Messages over one TCP connection: a length of four bytes, then that many bytes.

Received bytes go straight into the message that they belong to: a message of a megabyte is copied once, by the
kernel. Reading stops while messages that nobody has taken add up to more than a bound.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, cast

from goqueue.errors import PeerLost, PeerUnreachable
from goqueue.ports import Buffer

_LENGTH_BYTES = 4
# Bytes that one read takes while it is not known how long a message is: many small ones come at once.
_SCRATCH_BYTES = 65_536
# Messages received and not taken yet: reading goes on below it.
_QUEUED_BYTES_MAX = 8 * 1024 * 1024
# What a message counts besides its bytes: many empty ones must not add up to nothing.
_MESSAGE_BYTES = 64
# Bytes written and not sent yet: a sender waits above it.
_WRITE_BYTES_MAX = 4 * 1024 * 1024
# Messages that a node which has not authenticated may have sent before one of them is taken.
_STRANGE_MESSAGES_MAX = 2
# With TLS, the parts of a message up to this size are sent as one: each would be encrypted as a record of its own.
_JOINED_BYTES_MAX = 65_536
_ENCRYPTED_BYTES = 131_072


class TcpMessages(asyncio.BufferedProtocol):
    """One connection. It is a `PeerConnection` once `peer` is proved."""

    def __init__(self, message_bytes_max: int) -> None:
        """A message longer than `message_bytes_max` closes the connection, and so do many; see `admit`."""
        self.peer = -1
        # Of the other side, as `getpeercert` shows it; None: plain.
        self.certificate: Mapping[str, Any] | None = None
        # Why the connection ended, if it was not closed.
        self.failure = ""
        self._message_bytes_max = message_bytes_max
        self._is_admitted = False
        self._is_tls = False
        self._transport: asyncio.Transport | None = None
        self._scratch = bytearray(_SCRATCH_BYTES)
        self._scratch_view = memoryview(self._scratch)
        # Bytes in `_scratch` that are not taken apart yet: the beginning of a length or of a short message.
        self._held = 0
        # The long message that is being received, and how much of it is there.
        self._message: bytearray | None = None
        self._filled = 0
        self._received: deque[Buffer] = deque()
        self._queued_bytes = 0
        self._reading_paused = False
        self._news: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._closed = False

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._closed

    def admit(self, message_bytes_max: int) -> None:
        """The other side has authenticated: its messages may be long and many."""
        self._is_admitted = True
        self._message_bytes_max = message_bytes_max

    async def send(self, message: Buffer | Sequence[Buffer]) -> None:
        """See `PeerConnection.send`."""
        transport = self._transport
        if self._closed or transport is None:
            raise PeerUnreachable(self.peer, "the connection is closed")
        parts = [message] if isinstance(message, bytes | bytearray | memoryview) else list(message)
        size = sum(len(part) for part in parts)
        parts.insert(0, size.to_bytes(_LENGTH_BYTES, "big"))
        if not self._is_tls:
            transport.writelines(parts)
        elif size <= _JOINED_BYTES_MAX:
            transport.write(b"".join(parts))
        else:
            self._write_encrypted(transport, parts)
        while self._room is not None:
            await asyncio.shield(self._room)
            if self._closed:
                # It may have arrived: whoever sends it again must know that.
                raise PeerLost(self.peer, "the connection broke while a message was on its way")

    def _write_encrypted(self, transport: asyncio.Transport, parts: Sequence[Buffer]) -> None:
        """Write a long message in pieces: what is encrypted at once lies in a buffer that grows by copying."""
        for part in parts:
            view = memoryview(part)
            for at in range(0, len(view), _ENCRYPTED_BYTES):
                transport.write(view[at : at + _ENCRYPTED_BYTES])

    async def receive(self) -> Buffer | None:
        """See `PeerConnection.receive`."""
        while not self._received:
            if self._closed:
                return None
            self._news = asyncio.get_running_loop().create_future()
            try:
                await self._news
            finally:
                self._news = None
        message = self._received.popleft()
        self._queued_bytes -= len(message) + _MESSAGE_BYTES
        if self._reading_paused and self._queued_bytes < _QUEUED_BYTES_MAX and self._transport is not None:
            self._reading_paused = False
            self._transport.resume_reading()
        return message

    def close(self) -> None:
        """See `PeerConnection.close`."""
        if self._transport is not None:
            self._transport.abort()
        self._end()

    # --- what the loop calls --------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is there."""
        # Cast, not checked: the transports of uvloop are of no class of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_WRITE_BYTES_MAX)
        self.certificate = transport.get_extra_info("peercert")
        self._is_tls = transport.get_extra_info("ssl_object") is not None
        if self._closed:
            # Whoever waited for the connection gave up before it was there.
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing more is sent or received."""
        if exc is not None:
            self.failure = str(exc)
        self._end()

    def eof_received(self) -> bool:
        """The peer sends no more: close."""
        return False

    def pause_writing(self) -> None:
        """The peer reads slower than we write."""
        if self._room is None:
            self._room = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        """There is room again."""
        self._let_senders_go()

    def get_buffer(self, sizehint: int) -> Buffer:
        """Where the next bytes belong."""
        del sizehint
        if self._message is not None:
            return memoryview(self._message)[self._filled :]
        return self._scratch_view[self._held :]

    def buffer_updated(self, nbytes: int) -> None:
        """So many bytes were received."""
        if self._message is not None:
            self._filled += nbytes
            if self._filled == len(self._message):
                message, self._message = self._message, None
                self._take(message)
        else:
            self._held += nbytes
            self._take_apart()
        if self._received and self._news is not None and not self._news.done():
            self._news.set_result(None)

    # --- inside ---------------------------------------------------------------------------

    def _take_apart(self) -> None:
        """Cut what is in the scratch buffer into messages; a long one is received into a buffer of its own."""
        view, at, held = self._scratch_view, 0, self._held
        while held - at >= _LENGTH_BYTES:
            size = int.from_bytes(view[at : at + _LENGTH_BYTES], "big")
            if size > self._message_bytes_max:
                self.close()
                return
            begin = at + _LENGTH_BYTES
            there = held - begin
            if there >= size:
                self._take(bytes(view[begin : begin + size]))
                if self._closed:
                    return
                at = begin + size
            elif size + _LENGTH_BYTES <= _SCRATCH_BYTES:
                break
            else:
                self._message = bytearray(size)
                self._message[:there] = view[begin:held]
                self._filled, at = there, held
                break
        rest = held - at
        if at and rest:
            self._scratch[:rest] = self._scratch[at:held]
        self._held = rest

    def _take(self, message: Buffer) -> None:
        self._received.append(message)
        self._queued_bytes += len(message) + _MESSAGE_BYTES
        if not self._is_admitted and len(self._received) > _STRANGE_MESSAGES_MAX:
            self.close()
            return
        if self._queued_bytes >= _QUEUED_BYTES_MAX and not self._reading_paused and self._transport is not None:
            self._reading_paused = True
            self._transport.pause_reading()

    def _end(self) -> None:
        self._closed = True
        self._let_senders_go()
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def _let_senders_go(self) -> None:
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)
