"""What one partition's log obeys: its topic's settings over the node's defaults."""

from __future__ import annotations

from dataclasses import dataclass

from goqueue.config import MIB
from goqueue.records import TimestampType

DAY_MS = 24 * 3600 * 1000
NEVER_MS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Limits and policies of one log. -1 means "no limit" where Kafka lets it mean that."""

    segment_bytes: int = 64 * MIB
    segment_ms: int = 7 * DAY_MS
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * DAY_MS
    retention_bytes: int = -1
    max_message_bytes: int = 16 * MIB
    cleanup_delete: bool = True
    cleanup_compact: bool = False
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    tombstone_retention_ms: int = DAY_MS
    compaction_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NEVER_MS
    segment_jitter_ms: int = 0
    producer_window_batches: int = 5
    producer_expiry_ms: int = DAY_MS

    @property
    def seals_early(self) -> bool:
        """Whether segments may be sealed before `segment_ms`."""
        return self.segment_jitter_ms > 0 or self.max_compaction_lag_ms < self.segment_ms

    def segment_ms_max(self, base_offset: int) -> int:
        """The age at which the segment with this base offset is sealed: not all of them at once, if so wanted."""
        age_ms = min(self.segment_ms, self.max_compaction_lag_ms)
        if not self.segment_jitter_ms:
            return age_ms
        # A fixed share for each segment, so that a restart changes nothing; neighbours get very different ones.
        return max(1, age_ms - (base_offset + 1) * 2_654_435_761 % 2**32 * self.segment_jitter_ms // 2**32)
