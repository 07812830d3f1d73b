"""SettlingLoop: an event loop in a thread of its own, which knows when it has nothing left to do."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

# Sockets are looked at between two passes, so one quiet pass may be followed by a busy one.
_QUIET_PASSES = 2


class SettlingLoop:
    """Runs coroutines for other threads until closed."""

    def __init__(self, name: str) -> None:
        self._loop = _CountingLoop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop itself."""
        return self._loop

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run to the end, and return or raise what it did. For other threads only."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def settle(self) -> None:
        """Return once nothing is ready to run and no thread works. Timers and sockets may still wait."""
        quiet_passes = 0
        while quiet_passes < _QUIET_PASSES:
            await self._loop.threads_at_rest()
            quiet_passes = quiet_passes + 1 if self._loop.is_quiet() else 0

    def close(self) -> None:
        """End what still runs, then the thread. A second close does no harm."""
        if self._loop.is_closed():
            return
        self.run(_end_tasks())
        self.run(self._loop.shutdown_asyncgens())
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _CountingLoop(asyncio.SelectorEventLoop):
    """The library's loop, counting the work that threads do for it."""

    def __init__(self) -> None:
        super().__init__()
        self._threads_at_work = 0
        self._waiting: list[asyncio.Future[None]] = []

    def is_quiet(self) -> bool:
        """Whether, apart from the caller, nothing is about to run."""
        return self._threads_at_work == 0 and not self._ready  # type: ignore[attr-defined]

    async def threads_at_rest(self) -> None:
        """Let one pass of the loop go by, and as many more as threads need for their work."""
        await asyncio.sleep(0)
        if self._threads_at_work:
            rest = self.create_future()
            self._waiting.append(rest)
            await rest

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        """As the library's."""
        future = super().run_in_executor(executor, func, *args)
        self._threads_at_work += 1
        future.add_done_callback(self._thread_is_done)
        return future

    def _thread_is_done(self, _: asyncio.Future[Any]) -> None:
        self._threads_at_work -= 1
        if self._threads_at_work == 0:
            waiting, self._waiting = self._waiting, []
            for rest in waiting:
                if not rest.done():
                    rest.set_result(None)


async def _end_tasks() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
