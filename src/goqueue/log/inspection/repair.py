"""Mending a partition whose broker is stopped: derived files are built again, and a damaged end is cut if told.

Nothing is ever dropped from the middle of a log. What can be cut is the end: from the
first damaged byte of the last segment on, with everything behind it, sound or not.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from goqueue.errors import DamagedIndex
from goqueue.log.compaction.swap import finish_interrupted
from goqueue.log.inspection.verify import Damage, PartitionReport, Progress, SoundFrame, verify_partition, walk_segment
from goqueue.log.partition_log import PartitionLog
from goqueue.log.segment.file_names import (
    CHECKPOINT,
    LOG,
    PRODUCER_SNAPSHOT,
    SEGMENT_SUFFIXES,
    offset_in,
)
from goqueue.log.settings import LogSettings
from goqueue.log.state.checkpoint import read_checkpoint
from goqueue.log.state.producer_state import ProducerState
from goqueue.ports import Files

# Stands in where a damaged checkpoint no longer says whose log it is.
NO_TOPIC = UUID(int=0)
# The topic's own settings are not known here, so nothing may be forgotten that they might keep.
SETTINGS = LogSettings(producer_window_batches=1000, producer_expiry_ms=2**62)


@dataclass(frozen=True, slots=True)
class Cut:
    """The end of a log that is, or would be, cut off: exactly what goes."""

    file: str
    position: int
    size_bytes: int
    first_offset: int
    # The first offset behind what is lost; None if only damaged bytes could tell.
    end_offset: int | None
    sound_frames: int
    sound_records: int
    # Records that the headers of damaged frames speak of; None if one of them cannot be believed.
    damaged_records: int | None

    @property
    def offsets(self) -> str:
        """The lost offsets in words."""
        if self.end_offset is None:
            return f"offsets from {self.first_offset} on"
        return f"offsets {self.first_offset} to {self.end_offset - 1}"

    @property
    def records(self) -> str:
        """The lost records in words."""
        if self.damaged_records is None:
            return f"{self.sound_records} sound records and an unknown number of damaged ones"
        return f"{self.sound_records} sound records and {self.damaged_records} damaged ones"


@dataclass(frozen=True, slots=True)
class Repair:
    """What was done to one partition, and what is left."""

    directory: str
    # The end that was cut off; or that would have been, if `is_cut` is False.
    cut: Cut | None
    is_cut: bool
    # Damage that is still there: nothing but a good copy of the bytes can mend it.
    damage: tuple[Damage, ...]
    # None if the damaged end was left as it is, and with it all derived files.
    end_offset: int | None
    rebuilt_files: int = 0


def repair_partition(
    files: Files, directory: str, *, cut_damaged_tail: bool, now_ms: int, progress: Progress | None = None
) -> Repair:
    """Build the derived files again; cut a damaged end only when told."""
    finish_interrupted(files, directory)
    report = verify_partition(files, directory, progress=progress)
    cut = plan_cut(files, report)
    if cut is not None and cut_damaged_tail:
        _cut_file(files, cut)
        left = tuple(damage for damage in report.damage if damage.file != cut.file or not damage.size_bytes)
    elif report.segments and report.segments[-1].has_damaged_end:
        # To open such a log is to cut it, which nobody has asked for.
        return Repair(directory, cut, is_cut=False, damage=tuple(report.damage), end_offset=None)
    else:
        left = tuple(report.damage)
    end_offset, rebuilt = _rebuild(files, directory, now_ms=now_ms, keep_checkpoint=bool(report.missing))
    return Repair(directory, cut, cut_damaged_tail and cut is not None, left, end_offset, rebuilt)


def plan_cut(files: Files, report: PartitionReport) -> Cut | None:
    """What cutting the damaged end would take; None if the last segment is sound."""
    last = report.segments[-1] if report.segments else None
    if last is None or not any(damage.size_bytes for damage in last.damage):
        return None
    file = files.open(last.file)
    try:
        return _add_up(last.file, last.size_bytes, list(walk_segment(file, last.file, last.base_offset)))
    finally:
        file.close()


def _add_up(path: str, size: int, found: list[SoundFrame | Damage]) -> Cut:
    first = next(number for number, each in enumerate(found) if isinstance(each, Damage))
    lost = found[first:]
    damaged = [each for each in lost if isinstance(each, Damage)]
    sound = [each for each in lost if isinstance(each, SoundFrame)]
    claims = [each.claimed for each in damaged]
    last = lost[-1]
    batch = last.batch if isinstance(last, SoundFrame) else last.claimed
    return Cut(
        file=path,
        position=damaged[0].position,
        size_bytes=size - damaged[0].position,
        first_offset=damaged[0].first_offset,
        end_offset=None if batch is None else batch.last_offset + 1,
        sound_frames=len(sound),
        sound_records=sum(each.batch.count for each in sound),
        damaged_records=None if None in claims else sum(claim.count for claim in claims if claim is not None),
    )


def _cut_file(files: Files, cut: Cut) -> None:
    file = files.open(cut.file)
    try:
        file.truncate(cut.position)
        file.sync()
    finally:
        file.close()


def _rebuild(files: Files, directory: str, *, now_ms: int, keep_checkpoint: bool) -> tuple[int, int]:
    """Throw away what can be derived and let the log derive it again; returns its end and the files thrown away.

    Where the end of the log is missing, only the checkpoint knows which offsets were given out: it stays, or
    other records would get those offsets.
    """
    checkpoint = read_checkpoint(files, directory)
    removed = _remove_derived(files, directory, keep_checkpoint=keep_checkpoint)
    topic_id = NO_TOPIC if checkpoint is None else checkpoint.topic_id
    log = PartitionLog.open(files, directory, settings=SETTINGS, topic_id=topic_id, now_ms=now_ms)
    log.high_watermark = log.end_offset
    if checkpoint is not None:
        log.delete_before(min(checkpoint.start_offset, log.end_offset))
    end_offset = log.end_offset
    log.close()
    if checkpoint is None:
        # Better no word on whose log this is than a wrong one: the broker takes it as it lies.
        files.remove(f"{directory}/{CHECKPOINT}")
        files.sync_dir(directory)
    return end_offset, removed


def _remove_derived(files: Files, directory: str, *, keep_checkpoint: bool) -> int:
    """Remove indexes, the checkpoint and unsound snapshots; returns how many files that were.

    Sound snapshots stay: they remember producers whose records retention has taken.
    """
    removed = 0
    for name in files.list(directory):
        is_index = any(offset_in(name, suffix) is not None for suffix in SEGMENT_SUFFIXES if suffix != LOG)
        is_checkpoint = name == CHECKPOINT and not keep_checkpoint
        if is_index or is_checkpoint or _is_unsound_snapshot(files, directory, name):
            files.remove(f"{directory}/{name}")
            removed += 1
    return removed


def _is_unsound_snapshot(files: Files, directory: str, name: str) -> bool:
    if offset_in(name, PRODUCER_SNAPSHOT) is None:
        return False
    try:
        ProducerState.decode(files.read(f"{directory}/{name}"), SETTINGS.producer_window_batches, 1)
    except DamagedIndex:
        return True
    return False
