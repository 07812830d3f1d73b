"""A sealed segment's time index again, when its file is lost or does not say how old the segment is.

Until then retention keeps the segment, and a search by time goes over all its frames.
"""

from __future__ import annotations

from goqueue.log.index.offset_index import OffsetIndex
from goqueue.log.index.sparse_index import BLOCK_ENTRIES
from goqueue.log.index.time_index import TimeIndex, frame_time_ms
from goqueue.log.recovery.replay import sound_frames
from goqueue.log.segment.file_names import TIME_INDEX
from goqueue.log.segment.segment import Segment
from goqueue.log.state.log_state import LogState


def segment_without_times(state: LogState, now_ms: int) -> Segment | None:
    """The first sealed segment whose unknown age keeps retention or compaction from going on; None if none does."""
    settings = state.settings
    ages_ms = [settings.retention_ms] if settings.cleanup_delete and settings.retention_ms >= 0 else []
    if settings.cleanup_compact and settings.min_compaction_lag_ms > 0:
        ages_ms.append(settings.min_compaction_lag_ms)
    if not ages_ms:
        return None
    for segment in state.segments.sealed:
        if segment.has_unknown_times and not segment.is_rebuilt:
            return segment
        if now_ms - segment.max_timestamp_ms <= min(ages_ms):
            # Neither goes further than to the first that is young enough.
            return None
    return None


def rebuild_times(segment: Segment) -> None:
    """Write the time index again as the appends wrote it. On any thread, but on one at a time."""
    times = TimeIndex(segment.base_offset)
    places = OffsetIndex(segment.base_offset, segment.interval_bytes)
    files = segment.pin()
    try:
        file = files.index(TIME_INDEX, create=True)
        if file is None:
            return
        file.truncate(0)
        for chunk, _, frame in sound_frames(segment, segment.base_offset):
            position = chunk + frame.position
            times.see(frame_time_ms(frame.header, frame.batch), frame.header.offset)
            if position >= places.next_position:
                times.note()
                places.note(frame.header.offset, position)
                if len(places) % BLOCK_ENTRIES == 0:
                    times.spill(file)
        times.note()
        times.spill(file)
    finally:
        files.unpin()
    segment.take_times(times)
