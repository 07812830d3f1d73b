"""Threads for work that blocks: syncs, cold reads, compaction."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class ThreadOffload:
    """The `Offload` port on a pool of threads. The calls we offload release the interpreter lock."""

    def __init__(self, name: str, *, threads_max: int) -> None:
        self._pool = ThreadPoolExecutor(threads_max, thread_name_prefix=f"goqueue-{name}")

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]:
        """Run `work` in a thread and await what it returns or raises."""
        return asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        """Wait for the work under way, then end the threads. A second close does no harm."""
        self._pool.shutdown(wait=True)
