"""What the node must have in order to serve, asked anew each time (L07, W66)."""

from __future__ import annotations

from collections.abc import Sequence

from goqueue.broker.partitions import Partitions
from goqueue.config import DurabilityConfig
from goqueue.metadata.local import LocalMetadata
from goqueue.ports import Files
from goqueue.servers.services import Check


class HealthChecks:
    """The checks behind `/readyz`. `serving` is set once every listener accepts, and cleared by the stop."""

    def __init__(
        self, files: Files, metadata: LocalMetadata, partitions: Partitions, durability: DurabilityConfig
    ) -> None:
        self.serving = False
        self._files = files
        self._metadata = metadata
        self._partitions = partitions
        self._durability = durability

    def __call__(self) -> Sequence[Check]:
        """Every check with its problem, if it has one."""
        return (
            Check("listeners", None if self.serving else "the node is starting or stopping"),
            Check("metadata", "it takes no changes since a sync failed" if self._metadata.poisoned else None),
            Check("disk", self._disk_problem()),
            Check("logs", self._log_problem(), self._damage()),
        )

    def _disk_problem(self) -> str | None:
        try:
            free_bytes = self._files.free_bytes()
        except OSError as error:
            return f"the disk does not answer: {error.strerror}"
        if free_bytes < self._durability.disk_free_bytes_min:
            return f"{free_bytes} bytes are left, fewer than {self._durability.disk_free_bytes_min}: writes are refused"
        return None

    def _log_problem(self) -> str | None:
        poisoned = [str(one.key) for one in self._partitions.all_open() if one.log.poisoned]
        if not poisoned:
            return None
        return f"{len(poisoned)} of them take no writes since a sync failed: {_some(poisoned)}"

    def _damage(self) -> str | None:
        damaged = {str(one.key): one.log.damage for one in self._partitions.all_open() if one.log.damage}
        if not damaged:
            return None
        first = next(iter(damaged.values()))[0]
        return f"{len(damaged)} of them have damaged frames, which are not served: {_some([*damaged])}; {first.hint}"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
