"""How much memory the answers of all front-ends together may take, from the read until the client has them.

Nobody reads from the log while the budget is used up: readers wait a bounded time and are then told to come
again. Many large reads at once take turns, so that the loop serves others between them. A client that takes
nothing of its answer for `unread_ms_max` is closed, and after a second already when others wait for its memory.
One answer may pass the limit, since its size is known only when it is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from goqueue.errors import TooBusy

SWEEP_SECONDS = 0.25
# After this many bytes were read, further reads wait for the next turn of the loop.
TURN_BYTES = 8 * 1024 * 1024
# A client that has taken nothing for this long is closed when others wait for the memory.
STALLED_SECONDS = 1.0


class AnswerHolder(Protocol):
    """A connection that has answers its client has not taken yet."""

    def unread_bytes(self) -> int:
        """How much that is now."""
        ...

    def go_on(self) -> None:
        """There is room for answers again."""
        ...

    def evict(self, reason: str) -> None:
        """Close: the client does not read."""
        ...


class _Unread:
    __slots__ = ("size", "unchanged_since")

    def __init__(self, size: int, now: float) -> None:
        self.size = size
        self.unchanged_since = now


class AnswerBudget:
    """Counts the bytes of answers under way on one node."""

    def __init__(self, bytes_max: int, *, unread_ms_max: int, wait_ms_max: int) -> None:
        self._bytes_max = bytes_max
        self._unread_seconds_max = unread_ms_max / 1000
        self._wait_seconds_max = wait_ms_max / 1000
        self._unread: dict[AnswerHolder, _Unread] = {}
        self._unread_bytes = 0
        # Told to close, but their bytes are only free when they have.
        self._evicted: dict[AnswerHolder, int] = {}
        self._held_bytes = 0
        self._waiting: dict[AnswerHolder, None] = {}
        self._rooms: dict[asyncio.Future[None], None] = {}
        self._sweep: asyncio.TimerHandle | None = None
        self._turn_bytes = 0
        self._is_turn_over = False

    @property
    def bytes(self) -> int:
        """Bytes of all answers under way."""
        return self._unread_bytes + self._held_bytes

    @property
    def is_full(self) -> bool:
        """Whether nothing more should be read now."""
        return self._is_short()

    # --- before an answer is read -----------------------------------------------------

    def may_answer(self, holder: AnswerHolder) -> bool:
        """Whether to work on a request now. If not, `go_on` is called when it is worth asking again."""
        if not self.is_full:
            return True
        self._waiting.setdefault(holder)
        return False

    async def has_room(self, seconds: float) -> bool:
        """Wait until something may be read, or the time is up."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while self._is_short():
            left = deadline - loop.time()
            # The next turn comes at once, and is worth waiting for even without time.
            if left <= 0 and not self._is_turn_over:
                return False
            room: asyncio.Future[None] = loop.create_future()
            self._rooms[room] = None
            try:
                await asyncio.wait((room,), timeout=max(left, 0.01))
            finally:
                self._rooms.pop(room, None)
        return True

    async def room(self) -> None:
        """Wait until something may be read; TooBusy when that takes too long."""
        if self.is_full and not await self.has_room(self._wait_seconds_max):
            busy = TooBusy(f"unread answers take {self.bytes} bytes of memory, at most {self._bytes_max} are allowed")
            busy.hint = "retry; if this stays, look for clients that do not read, or raise limits.answer_bytes_max"
            raise busy

    # --- between the read and the connection ------------------------------------------

    @contextmanager
    def held(self, size: int) -> Iterator[None]:
        """Count bytes that were read and are being made into an answer."""
        self._held_bytes += size
        self._count_turn(size)
        try:
            yield
        finally:
            self._release(size)

    def pass_on(self, size: int) -> None:
        """Count bytes on their way to a connection, which counts them itself two turns of the loop later."""
        if size:
            self._held_bytes += size
            self._count_turn(size)
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, self._release, size)

    def _release(self, size: int) -> None:
        self._held_bytes -= size
        self._wake()

    # --- at the connection ------------------------------------------------------------

    def set_unread(self, holder: AnswerHolder, size: int) -> None:
        """Note how much of its answers the holder's client has not taken yet."""
        if holder in self._evicted:
            return
        known = self._unread.get(holder)
        if known is None:
            if not size:
                return
            known = self._unread[holder] = _Unread(0, asyncio.get_running_loop().time())
            if self._sweep is None:
                self._schedule_sweep()
        elif size != known.size:
            known.unchanged_since = asyncio.get_running_loop().time()
        if size > known.size:
            self._count_turn(size - known.size)
        self._unread_bytes += size - known.size
        known.size = size
        if not size:
            del self._unread[holder]
        self._wake()

    def forget(self, holder: AnswerHolder) -> None:
        """The connection is gone, or has sent all that was counted."""
        known = self._unread.pop(holder, None)
        self._unread_bytes -= (0 if known is None else known.size) + self._evicted.pop(holder, 0)
        self._waiting.pop(holder, None)
        self._wake()

    def _is_short(self) -> bool:
        return self._is_turn_over or self._unread_bytes + self._held_bytes >= self._bytes_max

    def _wake(self) -> None:
        """Let those who wait go on, one after the other: each may use up what there is."""
        while self._waiting and not self._is_short():
            holder = next(iter(self._waiting))
            del self._waiting[holder]
            holder.go_on()
        if self._rooms and not self._is_short():
            # It reads in the next turn; the others are looked at after that.
            room = next(iter(self._rooms))
            del self._rooms[room]
            if not room.done():
                room.set_result(None)
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, self._wake)

    def _count_turn(self, size: int) -> None:
        self._turn_bytes += size
        if self._turn_bytes >= TURN_BYTES:
            self._turn_bytes = 0
            if not self._is_turn_over:
                self._is_turn_over = True
                asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._is_turn_over = False
        self._wake()

    # --- clients that do not read -----------------------------------------------------

    def _schedule_sweep(self) -> None:
        self._sweep = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._look)

    def _look(self) -> None:
        """Close the clients that have taken nothing for too long, those that stand longest first."""
        self._sweep = None
        now = asyncio.get_running_loop().time()
        for holder in list(self._unread):
            self.set_unread(holder, holder.unread_bytes())
        by_age = sorted(self._unread.items(), key=lambda one: one[1].unchanged_since)
        for holder, known in by_age:
            seconds = now - known.unchanged_since
            if seconds >= self._unread_seconds_max:
                self._evict(holder, f"it has read nothing of its answer for {seconds:.0f} s")
            elif seconds >= STALLED_SECONDS and self.bytes - sum(self._evicted.values()) >= self._bytes_max:
                self._evict(holder, "it leaves its answers unread while memory for answers is short")
        if self._unread and self._sweep is None:
            self._schedule_sweep()

    def _evict(self, holder: AnswerHolder, reason: str) -> None:
        self._evicted[holder] = self._unread.pop(holder).size
        holder.evict(reason)
