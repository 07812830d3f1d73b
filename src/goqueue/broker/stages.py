"""What may look at a batch on its way in, and who is told once it is stored.

A stage is a check: it raises the error that its producer gets, or lets the batch pass. It
sees the batch closed. Stages run in the order in which the node lists them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from errno import ENOSPC
from typing import TYPE_CHECKING, NamedTuple, Protocol

from goqueue.errors import DiskFull
from goqueue.log.durability.write_failures import WriteObserver
from goqueue.ports import Buffer, Files
from goqueue.records import Record

if TYPE_CHECKING:
    from goqueue.broker.partitions import Partition
    from goqueue.codec.batch import BatchHeader


class PublishStage(Protocol):
    """A check of one batch before it is written."""

    def check(self, partition: Partition, header: BatchHeader, batch: Buffer, now_ms: int) -> None:
        """Raise to refuse the batch."""
        ...


class HeldAt(NamedTuple):
    """Where a record is held that is not for now: its slot, and when it is due."""

    partition: int
    offset: int
    due_ms: int


class Remaining(Protocol):
    """What is left of a batch when some of its records are held back."""

    @property
    def batch(self) -> bytes:
        """The batch without them, its header, sequence and offset range kept."""
        ...

    @property
    def records(self) -> Sequence[Record]:
        """The records that stay, perhaps none."""
        ...

    @property
    def durable(self) -> Awaitable[None] | None:
        """What to wait for before the batch's reply."""
        ...

    @property
    def slots(self) -> Mapping[int, HeldAt]:
        """Where records are held, by position, as far as the sender is to be told."""
        ...


class HoldBack(Protocol):
    """Takes records out of a batch that are not for now. What it takes is stored before it returns."""

    def __call__(
        self, partition: Partition, batch: Buffer, now_ms: int, dues: Sequence[int | None] | None, /
    ) -> Remaining | None:
        """None if all of them are for now; raise to refuse the batch. Without `dues` its records say when they are."""
        ...


class AfterAppend(Protocol):
    """Called when a batch is in its log (not when it was there before)."""

    def __call__(self, topic: str, partition: int, first: int, last: int) -> None:
        """Offsets `first` to `last` are written."""
        ...


class DiskGuard:
    """Refuses writes while the disk is nearly full, so that there is room to clean up."""

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

    def check(self, partition: Partition, header: BatchHeader, batch: Buffer, now_ms: int) -> None:  # noqa: ARG002
        """Count what is written; ask the disk once a second, or as soon as it may be full."""
        self._free_bytes -= len(batch)
        if self._free_bytes < self._free_bytes_min or now_ms >= self._check_at_ms:
            self._free_bytes = self._files.free_bytes()
            self._check_at_ms = now_ms + self._check_interval_ms
            if self._free_bytes < self._free_bytes_min:
                if self._observer is not None:
                    reason = f"{self._free_bytes} bytes are left, fewer than {self._free_bytes_min}"
                    self._observer.failed(partition.log.directory, OSError(ENOSPC, reason))
                raise DiskFull(partition.log.directory)
