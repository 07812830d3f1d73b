"""Which aborted transactions touch a range of offsets, over all segments that may know of one."""

from __future__ import annotations

from goqueue.log.aborted_index import search_file
from goqueue.log.segment_names import ABORTED_INDEX
from goqueue.log.state import LogState
from goqueue.records import AbortedTransaction


def aborted_between(state: LogState, first: int, upper: int) -> list[AbortedTransaction]:
    """The aborted transactions with records in [first, upper), in the order of their markers."""
    found: list[AbortedTransaction] = []
    if first >= upper:
        return found
    for segment in state.segments.current.from_offset(first):
        aborted = segment.aborted
        if aborted is not None:
            part = aborted.overlapping(first, upper)
        else:
            files = segment.pin()
            try:
                file = files.index(ABORTED_INDEX)
                if file is None:
                    continue
                part = search_file(file, first, upper, where=segment.stem + ABORTED_INDEX)
            finally:
                files.unpin()
        found.extend(part.aborted)
        if part.complete:
            break
    return found
