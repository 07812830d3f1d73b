"""DeltaFeed: hands each delta to every listener and watcher, once and in order.

The newest deltas are kept, so that a watcher may begin in the past or fall behind a little. One that
asks for more is told so, and reads the image instead.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from goqueue.metadata.events import Delta
from goqueue.metadata.store import Listener, RevisionCompacted

HISTORY_MAX = 256


class DeltaFeed:
    """The deltas of one store, from the revision at which it was opened."""

    def __init__(self, revision: int, *, history_max: int = HISTORY_MAX) -> None:
        self._listeners: list[Listener] = []
        self._history: deque[Delta] = deque()
        self._history_max = history_max
        # Everything after this revision is in the history.
        self._floor = revision
        self._news = asyncio.Event()
        self._closed = False

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` with every delta from now on."""
        self._listeners.append(listener)

    def publish(self, delta: Delta) -> None:
        """Tell everyone. A listener that fails takes nothing with it."""
        self._history.append(delta)
        if len(self._history) > self._history_max:
            self._floor = self._history.popleft().revision
        for listener in self._listeners:
            self._tell(listener, delta)
        self._news.set()
        self._news = asyncio.Event()

    def close(self) -> None:
        """End every watch once it has had all that was published."""
        self._closed = True
        self._news.set()

    async def watch(self, after: int) -> AsyncIterator[Delta]:
        """Every delta after that revision; ends when the feed is closed."""
        while True:
            if after < self._floor:
                raise RevisionCompacted(after, self._floor)
            waiting = [delta for delta in self._history if delta.revision > after]
            if not waiting:
                if self._closed:
                    return
                await self._news.wait()
            for delta in waiting:
                after = delta.revision
                yield delta

    def _tell(self, listener: Listener, delta: Delta) -> None:
        try:
            listener(delta)
        except Exception as error:  # noqa: BLE001 - the delta is durable whatever a listener makes of it
            names = ", ".join(type(event).__name__ for event in delta.events)
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"a listener failed at revision {delta.revision} ({names})", "exception": error}
            )
