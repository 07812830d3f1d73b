"""The lane of a batch: one byte of its frame, or the word that its records are of several."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from goqueue.codec.frame import Flags
from goqueue.log.index.batch_lanes import record_lane
from goqueue.records import NewRecord, Priority, Record


class BatchLane(NamedTuple):
    """What the frame says about priority; of several lanes the most urgent."""

    priority: int = Priority.NORMAL.value
    flags: Flags = Flags(0)


NORMAL = BatchLane()


def lane_of(records: Iterable[NewRecord] | Iterable[Record]) -> BatchLane:
    """The lane of records, by their `goqueue-priority` headers."""
    lanes = {record_lane(record.headers) if record.headers else NORMAL.priority for record in records}
    if len(lanes) == 1:
        (lane,) = lanes
        return NORMAL if lane == NORMAL.priority else BatchLane(lane)
    return BatchLane(min(lanes), Flags.MIXED_LANES)
