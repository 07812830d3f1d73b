"""AuditTopic: lines of the audit log on their way to the topic `__audit`, which any node of a cluster may lead.

A line is appended here if this node leads the topic. Otherwise it waits, in order and bounded, until the leader has it.
While nobody leads, lines wait. After a lost connection lines are sent again: one may be there twice, none is missing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import islice

from goqueue.errors import GoQueueError, StorageError

_WAITING_MAX = 10_000
_LINES_PER_CALL = 1_000
_RETRY_S, _RETRY_S_MAX = 0.05, 1.0
_CLOSE_S_MAX = 2.0

AppendHere = Callable[[Sequence[bytes]], None]
AppendThere = Callable[[Sequence[bytes]], Awaitable[None]]


class AuditTopic:
    """A sink of the audit log."""

    def __init__(self, append_here: AppendHere, append_there: AppendThere | None) -> None:
        """`append_here` raises a GoQueueError where this node does not lead. Without `append_there` it is alone."""
        self._append_here = append_here
        self._append_there = append_there
        self._waiting: deque[bytes] = deque()
        self._sent = 0
        self._news = asyncio.Event()
        self._progress = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        # Why the lines that wait are not stored yet.
        self.failure = ""

    def start(self) -> None:
        """Send lines to the leader from now on."""
        if self._append_there is not None:
            self._task = asyncio.create_task(self._send_forever(self._append_there))

    async def close(self) -> None:
        """Give what waits a moment to arrive, and stop. A second close does no harm."""
        task, self._task = self._task, None
        if task is not None:
            await self._stored(_CLOSE_S_MAX)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def __call__(self, lines: Sequence[bytes]) -> None:
        """Append, or let wait; raises a GoQueueError if neither can be done."""
        if not self._waiting:
            try:
                self._append_here(lines)
            except GoQueueError:
                if self._append_there is None:
                    raise
            else:
                return
        if len(self._waiting) + len(lines) > _WAITING_MAX:
            raise StorageError(f"{len(self._waiting)} lines wait for a leader of the audit topic: {self.failure}")
        self._waiting.extend(lines)
        self._news.set()

    async def stored(self, seconds_max: float) -> str:
        """Wait until all that was given is stored; returns why it is not, or nothing."""
        if await self._stored(seconds_max):
            return ""
        return self.failure or "the leader of the audit topic does not answer"

    async def _stored(self, seconds_max: float) -> bool:
        wanted = self._sent + len(self._waiting)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds_max):
                while self._sent < wanted:
                    self._progress.clear()
                    await self._progress.wait()
        return self._sent >= wanted

    async def _send_forever(self, append_there: AppendThere) -> None:
        pause = _RETRY_S
        while True:
            await self._news.wait()
            lines = list(islice(self._waiting, _LINES_PER_CALL))
            if not lines:
                self._news.clear()
                continue
            try:
                await append_there(lines)
            except GoQueueError as error:
                self.failure = str(error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _RETRY_S_MAX)
                continue
            for _ in lines:
                self._waiting.popleft()
            self._sent += len(lines)
            self.failure, pause = "", _RETRY_S
            self._progress.set()
