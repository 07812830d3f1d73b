"""Rebalance statistics: how often, why, how long, how much moved. Per group and in all.

They are kept in memory and begin anew with the process: what must survive is in records.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from enum import StrEnum

# Upper bounds of the duration histogram; one more bucket holds all that took longer.
DURATION_BUCKETS_MS = (10, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000)
# Groups are made by clients, so their number is bounded here: the longest quiet is forgotten.
_GROUPS_MAX = 10_000


class Reason(StrEnum):
    """What set a rebalance off."""

    MEMBER_JOINED = "member_joined"
    MEMBER_LEFT = "member_left"
    MEMBER_EXPIRED = "member_expired"
    MEMBER_REJOINED = "member_rejoined"
    SUBSCRIPTION_CHANGED = "subscription_changed"
    TOPICS_CHANGED = "topics_changed"
    SYNC_TIMEOUT = "sync_timeout"
    REVOCATION_TIMEOUT = "revocation_timeout"


@dataclass(slots=True)
class RebalanceStatistics:
    """Counts of one group, or of all of them together."""

    started: int = 0
    completed: int = 0
    # Those that lost their last member before they were complete.
    abandoned: int = 0
    revocation_timeouts: int = 0
    partitions_moved: int = 0
    by_reason: Counter[Reason] = field(default_factory=Counter)
    duration_ms_total: int = 0
    duration_ms_last: int | None = None
    duration_ms_max: int = 0
    last_completed_ms: int | None = None
    durations: list[int] = field(default_factory=lambda: [0] * (len(DURATION_BUCKETS_MS) + 1))

    @property
    def duration_ms_average(self) -> float:
        """Mean duration of the completed rebalances; 0 without any."""
        return self.duration_ms_total / self.completed if self.completed else 0.0

    def copy(self) -> RebalanceStatistics:
        """A copy whose reader cannot change the original."""
        return RebalanceStatistics(
            self.started,
            self.completed,
            self.abandoned,
            self.revocation_timeouts,
            self.partitions_moved,
            Counter(self.by_reason),
            self.duration_ms_total,
            self.duration_ms_last,
            self.duration_ms_max,
            self.last_completed_ms,
            list(self.durations),
        )

    def _complete(self, duration_ms: int, now_ms: int) -> None:
        self.completed += 1
        self.duration_ms_total += duration_ms
        self.duration_ms_last = duration_ms
        self.duration_ms_max = max(self.duration_ms_max, duration_ms)
        self.last_completed_ms = now_ms
        bucket = sum(duration_ms > bound for bound in DURATION_BUCKETS_MS)
        self.durations[bucket] += 1


class Rebalances:
    """The statistics of all groups of a node. Machines report to it, front-ends read it."""

    def __init__(self) -> None:
        self._all = RebalanceStatistics()
        self._groups: OrderedDict[str, RebalanceStatistics] = OrderedDict()
        self._open_since_ms: dict[str, int] = {}

    def overall(self) -> RebalanceStatistics:
        """All groups together."""
        return self._all.copy()

    def of(self, group: str) -> RebalanceStatistics:
        """One group; all zero when it has had no rebalance."""
        found = self._groups.get(group)
        return RebalanceStatistics() if found is None else found.copy()

    def is_open(self, group: str) -> bool:
        """Whether a rebalance of this group is under way."""
        return group in self._open_since_ms

    def start(self, group: str, reason: Reason, now_ms: int) -> None:
        """A rebalance begins; a further reason while one is under way joins it."""
        for counts in self._both(group):
            if group not in self._open_since_ms:
                # By its first reason alone, so that the reasons add up to the rebalances.
                counts.started += 1
                counts.by_reason[reason] += 1
            if reason is Reason.REVOCATION_TIMEOUT:
                counts.revocation_timeouts += 1
        self._open_since_ms.setdefault(group, now_ms)

    def move(self, group: str, partitions: int) -> None:
        """So many partitions are given to another member than before."""
        for counts in self._both(group):
            counts.partitions_moved += partitions

    def complete(self, group: str, now_ms: int) -> None:
        """Everybody has what is theirs; no harm when nothing was under way."""
        since_ms = self._open_since_ms.pop(group, None)
        if since_ms is not None:
            for counts in self._both(group):
                counts._complete(max(now_ms - since_ms, 0), now_ms)  # noqa: SLF001 - same file

    def abandon(self, group: str) -> None:
        """The rebalance under way has lost its subject: the group is empty, gone or elsewhere."""
        if self._open_since_ms.pop(group, None) is not None:
            for counts in self._both(group):
                counts.abandoned += 1

    def forget(self, group: str) -> None:
        """The group was deleted."""
        self.abandon(group)
        self._groups.pop(group, None)

    def _both(self, group: str) -> tuple[RebalanceStatistics, RebalanceStatistics]:
        counts = self._groups.setdefault(group, RebalanceStatistics())
        self._groups.move_to_end(group)
        if len(self._groups) > _GROUPS_MAX:
            self._groups.popitem(last=False)
        return self._all, counts
