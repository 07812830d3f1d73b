"""Lanes of a batch: which of its offsets are of which priority.

A batch of one lane says so in its frame. Only a frame marked "mixed" is opened; there each
record's header `goqueue-priority` decides: 0 to 4, or the lane's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from goqueue.codec.batch_decode import decode_records
from goqueue.codec.frame import Flags
from goqueue.errors import CorruptBatch
from goqueue.records import Header, Priority, Record

if TYPE_CHECKING:
    from goqueue.codec.batch import BatchHeader
    from goqueue.ports import Buffer

PRIORITY_HEADER = "goqueue-priority"

_LANES = {str(int(lane)).encode(): int(lane) for lane in Priority} | {
    lane.name.lower().encode(): int(lane) for lane in Priority
}


class LaneRun(NamedTuple):
    """Messages of one lane at `count` offsets from `first_offset` on. Some of them may be gone."""

    lane: int
    first_offset: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody asks a run for

    @property
    def end_offset(self) -> int:
        """The first offset behind the run."""
        return self.first_offset + self.count


def parse_lane(value: bytes | None) -> int | None:
    """The lane that a `goqueue-priority` header names, None if it names none."""
    return None if value is None else _LANES.get(bytes(value).lower())


def record_lane(headers: Sequence[Header]) -> int:
    """The lane of a record: its last word counts, and without a word it is normal."""
    for name, value in reversed(headers):
        if name == PRIORITY_HEADER:
            lane = parse_lane(value)
            return Priority.NORMAL.value if lane is None else lane
    return Priority.NORMAL.value


def record_runs(records: Iterable[Record]) -> list[LaneRun]:
    """The runs of an opened batch: neighbours of one lane together, gaps left out."""
    runs: list[LaneRun] = []
    for record in records:
        lane = record_lane(record.headers)
        if runs and runs[-1].lane == lane and runs[-1].end_offset == record.offset:
            runs[-1] = LaneRun(lane, runs[-1].first_offset, runs[-1].count + 1)
        else:
            runs.append(LaneRun(lane, record.offset, 1))
    return runs


def frame_runs(flags: int, priority: int, header: BatchHeader, batch: Buffer) -> list[LaneRun]:
    """The runs of a data frame whose batch lies at its place in the log."""
    if flags & Flags.MIXED_LANES:
        # A batch whose checksums hold but whose records cannot be read was sent like that:
        # the lane in its frame must do.
        with suppress(CorruptBatch):
            return record_runs(decode_records(batch))
    if header.count == 0:  # emptied by compaction
        return []
    return [LaneRun(priority, header.base_offset, header.last_offset_delta + 1)]
