"""RepairStats: how often damaged replicas of this node were made whole, since the start."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class RepairStats:
    """Counters for the metrics page."""

    segments: int = 0
    records: int = 0
    resets: int = 0
    failures: int = 0
    # Partitions whose logs were recovered again while the node ran, because one took no more writes.
    reopened: int = 0
