"""Cuts a stream of bytes into requests: four bytes of length, then as many bytes.

Reads land in buffers that all connections of a server share, since each is emptied
before the next. Only a request that did not arrive whole gets a buffer of its own, and
then the network fills it directly. That buffer grows with what has arrived, not with what
was announced: a stranger's word costs us nothing.
"""

from __future__ import annotations

from goqueue.errors import MalformedRequest
from goqueue.heap import unfilled
from goqueue.ports import Buffer

LENGTH_BYTES = 4
ARENA_BYTES = 64 * 1024
FIRST_CAPACITY_BYTES = 64 * 1024


class Arena:
    """Where the bytes of all connections of a server land."""

    __slots__ = ("_spare", "small")

    def __init__(self) -> None:
        self.small = memoryview(bytearray(ARENA_BYTES))
        self._spare = bytearray()

    def spare(self, size: int) -> bytearray:
        """A buffer of `size` bytes, which is the next reader's too unless it is taken out."""
        if len(self._spare) != size:
            self._spare = unfilled(size)
        return self._spare

    def take_spare(self) -> bytearray:
        """The buffer given last, for whoever found a request in it that is worth keeping in its place."""
        spare, self._spare = self._spare, bytearray()
        return spare


class Framing:
    """The unfinished end of one connection's stream."""

    __slots__ = ("_arena", "_expected", "_filled", "_head", "_last", "_partial", "_size_max", "_size_proven", "_span")

    def __init__(self, arena: Arena, *, request_bytes_max: int) -> None:
        self._arena = arena
        self._size_max = request_bytes_max
        # Up to three bytes of a length that is not whole yet.
        self._head = b""
        self._partial: bytearray | None = None
        self._filled = 0
        # Where the unfinished request begins and ends in its buffer.
        self._span = (0, 0)
        # The largest request that this connection has really sent.
        self._size_proven = FIRST_CAPACITY_BYTES
        # The size of the last request, and of the next with its length: 0 unless it is likely a large one.
        self._last = 0
        self._expected = 0

    def limit(self, request_bytes_max: int) -> None:
        """The largest request from now on."""
        self._size_max = request_bytes_max

    @property
    def held_bytes(self) -> int:
        """Memory that the unfinished request takes."""
        return 0 if self._partial is None else len(self._partial)

    def room(self) -> memoryview:
        """Where the next bytes go."""
        partial = self._partial
        if partial is None:
            return memoryview(self._arena.spare(self._expected)) if self._expected else self._arena.small
        end = self._span[1]
        if self._filled == len(partial):
            partial.extend(bytes(min(self._filled, end - self._filled)))
        return memoryview(partial)[self._filled : end]

    def received(self, count: int) -> list[Buffer]:
        """Take `count` bytes that were put into `room`; returns the requests that are whole now."""
        if self._partial is not None:
            self._filled += count
            return [self._finished()] if self._filled == self._span[1] else []
        if self._expected:
            return self._split_large(memoryview(self._arena.spare(self._expected))[:count])
        data = self._arena.small[:count]
        if self._head:
            data = memoryview(self._head + data)
            self._head = b""
        return self._split(data)

    def _split_large(self, data: memoryview) -> list[Buffer]:
        """Where a large request was expected and came, it stays where it is: copying it costs more than the rest."""
        size = int.from_bytes(data[:LENGTH_BYTES], "big", signed=True)
        # One that is much smaller would keep more memory than the budget counts for it.
        is_as_expected = ARENA_BYTES < size <= self._size_max and size + size // 4 >= self._expected
        if len(data) < LENGTH_BYTES or not is_as_expected:
            return self._split(data)
        end = LENGTH_BYTES + size
        self._partial = self._arena.take_spare()
        self._span = (LENGTH_BYTES, end)
        self._filled = min(len(data), end)
        if self._filled < end:
            return []
        return [self._finished(), *self._split(data[end:])]

    def _split(self, data: memoryview) -> list[Buffer]:
        whole: list[Buffer] = []
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
            self._last = self._expected = 0
            position += size
        if position < end:
            self._head = bytes(data[position:])
            # The length that is cut in two is put together in the small buffer.
            self._expected = 0
        return whole

    def _begin(self, start: memoryview, size: int) -> None:
        self._span = (0, size)
        self._filled = len(start)
        capacity = min(size, max(self._size_proven, 2 * self._filled))
        self._partial = unfilled(capacity)
        self._partial[: self._filled] = start

    def _finished(self) -> Buffer:
        """The request that was unfinished. After two large ones the next is expected to be as large."""
        whole, self._partial = self._partial, None
        start, end = self._span
        size = end - start
        smaller = min(self._last, size)
        self._expected = smaller + LENGTH_BYTES if smaller > ARENA_BYTES else 0
        self._last = size
        self._size_proven = max(self._size_proven, size)
        return memoryview(whole or b"")[start:end]


def _why_refused(length: bytes, size_max: int) -> str:
    # The commonest cause is a client of another protocol: say so, instead of a number that means nothing.
    if length in {b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI"}:
        return "it speaks HTTP, which is served on another port"
    if length[:2] == b"\x16\x03":
        return "it speaks TLS, which is not switched on"
    size = int.from_bytes(length, "big", signed=True)
    return f"a request announces {size} bytes, at most {size_max} are allowed"
