"""What lies in the files of a partition, and whether it is sound. Reads everything, changes nothing.

Both checksums of every frame are computed: the frame's own and that of the batch inside.
Behind damage the reading goes on at the next sound frame, so that one bad sector does
not hide what else is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from goqueue.codec.batch import HEADER_BYTES as BATCH_HEADER_BYTES
from goqueue.codec.batch import BatchHeader, parse_batch_header, verify_batch
from goqueue.codec.frame import HEADER_BYTES, Flags, FrameDamage, FrameHeader, parse_frame_header
from goqueue.codec.frame_walk import StoredFrame
from goqueue.errors import CorruptBatch, UnsupportedFormat
from goqueue.log.compaction.swap import may_have_gaps
from goqueue.log.index.time_index import frame_time_ms
from goqueue.log.inspection.index_check import IndexCheck, IndexFault, faults_of_snapshots
from goqueue.log.segment.file_names import LOG, file_name, offsets_of
from goqueue.log.segment.frame_reader import find_frame, frames_in
from goqueue.log.state.checkpoint import Checkpoint, read_checkpoint
from goqueue.ports import File, Files

OFFSET_MAX = 2**63 - 1
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes of a `.log` file that cannot be served, and the offsets that were in them."""

    file: str
    position: int
    size_bytes: int
    reason: str
    first_offset: int
    # The first offset that is readable again; None when nothing sound follows in the file.
    next_offset: int | None
    # The header of the damaged batch; None when there is nothing in it to believe.
    claimed: BatchHeader | None = None

    @property
    def offsets(self) -> str:
        """The lost offsets in words."""
        if self.next_offset is None:
            return f"offsets from {self.first_offset} on"
        if self.next_offset == self.first_offset:
            return "no offsets"
        if self.next_offset == self.first_offset + 1:
            return f"offset {self.first_offset}"
        return f"offsets {self.first_offset} to {self.next_offset - 1}"


@dataclass(slots=True)
class SegmentReport:
    """What one segment holds."""

    file: str
    base_offset: int
    end_offset: int
    size_bytes: int
    frames: int = 0
    records: int = 0
    first_append_ms: int | None = None
    last_append_ms: int | None = None
    max_timestamp_ms: int = -1
    # Frames per lane; one more for frames whose records are of several lanes.
    lanes: list[int] = field(default_factory=lambda: [0] * (MIXED + 1))
    control_frames: int = 0
    damage: list[Damage] = field(default_factory=list)
    index_faults: list[IndexFault] = field(default_factory=list)

    @property
    def has_damaged_end(self) -> bool:
        """Whether nothing sound follows the last damage."""
        return bool(self.damage) and self.damage[-1].next_offset is None


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """What one partition holds."""

    directory: str
    segments: list[SegmentReport]
    # Faults of the files that belong to no single segment: the checkpoint and the snapshots.
    faults: list[IndexFault]
    # Records that were synced once, as the checkpoint knows, and of whose bytes nothing is left.
    missing: list[Damage] = field(default_factory=list)

    @property
    def damage(self) -> list[Damage]:
        """All damage, in the order of the offsets."""
        found = [each for segment in self.segments for each in segment.damage] + self.missing
        return sorted(found, key=lambda each: each.first_offset)

    @property
    def index_faults(self) -> list[IndexFault]:
        """All derived files that do not agree with the frames."""
        return [each for segment in self.segments for each in segment.index_faults] + self.faults

    @property
    def is_sound(self) -> bool:
        """Whether nothing at all is wrong."""
        return not self.damage and not self.index_faults


class SoundFrame(NamedTuple):
    """A frame in its file, checked."""

    position: int
    size_bytes: int
    header: FrameHeader
    batch: BatchHeader
    frame: memoryview


MIXED = 5


def segment_bases(files: Files, directory: str) -> list[int]:
    """The base offsets of the partition's segments, rising."""
    return offsets_of(files.list(directory), LOG)


def walk_segment(
    file: File, path: str, base_offset: int, offset_max: int = OFFSET_MAX
) -> Iterator[SoundFrame | Damage]:
    """Everything in a `.log` file from its first byte to its last, sound or not."""
    size = file.size()
    position, expected = 0, base_offset
    while position < size:
        try:
            for chunk, view, frame in frames_in(file, position, size):
                position, expected, found = _judge(path, chunk, view, frame, expected)
                yield found
            return
        except FrameDamage as damage:
            resume = find_frame(file, damage.position, size, offset_min=expected, offset_max=offset_max)
            position = size if resume is None else resume
            next_offset = None if resume is None else parse_frame_header(file.pread(HEADER_BYTES, resume)).offset
            yield Damage(
                path,
                damage.position,
                position - damage.position,
                damage.reason,
                expected,
                next_offset,
                _claimed(file, damage.position, expected),
            )
            expected = expected if next_offset is None else next_offset


