"""What the node must have in order to serve, asked anew each time."""

from __future__ import annotations

from collections.abc import Sequence

from goqueue.broker.partitions import Partitions
from goqueue.config import DurabilityConfig
from goqueue.delay.service import DelayService
from goqueue.metadata.store import MetadataStore
from goqueue.node.disk.write_failures import WriteFailures
from goqueue.node.serving import Serving
from goqueue.ports import Files
from goqueue.servers.services import Check


class HealthChecks:
    """The checks behind `/readyz`."""

    def __init__(
        self,
        files: Files,
        metadata: MetadataStore,
        partitions: Partitions,
        durability: DurabilityConfig,
        write_failures: WriteFailures,
        delay: DelayService,
        serving: Serving,
    ) -> None:
        self._serving = serving
        self._files = files
        self._metadata = metadata
        self._partitions = partitions
        self._durability = durability
        self._write_failures = write_failures
        self._delay = delay

    def __call__(self) -> Sequence[Check]:
        """Every check with its problem, if it has one."""
        return (
            Check("listeners", None if self._serving.is_on else "the node is starting or stopping"),
            Check("metadata", self._metadata.problem()),
            Check("disk", self._disk_problem() or self._write_failures.problem()),
            Check("logs", self._log_problem(), self._damage()),
            Check("batches", None, self._unreadable()),
            Check("delay", self._delay.problem()),
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
        poisoned = {str(one.key): one.log.poison for one in self._partitions.all_open() if one.log.poisoned}
        if not poisoned:
            return None
        names, cause = _some([*poisoned]), next(iter(poisoned.values()))
        return f"{len(poisoned)} of them take no writes since a sync failed, until a restart: {names} ({cause})"

    def _damage(self) -> str | None:
        damaged = {str(one.key): one.log.damage for one in self._partitions.all_open() if one.log.damage}
        if not damaged:
            return None
        first = next(iter(damaged.values()))[0]
        return f"{len(damaged)} of them have damaged frames, which are not served: {_some([*damaged])}; {first.hint}"

    def _unreadable(self) -> str | None:
        found = [
            f"{one.key.topic}-{one.key.partition} offsets {stretch.first} to {stretch.last} ({stretch.reason})"
            for one in self._partitions.all_open()
            for stretch in one.unreadable.still_there(one.log.start_offset)
            # Damaged frames are told of by the check of the logs, with what to do about them.
            if stretch.codec
        ]
        if not found:
            return None
        return f"{len(found)} stretches of offsets cannot be read and are passed over: {_some(found)}"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
