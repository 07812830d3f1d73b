"""Tasks in threads of this process. Checksums, hashes and copies run outside of the interpreter's lock."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, CancelledError, Future, ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

# More threads wait for the same disk.
_THREADS_MAX = 8
# How often progress is shown while nothing ends.
_LOOK_S = 0.2


class LocalTasks:
    """Runs tasks in threads; `show` is told how many of how many bytes are done."""

    def __init__(
        self, show: Callable[[int, int], None] = lambda _done, _total: None, threads: int | None = None
    ) -> None:
        self._show = show
        self._threads = threads or min(os.cpu_count() or 1, _THREADS_MAX)

    def __call__(
        self,
        name: str,
        work: Callable[[T], R],
        pieces: Sequence[T],
        *,
        size: Callable[[T], int],
        announce: Callable[[T], object] = lambda _piece: None,  # noqa: ARG002 - threads read ahead of each other
    ) -> list[R]:
        """Do `work` on every piece, the largest first; the first failure stops what has not begun."""
        failed = threading.Event()

        def guarded(piece: T) -> R:
            if failed.is_set():
                raise CancelledError
            try:
                return work(piece)
            except BaseException:
                failed.set()
                raise

        total = sum(map(size, pieces))
        self._show(0, total)
        order = sorted(range(len(pieces)), key=lambda number: size(pieces[number]), reverse=True)
        # Its end waits for what has begun: nothing is written any more when an error leaves here.
        with ThreadPoolExecutor(self._threads, thread_name_prefix=name) as pool:
            tasks: dict[int, Future[R]] = {number: pool.submit(guarded, pieces[number]) for number in order}
            waiting = set(tasks.values())
            try:
                while waiting and not failed.is_set():
                    waiting = wait(waiting, _LOOK_S, FIRST_EXCEPTION).not_done
                    self._show(sum(size(pieces[number]) for number, one in tasks.items() if one.done()), total)
            except BaseException:
                failed.set()
                raise
        failures = [one.exception() for one in tasks.values()]
        for failure in failures:
            if failure is not None and not isinstance(failure, CancelledError):
                raise failure
        return [tasks[number].result() for number in range(len(pieces))]