def verify_segment(
    files: Files,
    directory: str,
    base_offset: int,
    *,
    offset_max: int = OFFSET_MAX,
    is_dense: bool = False,
    progress: Progress | None = None,
) -> SegmentReport:
    """Check one segment: every frame, and its indexes against the frames.

    `is_dense`: no offset may be missing, as in every log that was never compacted.
    """
    path = f"{directory}/{file_name(base_offset, LOG)}"
    file = files.open(path)
    try:
        report = SegmentReport(path, base_offset, base_offset, file.size())
        check = IndexCheck(files, directory, base_offset)
        done, is_after_damage = 0, False
        for found in walk_segment(file, path, base_offset, offset_max):
            if isinstance(found, Damage):
                report.damage.append(found)
                is_after_damage = True
            else:
                if is_dense and not is_after_damage and found.header.offset > report.end_offset:
                    report.damage.append(_gap(path, found.position, report.end_offset, found.header.offset))
                is_after_damage = False
                _count(report, found)
                check.see(found.position, found.header, found.batch)
            if progress is not None:
                progress(found.position + found.size_bytes - done)
                done = found.position + found.size_bytes
        report.index_faults = check.faults(is_damaged=bool(report.damage))
    finally:
        file.close()
    return report


def verify_partition(files: Files, directory: str, *, progress: Progress | None = None) -> PartitionReport:
    """Check every file of a partition, and that all is there which the checkpoint knows to be on the disk."""
    bases = segment_bases(files, directory)
    is_dense = not may_have_gaps(files, directory)
    segments: list[SegmentReport] = []
    for number, base in enumerate(bases):
        before = segments[-1] if segments else None
        bound = bases[number + 1] - 1 if number + 1 < len(bases) else OFFSET_MAX
        found = verify_segment(files, directory, base, offset_max=bound, is_dense=is_dense, progress=progress)
        if is_dense and before is not None and before.end_offset < base and not before.has_damaged_end:
            found.damage.insert(0, _gap(found.file, 0, before.end_offset, base))
        segments.append(found)
    checkpoint = read_checkpoint(files, directory)
    missing = [] if checkpoint is None else _missing(directory, segments, checkpoint)
    return PartitionReport(directory, segments, faults_of_snapshots(files, directory), missing)


def _judge(
    path: str, chunk: int, view: memoryview, frame: StoredFrame, expected: int
) -> tuple[int, int, SoundFrame | Damage]:
    """Where the next frame begins, the offset it should have, and what to make of this one."""
    position, end = chunk + frame.position, chunk + frame.end
    bytes_of_frame = view[frame.position : frame.end]
    reason = None
    if frame.header.offset < expected:
        reason = f"offset {frame.header.offset} comes where {expected} or more should be"
    else:
        try:
            verify_batch(bytes_of_frame[HEADER_BYTES : HEADER_BYTES + frame.header.value_bytes])
        except (CorruptBatch, UnsupportedFormat) as error:
            reason = str(error)
    following = max(expected, frame.batch.last_offset + 1)
    if reason is not None:
        damage = Damage(path, position, end - position, reason, expected, following, frame.batch)
        return end, following, damage
    return end, following, SoundFrame(position, end - position, frame.header, frame.batch, bytes_of_frame)


def _gap(path: str, position: int, expected: int, found: int) -> Damage:
    return Damage(path, position, 0, "frames are missing before it", expected, found)


def _missing(directory: str, segments: list[SegmentReport], checkpoint: Checkpoint) -> list[Damage]:
    """The end of the log, where the checkpoint knows of more records on the disk than the files hold.

    Nothing can be said of its beginning: retention deletes first and notes the new start afterwards.
    """
    # A cut that a crash interrupted is finished at the next start.
    synced = min(checkpoint.recovery, checkpoint.end) if checkpoint.is_cut else checkpoint.recovery
    last = segments[-1] if segments else None
    end = checkpoint.start_offset if last is None else last.end_offset
    if synced.offset <= end or (last is not None and last.has_damaged_end):
        return []
    if last is not None and last.base_offset == synced.base_offset:
        reason = "the file ends here, but more was synced"
        return [Damage(last.file, last.size_bytes, 0, reason, end, synced.offset)]
    path = f"{directory}/{file_name(synced.base_offset, LOG)}"
    return [Damage(path, 0, 0, "the file is missing, and it was synced", end, synced.offset)]


def _count(report: SegmentReport, found: SoundFrame) -> None:
    header, batch = found.header, found.batch
    append_ms = header.timestamp_ns // 1_000_000
    report.frames += 1
    report.records += batch.count
    report.end_offset = batch.last_offset + 1
    report.max_timestamp_ms = max(report.max_timestamp_ms, frame_time_ms(header, batch))
    report.last_append_ms = append_ms
    if report.first_append_ms is None:
        report.first_append_ms = append_ms
    if header.flags & Flags.CONTROL:
        report.control_frames += 1
    else:
        report.lanes[MIXED if header.flags & Flags.MIXED_LANES else header.priority] += 1


def _claimed(file: File, position: int, expected: int) -> BatchHeader | None:
    """The batch header in a damaged frame, if it agrees with the frame's own and with the place."""
    data = file.pread(HEADER_BYTES + BATCH_HEADER_BYTES, position)
    try:
        offset, batch = parse_frame_header(data).offset, parse_batch_header(data, HEADER_BYTES)
    except (FrameDamage, CorruptBatch):
        return None
    agrees = offset == expected == batch.base_offset and 0 <= batch.count <= batch.last_offset_delta + 1
    return batch if agrees else None
