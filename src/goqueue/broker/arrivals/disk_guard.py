"""No batch is taken that could fill the disk."""

from __future__ import annotations

from errno import ENOSPC
from typing import TYPE_CHECKING

from goqueue.errors import DiskFull
from goqueue.log.durability.write_failures import WriteObserver
from goqueue.ports import Files

if TYPE_CHECKING:
    from goqueue.broker.arrivals.arrival import Arrival, Facts
    from goqueue.broker.replicas.partitions import Partition


class DiskGuard:
    """A step that refuses batches while the disk is nearly full, so that there is room to clean up."""

    def __init__(
        self,
        files: Files,
        *,
        free_bytes_min: int,
        check_interval_ms: int = 1000,
        observer: WriteObserver | None = None,
    ) -> None:
        self._files = files
        self._free_bytes_min = free_bytes_min
        self._check_interval_ms = check_interval_ms
        self._observer = observer
        self._free_bytes = 0
        self._check_at_ms = 0

    def applies(self, _partition: Partition, _facts: Facts) -> bool:
        """To all."""
        return True

    def __call__(self, arrival: Arrival) -> None:
        """Count what is written; ask the disk once a second, or as soon as it may be full."""
        now_ms = arrival.now_ms
        self._free_bytes -= len(arrival.batch)
        if self._free_bytes < self._free_bytes_min or now_ms >= self._check_at_ms:
            self._free_bytes = self._files.free_bytes()
            self._check_at_ms = now_ms + self._check_interval_ms
            if self._free_bytes < self._free_bytes_min:
                directory = arrival.partition.log.directory
                if self._observer is not None:
                    reason = f"{self._free_bytes} bytes are left, fewer than {self._free_bytes_min}"
                    self._observer.failed(directory, OSError(ENOSPC, reason))
                refusal = DiskFull(directory)
                # Another replica may have room: let it lead.
                arrival.partition.writer.cannot_write(refusal)
                raise refusal
