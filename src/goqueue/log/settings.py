"""What one partition's log obeys: its topic's settings over the node's defaults."""

from __future__ import annotations

from dataclasses import dataclass

from goqueue.config import MIB
from goqueue.records import TimestampType

DAY_MS = 24 * 3600 * 1000


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
    producer_window_batches: int = 5
    producer_expiry_ms: int = DAY_MS
