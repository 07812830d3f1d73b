"""Opening: a partition on its way to be open, or to have its first segment, in a thread.

Recovery reads, a first segment takes several syncs: neither belongs on the event loop. Whoever can wait awaits the
opening; whoever must keep an order gives it something to do, which is done in the order of asking and before anybody
finds the partition open. Whoever can do neither opens the partition on the spot, and shares the outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from goqueue.errors import GoQueueError
    from goqueue.log.partition_log import PartitionLog

# Called with the reason if the partition could not be opened.
Then = Callable[["GoQueueError | None"], None]


class Opening:
    """One partition that is being opened. All but `run` belongs to the event loop."""

    __slots__ = ("_done", "_lock", "_log", "_then", "is_void", "makes_segment", "task")

    def __init__(self, log: PartitionLog | None, lock: AbstractContextManager[object], *, makes_segment: bool) -> None:
        self._log = log
        self._lock = lock
        self._then: list[Then] = []
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # What opens it; the node waits for it when it stops.
        self.task: asyncio.Task[None] | None = None
        # Whether its first segment is made, too.
        self.makes_segment = makes_segment
        # The topic is gone: nothing may be created for it any more.
        self.is_void = False

    def __await__(self) -> Generator[Any, None, None]:
        """Wait until it is open; raises if that failed. Whoever gives up waiting stops nobody else."""
        return asyncio.shield(self._done).__await__()

    @property
    def log(self) -> PartitionLog | None:
        """The log, once it is open."""
        return self._log

    def then(self, work: Then) -> None:
        """Call `work` when it is open, after all that was asked for before."""
        self._then.append(work)

    def run(self, open_log: Callable[[], PartitionLog]) -> PartitionLog | None:
        """Open the log unless somebody has, and make its segment if that is wanted. On any thread; None if it is void.

        Whoever asks while another thread is at it waits for that, and gets the same log.
        """
        with self._lock:
            if self.is_void:
                return None
            if self._log is None:
                self._log = open_log()
            if self.makes_segment and not self._log.has_segments:
                self._log.make_first_segment()
            return self._log

    def make_void(self) -> PartitionLog | None:
        """Let no thread begin with it any more; waits for one that has. Returns the log, if it was opened."""
        with self._lock:
            self.is_void = True
            return self._log

    def finish(self, error: GoQueueError | None) -> None:
        """It is open, or cannot be opened: do what was asked for, in that order."""
        for work in self._then:
            try:
                work(error)
            except Exception as failure:  # noqa: BLE001 - what comes behind it has done nothing wrong
                context = {"message": "work that waited for a partition failed", "exception": failure}
                asyncio.get_running_loop().call_exception_handler(context)
        if self._done.done():
            return
        if error is None:
            self._done.set_result(None)
        else:
            self._done.set_exception(error)
            # Whoever gave up waiting must not turn this into a warning about a lost exception.
            self._done.exception()
