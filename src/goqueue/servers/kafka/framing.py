"""Cuts a stream of bytes into requests: four bytes of length, then as many bytes.

Reads land in a buffer that all connections of a server share, since each is emptied
before the next. Only a request that did not arrive whole gets a buffer of its own, and
then the network fills it directly. That buffer grows with what has arrived, not with what
was announced: a stranger's word costs us nothing.
"""

from __future__ import annotations

from goqueue.errors import MalformedRequest
from goqueue.heap import unfilled

LENGTH_BYTES = 4
ARENA_BYTES = 64 * 1024
FIRST_CAPACITY_BYTES = 64 * 1024


class Framing:
    """The unfinished end of one connection's stream."""

    __slots__ = ("_arena", "_filled", "_head", "_partial", "_size", "_size_max", "_size_proven")

    def __init__(self, arena: memoryview, *, request_bytes_max: int) -> None:
        self._arena = arena
        self._size_max = request_bytes_max
        # Up to three bytes of a length that is not whole yet.
        self._head = b""
        self._partial: bytearray | None = None
        self._filled = 0
        self._size = 0
        # The largest request that this connection has really sent.
        self._size_proven = FIRST_CAPACITY_BYTES

    @property
    def held_bytes(self) -> int:
        """Memory that the unfinished request takes."""
        return 0 if self._partial is None else len(self._partial)

    def room(self) -> memoryview:
        """Where the next bytes go."""
        partial = self._partial
        if partial is None:
            return self._arena
        if self._filled == len(partial):
            partial.extend(bytes(min(self._filled, self._size - self._filled)))
        return memoryview(partial)[self._filled :]

    def received(self, count: int) -> list[bytes | bytearray]:
        """Take `count` bytes that were put into `room`; returns the requests that are whole now."""
        if self._partial is None:
            data = self._arena[:count]
            if self._head:
                data = memoryview(self._head + data)
                self._head = b""
            return self._split(data)
        self._filled += count
        if self._filled < self._size:
            return []
        whole, self._partial = self._partial, None
        self._size_proven = max(self._size_proven, self._size)
        return [whole]

    def _split(self, data: memoryview) -> list[bytes | bytearray]:
        whole: list[bytes | bytearray] = []
        position, end = 0, len(data)
        while end - position >= LENGTH_BYTES:
            size = int.from_bytes(data[position : position + LENGTH_BYTES], "big", signed=True)
            if not 0 < size <= self._size_max:
                raise MalformedRequest(_why_refused(bytes(data[position : position + LENGTH_BYTES]), self._size_max))
            position += LENGTH_BYTES
            if end - position < size:
                self._begin(data[position:], size)
                return whole
            whole.append(bytes(data[position : position + size]))
            position += size
        self._head = bytes(data[position:])
        return whole

    def _begin(self, start: memoryview, size: int) -> None:
        self._size = size
        self._filled = len(start)
        capacity = min(size, max(self._size_proven, 2 * self._filled))
        self._partial = unfilled(capacity)
        self._partial[: self._filled] = start


def _why_refused(length: bytes, size_max: int) -> str:
    # The commonest cause is a client of another protocol: say so, instead of a number that means nothing.
    if length in {b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI"}:
        return "it speaks HTTP, which is served on another port"
    if length[:2] == b"\x16\x03":
        return "it speaks TLS, which is not switched on"
    size = int.from_bytes(length, "big", signed=True)
    return f"a request announces {size} bytes, at most {size_max} are allowed"
