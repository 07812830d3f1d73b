"""What transactions have come to since the node started. Counted where it happens, read when somebody asks."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

# Upper bounds, in seconds, of the time from a decision to its last marker.
END_BUCKETS_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


@dataclass(slots=True)
class TransactionStatistics:
    """Counts of one node."""

    begun: int = 0
    committed: int = 0
    aborted: int = 0
    # Of the aborted, those that took too long, or whose producer fell silent.
    timed_out: int = 0
    markers_written: int = 0
    marker_retries: int = 0
    # One more than there are bounds: what took longer than all of them.
    end_counts: list[int] = field(default_factory=lambda: [0] * (len(END_BUCKETS_SECONDS) + 1))
    end_seconds: float = 0.0

    def ended(self, *, commit: bool, seconds: float) -> None:
        """All partitions of a transaction have been told, this long after its decision."""
        if commit:
            self.committed += 1
        else:
            self.aborted += 1
        self.end_counts[bisect_left(END_BUCKETS_SECONDS, seconds)] += 1
        self.end_seconds += seconds
