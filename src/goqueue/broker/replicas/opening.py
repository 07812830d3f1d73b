"""Opening: a partition on its way to be open, or to have its first segment, in a thread.

Recovery reads, a first segment takes several syncs: neither belongs on the event loop. Whoever can wait awaits the
opening; whoever must keep an order gives it something to do, which is done in the order of asking and before anybody
finds the partition open. Whoever can do neither opens the partition on the spot, and shares the outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from goqueue.broker.replicas.partition import Partition
    from goqueue.errors import GoQueueError
    from goqueue.log.partition_log import PartitionLog

# Called with the reason if the partition could not be opened.
Then = Callable[["GoQueueError | None"], None]


class Awaited:
    """Something that a write to a partition waits for. It belongs to the event loop."""

    __slots__ = ("_done", "_then")

    def __init__(self) -> None:
        self._then: list[Then] = []
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def __await__(self) -> Generator[Any, None, None]:
        """Wait until it is done; raises if that failed. Whoever gives up waiting stops nobody else."""
        return asyncio.shield(self._done).__await__()

    def then(self, work: Then) -> None:
        """Call `work` when it is done, after all that was asked for before."""
        self._then.append(work)

    def finish(self, error: GoQueueError | None) -> None:
        """It is done, or cannot be: do what was asked for, in that order."""
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


class Opening(Awaited):
    """One partition that is being opened. All but `run` belongs to the event loop."""

    __slots__ = ("_lock", "_log", "_work", "is_void", "makes_segment", "task")

    def __init__(
        self,
        log: PartitionLog | None,
        lock: AbstractContextManager[object],
        *,
        makes_segment: bool,
        work: Callable[[], PartitionLog] | None = None,
    ) -> None:
        """With `work` the log is open, and is worked on as a whole before anybody may use it again."""
        super().__init__()
        self._log = log
        self._work = work
        self._lock = lock
        # What opens it; the node waits for it when it stops.
        self.task: asyncio.Task[None] | None = None
        # Whether its first segment is made, too.
        self.makes_segment = makes_segment
        # The topic is gone: nothing may be created for it any more.
        self.is_void = False

    @property
    def log(self) -> PartitionLog | None:
        """The log, once it is open."""
        return self._log

    def run(self, open_log: Callable[[], PartitionLog]) -> PartitionLog | None:
        """Open the log unless somebody has, and make its segment if that is wanted. On any thread; None if it is void.

        Whoever asks while another thread is at it waits for that, and gets the same log.
        """
        with self._lock:
            if self.is_void:
                return None
            if self._log is None:
                self._log = (self._work or open_log)()
            if self.makes_segment and not self._log.has_segments:
                self._log.make_first_segment()
            return self._log

    def make_void(self) -> PartitionLog | None:
        """Let no thread begin with it any more; waits for one that has. Returns the log, if it was opened."""
        with self._lock:
            self.is_void = True
            return self._log


@runtime_checkable
class Prepares(Protocol):
    """A step that has something to read or to make before it can look at batches of a partition."""

    def preparing(self, partition: Partition, now_ms: int, /) -> Awaited | None:
        """What batches of the partition wait for; begun by the first call, None if there is nothing (any more)."""
        ...
