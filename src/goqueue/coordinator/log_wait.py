"""LogWait: one question to a shard's writer at a time, which serves all replies that wait for the same.

How far the log is safe is asked again while more waits; there is one such wait for the replicas and one for the disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from goqueue.errors import CoordinatorUnavailable

# Waits until the log is safe up to an offset; None if it is now.
Ask = Callable[[int], Awaitable[None] | None]


class LogWait:
    """Asks, waits, and tells `on_reached` how far it is safe, or `on_failure` why that will never be known."""

    def __init__(
        self, ask: Ask, on_reached: Callable[[int], None], on_failure: Callable[[BaseException], None]
    ) -> None:
        self._ask = ask
        self._on_reached = on_reached
        self._on_failure = on_failure
        self.under_way: asyncio.Future[None] | None = None

    def begin(self, end_offset: int) -> None:
        """Ask, unless an answer is awaited: then whoever is told of that one asks for the rest."""
        if self.under_way is not None:
            return
        try:
            unsafe = self._ask(end_offset)
        except Exception as error:  # noqa: BLE001 - no promise can be kept any more
            self._on_failure(error)
            return
        if unsafe is None:
            self._on_reached(end_offset)
            return
        self.under_way = asyncio.ensure_future(unsafe)
        self.under_way.add_done_callback(lambda done: self._done(end_offset, done))

    def _done(self, end_offset: int, done: asyncio.Future[None]) -> None:
        self.under_way = None
        error = CoordinatorUnavailable("the wait for the log was cancelled") if done.cancelled() else done.exception()
        if error is not None:
            self._on_failure(error)
            return
        self._on_reached(end_offset)
