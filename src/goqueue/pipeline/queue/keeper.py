"""Keeps messages ours while a batch runs: asks for more time before the lease of any of them ends."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Protocol

from goqueue.errors import GoQueueError
from goqueue.pipeline.queue.leases import Lease

_LOG = logging.getLogger("goqueue.pipeline")


class _Broker(Protocol):
    def extend(self, receipts: Sequence[str], visibility_ms: int) -> int:
        """Ask for more time."""
        ...


class Keeper:
    """A thread of the planner, which is idle while executors work."""

    def __init__(self, broker: _Broker, visibility_ms: int) -> None:
        self._broker, self._visibility_ms = broker, visibility_ms
        self._lock = threading.Lock()
        self._receipts: tuple[str, ...] = ()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def keep(self, leases: Sequence[Lease]) -> None:
        """These from now on, and no others."""
        with self._lock:
            self._receipts = tuple(one.receipt for one in leases)
        if self._receipts and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="goqueue-leases", daemon=True)
            self._thread.start()

    def renew(self) -> None:
        """Ask for more time now. What another reader has by now is delivered twice: that is said, and no error."""
        with self._lock:
            receipts = self._receipts
        if not receipts:
            return
        try:
            lost = self._broker.extend(receipts, self._visibility_ms)
        except GoQueueError as error:
            _LOG.warning("leases of %d messages could not be extended: %s", len(receipts), error)
            return
        if lost:
            _LOG.warning("%d messages of a batch are not leased any more: another reader may get them too", lost)

    def close(self) -> None:
        """Renew nothing any more."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(5)

    def _run(self) -> None:
        while not self._ended.wait(self._visibility_ms / 3000):
            self.renew()
