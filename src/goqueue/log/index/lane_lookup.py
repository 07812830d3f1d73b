"""Where the messages of a lane are: runs from an offset on, across segments.

Sealed segments are searched by pread in their lane index; nothing of them stays in memory. A
look is bounded by how many runs it may go through, of whatever lane, and says how far it came.
"""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

from goqueue.errors import DamagedIndex
from goqueue.log.index.batch_lanes import LaneRun
from goqueue.log.index.lane_index import LaneIndex, read_runs
from goqueue.log.segment.file_names import LANE_INDEX
from goqueue.log.segment.segment import Segment
from goqueue.log.segment.segment_list import Segments
from goqueue.log.state.log_state import LogState


class LaneRuns(NamedTuple):
    """Runs in order. Every message of the lane between the start of the look and `scanned_to` is in one."""

    runs: list[LaneRun]
    scanned_to: int


def lane_runs(
    state: LogState, lane: int | None, offset: int, *, upper: int, runs_max: int, nowait: bool = False
) -> LaneRuns:
    """The runs of a lane (None: of all) from `offset` up to `upper`, looking at about `runs_max` runs.

    With `nowait` it raises ColdRead where the disk would have to be waited for.
    """

    def look(segments: Segments) -> LaneRuns:
        found: list[LaneRun] = []
        scanned_to = max(offset, state.start_offset)
        end = min(upper, state.end_offset)
        looks = runs_max
        for segment in segments.from_offset(scanned_to):
            if scanned_to >= end or looks <= 0:
                break
            runs, scanned_to = _in_segment(segment, scanned_to, end, looks, nowait=nowait)
            looks -= max(len(runs), 1)
            _add(found, runs, lane, max(offset, state.start_offset), end)
        return LaneRuns(found, scanned_to)

    return state.segments.search(look)


def _in_segment(segment: Segment, offset: int, end: int, looks: int, *, nowait: bool) -> tuple[list[LaneRun], int]:
    """Up to `looks` runs of any lane, and the offset behind what was looked at."""
    segment_end = min(segment.end_offset, end)
    lanes = segment.lanes
    found = None if lanes is None else lanes.some_runs(offset, looks)
    runs = _from_file(segment, offset, looks, nowait=nowait) if found is None else found
    if len(runs) < looks or runs[-1].first_offset >= segment_end:
        return runs, segment_end
    return runs, min(runs[-1].end_offset, segment_end)


def _from_file(segment: Segment, offset: int, looks: int, *, nowait: bool) -> list[LaneRun]:
    files = segment.pin()
    try:
        file = files.index(LANE_INDEX)
        if file is not None:
            where = segment.stem + LANE_INDEX
            return list(islice(read_runs(file, None, offset, where=where, nowait=nowait), looks))
    except DamagedIndex:
        pass
    finally:
        files.unpin()
    # Lost or damaged: from the frames. Recovery and verification write it again.
    rebuilt = LaneIndex.rebuild(segment.base_offset, ((header, frame) for _, header, frame in segment.frames()))
    return rebuilt.some_runs(offset, looks)


def _add(found: list[LaneRun], runs: list[LaneRun], lane: int | None, first: int, end: int) -> None:
    for run in runs:
        if lane is not None and run.lane != lane:
            continue
        start, stop = max(run.first_offset, first), min(run.end_offset, end)
        if start >= stop:
            continue
        if found and found[-1].lane == run.lane and found[-1].end_offset == start:
            found[-1] = LaneRun(run.lane, found[-1].first_offset, stop - found[-1].first_offset)
        else:
            found.append(LaneRun(run.lane, start, stop - start))
