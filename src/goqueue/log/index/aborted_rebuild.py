"""A sealed segment's index of aborted transactions again, when its file is lost or damaged.

Without it aborted records would be shown, and compaction would let them supersede
committed ones. Nothing of the log is changed on the way, so any thread may do this.
"""

from __future__ import annotations

from collections.abc import Iterator

from goqueue.codec.frame import FrameHeader
from goqueue.log.index.aborted_index import AbortedIndex
from goqueue.log.recovery.replay import sound_frames
from goqueue.log.segment.segment import Segment
from goqueue.log.state.log_state import LogState
from goqueue.log.state.producer_state import ProducerState
from goqueue.log.state.snapshot_files import load_snapshot


def rebuild_aborted(state: LogState, segment: Segment) -> AbortedIndex:
    """What the segment's frames say, read from where a snapshot of the producers allows to begin."""
    return AbortedIndex.rebuild(_frames(segment, segment.base_offset), producers_before(state, segment.base_offset))


def producers_before(state: LogState, base_offset: int) -> ProducerState:
    """The producers as they stood where a segment begins."""
    settings = state.settings
    taken = load_snapshot(state.files, state.directory, at_most=base_offset, settings=settings)
    first, producers = taken or (0, ProducerState(settings.producer_window_batches, settings.producer_expiry_ms))
    for earlier in state.segments.current.from_offset(first):
        if earlier.base_offset >= base_offset:
            break
        AbortedIndex.rebuild(_frames(earlier, first), producers)
    return producers


def _frames(segment: Segment, first: int) -> Iterator[tuple[FrameHeader, memoryview]]:
    for _, view, frame in sound_frames(segment, first):
        if frame.header.offset >= first:
            yield frame.header, view[frame.position : frame.end]
