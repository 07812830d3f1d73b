"""Reading: batches or whole frames from an offset on, checked, as views into what the disk gave.

Nothing is copied and nothing is opened. A frame that fails its checksum is never
returned: what lies before it is, and a read that begins at it raises CorruptFrame.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from goqueue.codec.batch import parse_batch_header
from goqueue.codec.batch_encode import emptied_batch
from goqueue.codec.frame import HEADER_BYTES, FrameDamage, parse_frame_header
from goqueue.errors import CorruptFrame, OffsetOutOfRange, StorageError
from goqueue.log.segment.frame_reader import find_frame
from goqueue.log.segment.frame_spans import frame_spans
from goqueue.log.segment.segment import Segment
from goqueue.log.segment.segment_files import SegmentFiles
from goqueue.log.segment.segment_list import Gap, Segments
from goqueue.log.state.log_state import LogState
from goqueue.ports import ColdRead

# Room for the frames between an index entry and the offset asked for.
_SLACK_BYTES = 8 * 1024
_CHUNK_BYTES_MAX = 8 * 1024 * 1024
# No codec makes more than this of no records, the header included.
_EMPTIED_BYTES_MAX = 100
# The last byte of a batch's count: not 0 in nearly all batches, which need no further look.
_COUNT_AT = 60


class Read(NamedTuple):
    """What a read found, and where to go on."""

    batches: list[memoryview]
    next_offset: int
    bytes: int


def read_log(state: LogState, offset: int, max_bytes: int, upper: int, *, frames: bool, nowait: bool) -> Read:
    """Read from a log, and note the damage that the read meets."""
    state.check_idle()

    def look(segments: Segments) -> Read:
        start, end = state.start_offset, state.end_offset
        if not start <= offset <= end:
            raise OffsetOutOfRange(offset, start, end)
        reader = Reader(offset, max_bytes=max_bytes, upper=min(upper, end), frames=frames, nowait=nowait)
        return reader.read(segments, state.segments.gaps, state.is_dense)

    try:
        return state.segments.search(look)
    except CorruptFrame as damage:
        state.note_damage(damage)
        raise
    except StorageError as error:
        missing = error.__cause__
        if isinstance(missing, FileNotFoundError):
            _note_missing(state, missing)
        raise


def _note_missing(state: LogState, missing: FileNotFoundError) -> None:
    """A segment's file was removed while the log is open: that is damage, too."""
    for segment in state.segments.current.all:
        if str(missing.filename).endswith(segment.path):
            state.note_damage(CorruptFrame(segment.path, 0, "the file is gone"))


