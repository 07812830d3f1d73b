"""The metrics page, whose library is imported when somebody first asks for it: every start would wait for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from goqueue.broker.replicas.partitions import Partitions
from goqueue.broker.topics import TopicService
from goqueue.node.disk.flusher import FlusherStats
from goqueue.node.disk.housekeeping import HousekeepingStats
from goqueue.node.disk.write_failures import WriteFailures

if TYPE_CHECKING:
    from goqueue.cluster.counted_network import Traffic
    from goqueue.cluster.replication.counts import CopyCounts
    from goqueue.cluster.replication.terms import Terms


class DiskSources(NamedTuple):
    """What counts on the way to the disk."""

    topics: TopicService
    partitions: Partitions
    flusher: FlusherStats
    housekeeping: HousekeepingStats
    free_bytes: Callable[[], int]
    write_failures: WriteFailures


class CopySources(NamedTuple):
    """What counts on the way from and to other nodes."""

    terms: Terms
    counts: CopyCounts
    traffic: Traffic


class MetricsPage:
    """Called for the page. Its arguments are those of `Metrics`."""

    def __init__(self, **parts: Any) -> None:
        self._parts = parts

    async def __call__(self) -> bytes:
        """The page, in Prometheus' text format."""
        from goqueue.node.metrics.broker_metrics import Metrics

        return await Metrics(**self._parts)()
