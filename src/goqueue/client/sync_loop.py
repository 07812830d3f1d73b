"""The thread behind the blocking client: an event loop that does the work while callers wait."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")


class BackgroundLoop:
    """An event loop that lives in a thread of its own until closed."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="goqueue-client", daemon=True)
        self._thread.start()
        # Also when it is dropped, or the program ends: what still runs on it is ended, not torn off.
        self.closing: list[Callable[[], Coroutine[Any, Any, None]]] = []
        self._end = weakref.finalize(self, _end_loop, self._loop, self._thread, self.closing)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it there and wait for what comes of it."""
        return self.submit(work).result()

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Do it there; the future tells."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    @property
    def closed(self) -> bool:
        """Whether nothing runs any more."""
        return self._loop.is_closed()

    def close(self) -> None:
        """End the thread. A second close does no harm."""
        self._end()


def _end_loop(
    loop: asyncio.AbstractEventLoop, thread: threading.Thread, closing: list[Callable[[], Coroutine[Any, Any, None]]]
) -> None:
    async def cancel_all() -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await asyncio.gather(*(close() for close in closing), return_exceptions=True)
        loop.stop()

    asyncio.run_coroutine_threadsafe(cancel_all(), loop)
    # The collector may call from the loop's own thread: it can stop itself, but not wait for itself.
    if threading.current_thread() is not thread:
        thread.join()
        loop.close()


class Closable(ABC):
    """Whatever is closed when its `with` block is left."""

    @abstractmethod
    def close(self) -> None:
        """Be done with it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
