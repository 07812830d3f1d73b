"""Which aborted transactions touch a range of offsets, over all segments that may know of one.

A marker lies behind its records, perhaps many segments later, so every committed read asks all segments from
its first offset on. Nearly all have nothing to tell, and are not opened for that more than once.
"""

from __future__ import annotations

from goqueue.errors import DamagedIndex
from goqueue.log.index.aborted_index import EMPTY_BYTES, Overlap, search_file
from goqueue.log.index.aborted_rebuild import rebuild_aborted
from goqueue.log.segment.file_names import ABORTED_INDEX
from goqueue.log.segment.segment import Segment
from goqueue.log.state.log_state import LogState
from goqueue.records import AbortedTransaction

# How often a search begins again because segments left under it.
_ATTEMPTS = 10


def aborted_between(state: LogState, first: int, upper: int) -> list[AbortedTransaction]:
    """The aborted transactions with records in [first, upper), in the order of their markers."""
    for _ in range(_ATTEMPTS):
        generation = state.segments.generation
        try:
            return _search_all(state, first, upper)
        except FileNotFoundError:
            # A segment was deleted or compacted away: then look again.
            if generation == state.segments.generation:
                raise
    return _search_all(state, first, upper)


def _search_all(state: LogState, first: int, upper: int) -> list[AbortedTransaction]:
    found: list[AbortedTransaction] = []
    if first >= upper:
        return found
    for segment in state.segments.current.from_offset(first):
        if segment.aborted is None and segment.has_no_aborted:
            continue
        part = _search(state, segment, first, upper)
        found.extend(part.aborted)
        if part.complete:
            break
    return found


def _search(state: LogState, segment: Segment, first: int, upper: int) -> Overlap:
    aborted = segment.aborted
    if aborted is not None:
        return aborted.overlapping(first, upper)
    files = segment.pin()
    try:
        file = files.index(ABORTED_INDEX)
        if file is not None:
            found = search_file(file, first, upper, where=segment.stem + ABORTED_INDEX)
            segment.has_no_aborted = file.size() == EMPTY_BYTES
            return found
    except DamagedIndex:
        pass
    finally:
        files.unpin()
    # Lost or damaged: from the frames, and kept in memory until the next start.
    segment.aborted = rebuilt = rebuild_aborted(state, segment)
    return rebuilt.overlapping(first, upper)