class Reader:
    """One read in the making."""

    __slots__ = (
        "_batches",
        "_frames",
        "_last_bytes",
        "_last_end",
        "_max_bytes",
        "_next_offset",
        "_nowait",
        "_taken",
        "_upper",
    )

    def __init__(self, offset: int, *, max_bytes: int, upper: int, frames: bool, nowait: bool) -> None:
        self._next_offset = offset
        self._max_bytes = max_bytes
        self._upper = upper
        self._frames = frames
        self._nowait = nowait
        self._batches: list[memoryview] = []
        self._taken = 0
        # Of the last frame taken from the last chunk: where it ended there, and its size.
        self._last_end = 0
        self._last_bytes = 0

    def read(self, segments: Segments, gaps: Sequence[Gap] = (), is_dense: Callable[[], bool] = lambda: False) -> Read:
        """Collect from as many segments as it takes. `is_dense`: no offset may be missing between two of them."""
        before: Segment | None = None
        for segment in segments.from_offset(self._next_offset):
            if gaps and self._meets(gaps, segment.base_offset):
                break
            if before is not None and self._next_offset < segment.base_offset and is_dense():
                # The file of the one before ends too early, between two frames.
                if not self._batches:
                    reason = f"offsets {self._next_offset} to {segment.base_offset - 1} are missing"
                    raise CorruptFrame(before.path, before.size_bytes, reason, next_offset=segment.base_offset)
                break
            before = segment
            if segment.base_offset >= self._upper:
                break
            files, end = segment.pin_to_end()
            try:
                if self._collect(segment, files, end):
                    break
            except ColdRead:
                if not self._batches:
                    raise
                break
            finally:
                files.unpin()
        else:
            if gaps:
                self._meets(gaps, self._upper)
        return Read(self._batches, self._next_offset, self._taken)

    def _meets(self, gaps: Sequence[Gap], base_offset: int) -> bool:
        """Whether offsets are missing before `base_offset`: then the read ends, or raises if it begins there."""
        for gap in gaps:
            if (
                gap.first_offset <= self._next_offset < min(gap.end_offset, self._upper)
                and gap.end_offset <= base_offset
            ):
                if not self._batches:
                    raise CorruptFrame(gap.where, gap.position, gap.reason, next_offset=gap.end_offset)
                return True
        return False

    def _collect(self, segment: Segment, files: SegmentFiles, end: int) -> bool:
        """Take what this segment has before `end`; True when the read is complete."""
        position, frame_bytes = self._find(segment, files)
        is_hint = position > 0
        trusts_index = True
        while position < end:
            want = self._want(segment if trusts_index else None, files, position, end, frame_bytes)
            view = memoryview(files.log.pread(want, position, nowait=self._nowait))
            frame_bytes = 0
            try:
                is_complete = self._take(view, is_hint=is_hint)
                if not view:
                    raise FrameDamage(0, f"{end - position} bytes are missing")
                if self._last_end:
                    # Where the next read in this segment begins, if it goes on from here.
                    segment.resume = (self._next_offset, position + self._last_end, self._last_bytes)
                # More may fit into what was asked for, but half of it is not worth another read.
                if is_complete or 2 * self._taken >= self._max_bytes:
                    return True
                position += len(view)
            except _BadHint:
                position = 0
            except FrameDamage as damage:
                at = position + damage.position
                # Fewer bytes than asked for: the file was cut, and to ask again would give the same for ever.
                if damage.is_short and position + len(view) < end and len(view) >= want:
                    if 2 * self._taken >= self._max_bytes:
                        return True
                    position = at
                    # It may be what led into the middle of a frame, and would do so for ever.
                    trusts_index = False
                elif self._batches:
                    return True
                elif is_hint and damage.position == 0 and not self._is_frame_of_hint(view):
                    position = 0
                else:
                    position = self._behind_damage(segment, files, at, end, damage.reason)
            is_hint = False
        return False

    def _find(self, segment: Segment, files: SegmentFiles) -> tuple[int, int]:
        """Where to start reading, and how large the frames there are, 0 if that is not known."""
        offset = self._next_offset
        if offset <= segment.base_offset:
            return 0, 0
        resume = segment.resume
        if resume is not None and resume[0] == offset:
            return resume[1], resume[2]
        return segment.position_before(offset, files, nowait=self._nowait), 0

    def _want(self, segment: Segment | None, files: SegmentFiles, position: int, end: int, frame_bytes: int) -> int:
        """How much to read at once: whole frames, since a part of one is read in vain."""
        budget = min(self._max_bytes - self._taken, _CHUNK_BYTES_MAX)
        left = end - position
        if left <= budget or left <= HEADER_BYTES:
            return left
        if segment is not None:
            edge = segment.large_frame_before(position + budget, files, nowait=self._nowait)
            if edge > position:
                return edge - position
        slack = 0
        if not frame_bytes:
            try:
                header = parse_frame_header(files.log.pread(HEADER_BYTES, position, nowait=self._nowait))
            except FrameDamage:
                return min(left, max(budget, _SLACK_BYTES))
            frame_bytes = header.size
            if header.offset != self._next_offset:
                slack = _SLACK_BYTES  # frames between the index entry and the offset asked for
        return min(left, max(budget - budget % frame_bytes, frame_bytes) + slack)

    def _take(self, view: memoryview, *, is_hint: bool) -> bool:
        """Take the frames in `view`; True when no more are wanted."""
        batches, upper, max_bytes = self._batches, self._upper, self._max_bytes
        next_offset, taken, frames = self._next_offset, self._taken, self._frames
        last_end = last_size = 0
        try:
            for position, value_end, end, first, last in frame_spans(view):
                if last < next_offset:
                    is_hint = False
                    continue
                if is_hint:
                    if first > next_offset:
                        raise _BadHint
                    is_hint = False
                if last >= upper:
                    return True
                batch = view[position:end] if frames else view[position + HEADER_BYTES : value_end]
                size = len(batch)
                if taken + size > max_bytes and batches:
                    return True
                if size <= _EMPTIED_BYTES_MAX and not batch[_COUNT_AT] and not frames:
                    batch = _without_codec(batch)
                    taken += len(batch) - size
                batches.append(batch)
                taken += size
                next_offset = last + 1
                last_end = end
                last_size = size
            return taken >= max_bytes
        finally:
            self._next_offset, self._taken = next_offset, taken
            self._last_end = last_end
            if last_end:
                self._last_bytes = last_size if frames else last_size + HEADER_BYTES

    def _is_frame_of_hint(self, view: memoryview) -> bool:
        """Whether a damaged frame still shows that the index was right to lead here."""
        try:
            return parse_frame_header(view).offset <= self._next_offset
        except FrameDamage:
            return False

    def _behind_damage(self, segment: Segment, files: SegmentFiles, at: int, end: int, reason: str) -> int:
        """Where to go on when damage lies before the offset asked for; CorruptFrame when it lies there."""
        if self._nowait:
            # Finding the next sound frame may mean to read the rest of the segment.
            raise ColdRead
        wanted = self._next_offset
        next_offset = segment.end_offset
        found = find_frame(files.log, at, end, offset_min=segment.base_offset, offset_max=segment.end_offset)
        if found is not None:
            header = parse_frame_header(files.log.pread(HEADER_BYTES, found))
            if header.offset <= wanted:
                return found
            next_offset = header.offset
        raise CorruptFrame(segment.path, at, reason, next_offset=next_offset)


def _without_codec(batch: memoryview) -> memoryview:
    """The batch as it is to be served: one without records says no codec.

    Earlier versions stored emptied batches that still say one, and some clients do not survive them.
    """
    header = parse_batch_header(batch)
    if header.count or not header.codec:
        return batch
    return memoryview(emptied_batch(header))


class _BadHint(Exception):
    """The index led behind the offset asked for: it is not of this log."""
