"""The thread behind the blocking client: an event loop that does the work while callers wait."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from goqueue.client.errors import ClientClosed, ClientError, SendFailed

T = TypeVar("T")


class BackgroundLoop:
    """An event loop that lives in a thread of its own until closed."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="goqueue-client", daemon=True)
        self._thread.start()
        self._pid = os.getpid()
        # Also when it is dropped, or the program ends: what still runs on it is ended, not torn off.
        self.closing: list[Callable[[], Coroutine[Any, Any, None]]] = []
        self._end = weakref.finalize(self, _end_loop, self._loop, self._thread, self._pid, self.closing)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it there and wait for what comes of it."""
        return self.submit(work).result()

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Do it there; the future tells."""
        try:
            self.check_usable()
        except ClientError:
            work.close()
            raise
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call_soon(self, function: Callable[..., None], *given: object) -> None:
        """Call it there, in the order of these calls."""
        self._check_alive()
        self._loop.call_soon_threadsafe(function, *given)

    def check_usable(self) -> None:
        """Refuse what could only hang: a loop that is closed, in another process, or waiting for itself."""
        self._check_alive()
        if threading.current_thread() is self._thread:
            raise ClientError("a blocking call on the client's own thread would never return: use the async client")

    def _check_alive(self) -> None:
        if self.closed:
            raise ClientClosed("the client is closed: open another one with connect()")
        if os.getpid() != self._pid:
            raise ClientError("the client was opened before a fork: open one in this process, with connect()")

    @property
    def closed(self) -> bool:
        """Whether nothing runs any more."""
        return self._loop.is_closed()

    def close(self) -> None:
        """End the thread. A second close does no harm."""
        self._end()


def _end_loop(
    loop: asyncio.AbstractEventLoop,
    thread: threading.Thread,
    pid: int,
    closing: list[Callable[[], Coroutine[Any, Any, None]]],
) -> None:
    # After a fork the thread is not here, and waiting for it would never end.
    if os.getpid() != pid:
        return

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
        try:
            self.close()
        except SendFailed as failed:
            if error is None:
                raise
            # The error of the block goes on; what was not stored is told with it.
            error.add_note(f"when the block was left: {failed}")
