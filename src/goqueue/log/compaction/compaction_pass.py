"""Compaction: of every key only the newest record stays, offsets and order untouched.

One pass reads the sealed segments twice: once to learn where each key's newest record lies,
once to copy what stays into new segments, small neighbours merged. Then the new segments
take their place. `run` may be on any thread while the log goes on; `swap` is for the log's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from goqueue.codec.frame import Flags
from goqueue.errors import CorruptFrame
from goqueue.log.compaction.key_map import AbortedBetween, AbortedRanges, NewestOffsets, newest_offsets
from goqueue.log.compaction.output_segment import CleanedSegment
from goqueue.log.compaction.record_filter import FrameFilter
from goqueue.log.compaction.swap import (
    CLEANED,
    CompactionState,
    Swap,
    discard,
    finish,
    finish_interrupted,
    forget_from,
    install,
    load_state,
    publish,
)
from goqueue.log.index.offset_index import RELATIVE_OFFSET_MAX
from goqueue.log.segment.file_names import SEGMENT_SUFFIXES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.codec.frame import FrameHeader
    from goqueue.log.segment.segment import Segment
    from goqueue.log.state.producer_state import LastBatch
    from goqueue.ports import Files
    from goqueue.records import AbortedTransaction

__all__ = [
    "Compaction",
    "CompactionReport",
    "Replacement",
    "compactable",
    "dirty_ratio",
    "finish_interrupted",
    "forget_from",
    "load_state",
]

# About 150 bytes a key: 40 MB while a pass runs.
KEYS_MAX = 250_000


class CompactionReport(msgspec.Struct, frozen=True):
    """What one pass did. `is_complete`: no further pass is needed for what could be compacted."""

    segments_before: int
    segments_after: int
    bytes_before: int
    bytes_after: int
    records_dropped: int
    cleaned_to: int
    is_complete: bool
    # Up to where tombstones and markers were dropped because their time is over; 0 if none was.
    tombstones_gone_to: int = 0
    # A frame that could not be read: compaction ends before it until it is repaired.
    damage: CorruptFrame | None = None


class Replacement(msgspec.Struct, frozen=True):
    """A new segment, and the old ones whose place it takes."""

    old: tuple[Segment, ...]
    base_offset: int
    end_offset: int
    size_bytes: int
    has_lost_markers: bool

    @property
    def swap(self) -> Swap:
        """What is to be done about it on the disk.

        A snapshot of the producers from before a marker that is gone may know its transaction
        as open, and a replay from there would wait for the marker for ever. Without it a
        replay begins with the log, which is consistent in itself.
        """
        return Swap(self.base_offset, self.end_offset, 0 if self.has_lost_markers else self.base_offset + 1)


def compactable(sealed: Sequence[Segment], *, upper: int, now_ms: int, min_lag_ms: int) -> list[Segment]:
    """The segments that may be compacted: from the log's start to the first that is too young.

    `upper` is the least of high watermark, last stable offset and synced end: a record may only
    give way to a newer one that can neither be aborted, nor truncated, nor lost in a power cut.
    """
    found: list[Segment] = []
    for segment in sealed:
        if segment.end_offset > upper:
            break
        if min_lag_ms > 0 and (segment.has_unknown_times or segment.max_timestamp_ms > now_ms - min_lag_ms):
            break
        found.append(segment)
    return found


def dirty_ratio(segments: Sequence[Segment], cleaned_to: int) -> float:
    """The share of bytes in segments that no pass has seen whole."""
    total = sum(segment.size_bytes for segment in segments)
    dirty = sum(segment.size_bytes for segment in segments if segment.end_offset > cleaned_to)
    return dirty / total if total else 0.0


@dataclass(slots=True)
class Compaction:
    """One pass over the segments that `compactable` named."""

    files: Files
    directory: str
    segments: Sequence[Segment]
    aborted_between: AbortedBetween
    last_batches: Mapping[int, LastBatch]
    now_ms: int
    segment_bytes: int
    index_interval_bytes: int
    tombstone_retention_ms: int
    keys_max: int = KEYS_MAX
    replacements: list[Replacement] = field(default_factory=list)
    report: CompactionReport | None = None

    def run(self) -> CompactionReport:
        """Read, decide and write the new segments beside the log, which does not change yet.

        An error (disk full, damage in a segment compacted before) leaves nothing behind.
        """
        discard(self.files, self.directory)
        try:
            self.report = self._run()
        except Exception:
            discard(self.files, self.directory)
            raise
        return self.report

    def swap(
        self, replace: Callable[[Replacement], None], *, announce: Callable[[Replacement], None] | None = None
    ) -> None:
        """Put the new segments in place, one after the other.

        `announce` is called when the files of the old ones are held open and their names are
        about to change; `replace` when the names are those of the new one. If this fails, the
        names on disk and the list in memory may differ, so the log must take no more reads or
        writes; opening it anew finishes the swap.
        """
        report = self.report
        if report is None:
            return
        if self.replacements:
            swaps = tuple(one.swap for one in self.replacements)
            publish(self.files, self.directory, CompactionState(report.cleaned_to, swaps))
            for one in self.replacements:
                for segment in one.old:
                    _hold_open(segment)
                if announce is not None:
                    announce(one)
                install(self.files, self.directory, one.swap)
                replace(one)
        if self.files.exists(f"{self.directory}/{CLEANED}"):
            finish(self.files, self.directory, report.cleaned_to)

    def abandon(self) -> None:
        """Forget the pass: the log has changed under it."""
        self.replacements.clear()
        self.report = None
        discard(self.files, self.directory)

    def _run(self) -> CompactionReport:
        cleaned_to = load_state(self.files, self.directory).cleaned_to
        dirty = [segment for segment in self.segments if segment.end_offset > cleaned_to]
        newest = newest_offsets(
            dirty, from_offset=cleaned_to, keys_max=self.keys_max, aborted_between=self.aborted_between
        )
        touched = [segment for segment in self.segments if segment.base_offset < newest.end_offset]
        filtering = FrameFilter(
            newest,
            self.last_batches,
            now_ms=self.now_ms,
            tombstone_retention_ms=self.tombstone_retention_ms,
        )
        # A topic deleted meanwhile must not get its directory back.
        if newest.end_offset > cleaned_to and self.files.exists(self.directory):
            self.files.make_dirs(f"{self.directory}/{CLEANED}")
            self.replacements.extend(self._write_groups(touched, filtering))
            # The names as well as the bytes: what is decided for must be there after a power cut.
            self.files.sync_dir(f"{self.directory}/{CLEANED}")
        replaced = {id(segment) for one in self.replacements for segment in one.old}
        left = [segment for segment in touched if id(segment) not in replaced]
        return CompactionReport(
            segments_before=len(touched),
            segments_after=len(left) + len(self.replacements),
            bytes_before=sum(segment.size_bytes for segment in touched),
            bytes_after=sum(s.size_bytes for s in left) + sum(one.size_bytes for one in self.replacements),
            records_dropped=filtering.records_dropped,
            cleaned_to=newest.end_offset,
            is_complete=_is_complete(newest, self.segments),
            tombstones_gone_to=filtering.tombstones_gone_to,
            damage=newest.damage,
        )

    def _write_groups(self, segments: Sequence[Segment], filtering: FrameFilter) -> Iterator[Replacement]:
        """Copy what stays; neighbours go into one new segment while it is sure to hold them."""
        group: _Group | None = None
        try:
            for segment in segments:
                if group is not None and not self._fits(group.output, segment):
                    yield from group.close()
                    group = None
                if group is None:
                    group = _Group(
                        CleanedSegment(
                            self.files,
                            f"{self.directory}/{CLEANED}",
                            segment.base_offset,
                            interval_bytes=self.index_interval_bytes,
                        )
                    )
                group.copy(segment, filtering, self.aborted_between(segment.base_offset, segment.end_offset))
            if group is not None:
                yield from group.close()
                group = None
        finally:
            if group is not None:
                group.output.abandon()

    def _fits(self, output: CleanedSegment, segment: Segment) -> bool:
        return (
            output.size_bytes + segment.size_bytes <= self.segment_bytes
            and segment.end_offset - output.base_offset <= RELATIVE_OFFSET_MAX
        )


class _Group:
    """Neighbouring segments on their way into one."""

    def __init__(self, output: CleanedSegment) -> None:
        self.output = output
        self._segments: list[Segment] = []
        self._is_changed = False
        self._has_lost_markers = False

    def copy(self, segment: Segment, filtering: FrameFilter, aborted: Sequence[AbortedTransaction]) -> None:
        """Copy what stays of a segment."""
        self._segments.append(segment)
        filtering.begin_segment(AbortedRanges(aborted))
        markers: set[int] = set()
        for header, frame, is_last in _with_last(segment):
            kept = filtering.keep(header, frame, is_last=is_last)
            self._is_changed |= kept is not frame
            is_marker = bool(header.flags & Flags.CONTROL)
            if kept is not None:
                self.output.append(kept)
                if is_marker:
                    markers.add(header.offset)
            elif is_marker:
                self._has_lost_markers = True
        for entry in sorted(aborted, key=lambda entry: entry.last_offset):
            # An entry goes with its marker, which outlives all records it speaks of.
            if entry.last_offset in markers:
                self.output.append_aborted(entry)

    def close(self) -> Iterator[Replacement]:
        """Finish the new segment, if it differs from what was there."""
        segments = tuple(self._segments)
        if len(segments) == 1 and not self._is_changed:
            # The copy is the original: leave that where it is.
            self.output.discard()
            return
        end_offset = segments[-1].end_offset
        self.output.close(end_offset)
        yield Replacement(segments, self.output.base_offset, end_offset, self.output.size_bytes, self._has_lost_markers)


def _with_last(segment: Segment) -> Iterator[tuple[FrameHeader, memoryview, bool]]:
    waiting: tuple[FrameHeader, memoryview] | None = None
    for _, header, frame in segment.frames():
        if waiting is not None:
            yield *waiting, False
        waiting = header, frame
    if waiting is not None:
        yield *waiting, True


def _is_complete(newest: NewestOffsets, segments: Sequence[Segment]) -> bool:
    return not segments or newest.end_offset >= segments[-1].end_offset


def _hold_open(segment: Segment) -> None:
    """Readers that still have the old segment go on with open files; its names are about to change."""
    handles = segment.hold()
    for suffix in SEGMENT_SUFFIXES:
        handles.index(suffix)
