"""Retention: which segments are old or too many. Whole segments go, oldest first.

A segment's age is that of its newest record, by the record's own timestamp as in Kafka:
a record from the future keeps its segment until that future is past the retention time.
Records without a timestamp have the time of their append.
Nothing at or above the high watermark goes, for a replica may still want it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from goqueue.log.settings import LogSettings


class Aged(Protocol):
    """What retention looks at in a segment."""

    @property
    def end_offset(self) -> int:
        """The first offset behind it."""
        ...

    @property
    def size_bytes(self) -> int:
        """Bytes of its frames."""
        ...

    @property
    def max_timestamp_ms(self) -> int:
        """Timestamp of its newest record; 0 or less if that is not known."""
        ...


def expired_count(
    segments: Sequence[Aged], *, settings: LogSettings, now_ms: int, start_offset: int, high_watermark: int
) -> int:
    """How many segments from the oldest on may go; all of them means that the active one is old too."""
    count = 0
    surplus_bytes = sum(segment.size_bytes for segment in segments) - settings.retention_bytes
    for number, segment in enumerate(segments):
        if segment.end_offset > high_watermark or not segment.size_bytes:
            break
        is_active = number == len(segments) - 1
        below_start = segment.end_offset <= start_offset and not is_active
        newest_ms = segment.max_timestamp_ms
        # 0 or less is not a time: its time index is lost or of an earlier version. What is not known to be old stays.
        old = 0 <= settings.retention_ms < now_ms - newest_ms and newest_ms > 0
        surplus = settings.retention_bytes >= 0 and segment.size_bytes <= surplus_bytes and not is_active
        if not below_start and not (settings.cleanup_delete and (old or surplus)):
            break
        count += 1
        surplus_bytes -= segment.size_bytes
    return count
