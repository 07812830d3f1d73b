"""Replay: what travels with a log, built again from its frames; and where a frame boundary lies."""

from __future__ import annotations

from collections.abc import Iterator

from goqueue.codec.frame import FrameDamage, FrameHeader
from goqueue.codec.frame_walk import StoredFrame
from goqueue.errors import DamagedIndex
from goqueue.log.index.aborted_index import AbortedIndex
from goqueue.log.index.lane_index import LaneIndex
from goqueue.log.index.time_index import frame_time_ms
from goqueue.log.segment.file_names import ABORTED_INDEX, LANE_INDEX
from goqueue.log.segment.frame_reader import find_frame, frames_in
from goqueue.log.segment.segment import Segment
from goqueue.log.state.checkpoint import LogPoint
from goqueue.log.state.log_state import LogState
from goqueue.log.state.producer_state import ProducerState
from goqueue.log.state.snapshot_files import load_snapshot

OFFSET_MAX = 2**63 - 1


def sound_frames(segment: Segment, first: int) -> Iterator[tuple[int, memoryview, StoredFrame]]:
    """The frames that reach `first` and those behind, as `frames_in` has them, damaged ones left out."""
    files, end = segment.pin_to_end()
    try:
        position = segment.frames_before(first, files)
        while True:
            try:
                for chunk, view, frame in frames_in(files.log, position, end):
                    if frame.batch.last_offset >= first:
                        yield chunk, view, frame
                return
            except FrameDamage as damage:
                found = find_frame(
                    files.log, damage.position, end, offset_min=segment.base_offset, offset_max=OFFSET_MAX
                )
                if found is None:
                    return
                position = found
    finally:
        files.unpin()


def cut_point(segment: Segment, offset: int) -> LogPoint:
    """Where to cut the segment so that it ends at or before `offset`, between two frames."""
    for chunk, _, frame in sound_frames(segment, offset):
        return LogPoint(min(frame.header.offset, offset), segment.base_offset, chunk + frame.position)
    return LogPoint(min(segment.end_offset, offset), segment.base_offset, segment.size_bytes)


def recover_max_timestamp(segment: Segment) -> None:
    """See the frames again that came after the last entry of the time index."""
    for _, _, frame in sound_frames(segment, segment.times.last_offset):
        segment.times.see(frame_time_ms(frame.header, frame.batch), frame.header.offset)


def restore_producers(state: LogState, end_offset: int) -> None:
    """The producers as they stood at `end_offset`: the newest snapshot before it, and the frames since."""
    found = load_snapshot(state.files, state.directory, at_most=end_offset, settings=state.settings)
    first, state.producers = found if found is not None else (0, empty_producers(state))
    replay_producers(state, first, end_offset)
    # Markers that were replayed may lie below a high watermark that does not move any more.
    state.producers.settle(state.high_watermark)


def empty_producers(state: LogState) -> ProducerState:
    """No producer at all."""
    return ProducerState(state.settings.producer_window_batches, state.settings.producer_expiry_ms)


def replay_producers(state: LogState, first: int, end_offset: int) -> None:
    """Carry the producers, and nothing else, from `first` to `end_offset`."""
    for segment in state.segments.current.from_offset(first):
        if segment.base_offset >= end_offset:
            return
        for _, view, frame in sound_frames(segment, first):
            if frame.batch.producer_id >= 0 and first <= frame.header.offset < end_offset:
                state.apply_to_producers(frame, view)


def load_segment_indexes(state: LogState, source: Segment, target: Segment) -> None:
    """Give `target`, about to be active, the lane and aborted indexes of `source`, sealed or active."""
    target.lanes = source.lanes if source.lanes is not None else _lanes_of(state, source)
    target.aborted = source.aborted if source.aborted is not None else _aborted_of(state, source)


def _lanes_of(state: LogState, segment: Segment) -> LaneIndex:
    path = segment.stem + LANE_INDEX
    try:
        return LaneIndex.decode(state.files.read(path), where=path)
    except (DamagedIndex, FileNotFoundError):
        return LaneIndex.rebuild(segment.base_offset, _headers_and_frames(segment))


def _aborted_of(state: LogState, segment: Segment) -> AbortedIndex:
    path = segment.stem + ABORTED_INDEX
    try:
        return AbortedIndex.decode(state.files.read(path), where=path)
    except (DamagedIndex, FileNotFoundError):
        current, state.producers = state.producers, empty_producers(state)
        try:
            restore_producers(state, segment.base_offset)
            return AbortedIndex.rebuild(_headers_and_frames(segment), state.producers)
        finally:
            state.producers = current


def _headers_and_frames(segment: Segment) -> Iterator[tuple[FrameHeader, memoryview]]:
    for _, view, frame in sound_frames(segment, segment.base_offset):
        yield frame.header, view[frame.position : frame.end]
