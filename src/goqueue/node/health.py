"""What the node must have in order to serve, asked anew each time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from goqueue.broker.replicas.partition_files import log_name
from goqueue.broker.replicas.partitions import Partitions
from goqueue.config import DurabilityConfig
from goqueue.delay.service import DelayService
from goqueue.metadata.store import MetadataStore
from goqueue.node.disk.write_failures import WriteFailures
from goqueue.node.serving import Serving
from goqueue.ports import Files
from goqueue.servers.services import Check


class ClusterChecks(NamedTuple):
    """What a node of a cluster is asked: its session, whether its replicas have caught up, and the clocks."""

    session_problem: Callable[[], str | None]
    replicas_problem: Callable[[], str | None]
    clock_warning: Callable[[], str | None]


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
        in_cluster: ClusterChecks | None = None,
    ) -> None:
        """`in_cluster` is what a node of a cluster needs besides."""
        self._in_cluster = in_cluster
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
            *self._of_cluster(),
            Check("listeners", None if self._serving.is_on else "the node is starting or stopping"),
            Check("metadata", self._metadata.problem()),
            Check("disk", self._disk_problem() or self._write_failures.problem()),
            Check("logs", self._log_problem(), self._damage()),
            Check("batches", None, self._unreadable()),
            Check("delay", self._delay.problem()),
        )

    def _of_cluster(self) -> Sequence[Check]:
        checks = self._in_cluster
        if checks is None:
            return ()
        return (
            Check("session", checks.session_problem()),
            Check("replicas", checks.replicas_problem()),
            Check("clocks", None, checks.clock_warning()),
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
        poisoned = {log_name(log.directory): log.poison for log in self._partitions.open_logs() if log.poisoned}
        if not poisoned:
            return None
        names, cause = _some([*poisoned]), next(iter(poisoned.values()))
        until = "a restart" if self._in_cluster is None else "they are recovered or another node leads them"
        return f"{len(poisoned)} of them take no writes since a sync failed, until {until}: {names} ({cause})"

    def _damage(self) -> str | None:
        damaged = {log_name(log.directory): log.damage for log in self._partitions.open_logs() if log.damage}
        if not damaged:
            return None
        first = next(iter(damaged.values()))[0]
        what = first.hint
        if self._in_cluster is not None:
            counts = self._partitions.repairs
            what = (
                f"they are repaired from other replicas, as far as these have them ({counts.segments} segments, "
                f"{counts.resets} logs copied anew, {counts.failures} attempts failed since the start)"
            )
        return f"{len(damaged)} of them have damaged frames, which are not served: {_some([*damaged])}; {what}"

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
