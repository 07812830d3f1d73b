"""Recovery: from what lies in a directory to a log that can be read and written.

After a clean stop nothing is scanned. Otherwise everything behind the recovery point is,
as one stream: what follows the last sound frame is a torn tail and is cut; what is
unsound before it is damage, which is reported and left where it is.

A sealed segment is synced after the roll, not before, so a power cut may take its end
and leave frames in the segment behind it. Nothing in a segment is promised before a
checkpoint whose recovery point has reached it, so where the recovery point lies before
such a missing end, all behind was never promised: it goes, and the log stays a prefix of
what was written. Without a checkpoint there is no such proof, and the gap is reported as
damage instead.
"""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

from goqueue.errors import CorruptFrame, DamagedIndex, InconsistentTopicId, StorageError
from goqueue.log.appends import roll
from goqueue.log.compaction.swap import finish_interrupted
from goqueue.log.durability.failed_sync import write_anew
from goqueue.log.durability.sync_rounds import SyncTracker
from goqueue.log.index.aborted_index import AbortedIndex
from goqueue.log.index.lane_index import LaneIndex
from goqueue.log.recovery.scan import RecoveryReport, Scan, decode_producers
from goqueue.log.removal import drop_below_start
from goqueue.log.segment.file_names import (
    LOG,
    PRODUCER_SNAPSHOT,
    SEGMENT_SUFFIXES,
    TEMPORARY,
    file_name,
    offset_in,
    offsets_of,
)
from goqueue.log.segment.handle_cache import SegmentCache
from goqueue.log.segment.segment_list import Gap, SegmentList
from goqueue.log.settings import LogSettings
from goqueue.log.state.checkpoint import Checkpoint, LogPoint, read_checkpoint
from goqueue.log.state.leader_epochs import LeaderEpochs
from goqueue.log.state.log_state import LogState
from goqueue.log.state.producer_state import ProducerState
from goqueue.log.state.snapshot_files import snapshot_path
from goqueue.ports import Files


def recover(
    files: Files, directory: str, *, settings: LogSettings, topic_id: UUID, cache: SegmentCache
) -> tuple[LogState, RecoveryReport]:
    """Open the log in `directory`; one that is not there is an empty log, and nothing is touched."""
    finish_interrupted(files, directory)
    names = files.list(directory)
    for name in names:
        if name.endswith(TEMPORARY):
            files.remove(f"{directory}/{name}")
    checkpoint = read_checkpoint(files, directory)
    if checkpoint is not None and checkpoint.topic_id != topic_id:
        raise InconsistentTopicId(f"{directory} holds the log of topic {checkpoint.topic_id}, not of {topic_id}")
    write_anew(files, directory, checkpoint)
    if checkpoint is not None and checkpoint.is_cut:
        _finish_cut(files, directory, checkpoint.end)
        names = files.list(directory)
    state = _assemble(files, directory, names, checkpoint, settings=settings, topic_id=topic_id, cache=cache)
    report = RecoveryReport()
    if checkpoint is not None:
        _miss_segments(state, checkpoint, report)
    if state.segments.active is None:
        # There is nothing that a sync could still lose.
        state.sync.synced = state.end_point()
        state.high_watermark = state.end_offset
        state.damage = tuple(report.damage)
        if checkpoint is not None and checkpoint.end == state.end_point():
            with suppress(DamagedIndex):
                state.producers = decode_producers(state, checkpoint)
        return state, report
    if checkpoint is None or not _take_clean(state, checkpoint):
        report.is_clean = False
        Scan(state, checkpoint, report).run()
        # It must not cut again what is written from now on.
        state.is_checkpoint_stale |= checkpoint is not None and checkpoint.is_cut
    if not state.segments.gaps or state.start_offset < state.segments.gaps[0].first_offset:
        state.start_offset = max(state.start_offset, state.segments.current.all[0].base_offset)
    if state.start_offset > state.end_offset:
        _start_anew(state, checkpoint)
    state.high_watermark = max(min(state.high_watermark, state.end_offset), state.start_offset)
    # Markers that were replayed lie below a high watermark that does not move any more.
    state.producers.settle(state.high_watermark)
    state.epochs.truncate_start(state.start_offset)
    drop_below_start(state)
    state.damage = tuple(report.damage)
    if any(gap.end_offset == state.end_offset for gap in state.segments.gaps):
        # What is written from now on must not lie in one segment with what is missing before it.
        with suppress(StorageError):
            roll(state, even_empty=True)
    return state, report


def _miss_segments(state: LogState, checkpoint: Checkpoint, report: RecoveryReport) -> None:
    """Note the segments that were on the disk when the checkpoint was written, and whose files are gone.

    Not those of which nothing was promised yet, nor those that retention deleted, which lie before the checkpoint's
    start. In a compacted log segments go by themselves, but never the last one.
    """
    segments = state.segments.current
    present = {segment.base_offset for segment in segments.all}
    if checkpoint.is_cut or present.issuperset(checkpoint.bases):
        return
    known = sorted({*checkpoint.bases, *present})
    lost = [
        (base, end)
        for base, end in zip(known, [*known[1:], checkpoint.recovery.offset], strict=True)
        if base not in present and base < checkpoint.recovery.offset and end > checkpoint.start_offset
    ]
    for base, end in lost if state.is_dense() or not present else ():
        path = f"{state.directory}/{file_name(base, LOG)}"
        reason = f"offsets {base} to {end - 1} are missing: {file_name(base, LOG)} was synced and is gone"
        report.damage.append(CorruptFrame(path, 0, reason))
        state.segments.gaps += (Gap(base, end, path, 0, reason),)
        before = segments.all[segments.at(base)] if present else None
        if before is not None and before.base_offset < base:
            before.end_offset = min(before.end_offset, base)


def _finish_cut(files: Files, directory: str, end: LogPoint) -> None:
    """Complete a truncation that a crash interrupted; may be done again."""
    for name in files.list(directory):
        for suffix in SEGMENT_SUFFIXES:
            base = offset_in(name, suffix)
            if base is not None and (base > end.base_offset or (base == end.base_offset and not end.position)):
                files.remove(f"{directory}/{name}")
    # An empty last segment still says where the log goes on.
    file = files.open(f"{directory}/{file_name(end.base_offset, LOG)}", create=True)
    try:
        if file.size() > end.position:
            file.truncate(end.position)
        file.sync()
    finally:
        file.close()
    for taken in offsets_of(files.list(directory), PRODUCER_SNAPSHOT):
        if taken > end.offset:
            files.remove(snapshot_path(directory, taken))
    files.sync_dir(directory)


def _start_anew(state: LogState, checkpoint: Checkpoint | None) -> None:
    """All that is left was deleted by order, and what followed it was lost before it was synced.

    The log goes on where it was told to start, for the offsets before that have been seen.
    """
    segments = state.segments.current.all
    state.segments.replace(())
    state.end_offset = state.start_offset
    state.sync.drop()
    state.sync = SyncTracker(state.files, state.directory, state.end_point())
    if checkpoint is not None and checkpoint.end.offset == state.end_offset:
        with suppress(DamagedIndex):
            state.producers = decode_producers(state, checkpoint)
    for segment in reversed(segments):
        segment.remove_files()
    # A segment that came back would lie in the middle of what is written from now on.
    state.files.sync_dir(state.directory)
    # The frames that would tell of the producers are gone; on a full disk, the producers are too.
    with suppress(OSError):
        state.write_checkpoint()


def _assemble(
    files: Files,
    directory: str,
    names: list[str],
    checkpoint: Checkpoint | None,
    *,
    settings: LogSettings,
    topic_id: UUID,
    cache: SegmentCache,
) -> LogState:
    """The log as the directory lists it. Where the last segment ends is not known yet."""
    start = checkpoint.start_offset if checkpoint is not None else 0
    recovery = checkpoint.recovery if checkpoint is not None else LogPoint(start, start, 0)
    state = LogState(
        files=files,
        directory=directory,
        topic_id=topic_id,
        settings=settings,
        cache=cache,
        segments=SegmentList(),
        producers=ProducerState(settings.producer_window_batches, settings.producer_expiry_ms),
        epochs=LeaderEpochs.from_entries(checkpoint.epochs if checkpoint is not None else ()),
        sync=SyncTracker(files, directory, recovery),
        start_offset=start,
        end_offset=max(start, recovery.offset),
        high_watermark=checkpoint.high_watermark if checkpoint is not None else 0,
        recorded=checkpoint.recovery if checkpoint is not None else None,
    )
    known = -1 if checkpoint is None else checkpoint.tombstones_gone_to
    # Where nobody noted it, all may be gone that a compaction has seen.
    state.tombstones_gone_to = state.compacted_to() if known < 0 and names else max(known, 0)
    bases = offsets_of(names, LOG)
    ends = [*bases[1:], bases[-1]] if bases else []
    state.segments = SegmentList(
        state.new_segment(base, size_bytes=files.size(f"{directory}/{file_name(base, LOG)}"), end_offset=end)
        for base, end in zip(bases, ends, strict=True)
    )
    return state


def _take_clean(state: LogState, checkpoint: Checkpoint) -> bool:
    """Believe a checkpoint of a clean stop, if the files are as it left them."""
    active = state.segments.active
    end = checkpoint.end
    if not checkpoint.is_clean or active is None or (active.base_offset, active.size_bytes) != end[1:]:
        return False
    if checkpoint.has_unknown_times:
        return False
    try:
        active.lanes = LaneIndex.decode(checkpoint.lanes)
        active.aborted = AbortedIndex.decode(checkpoint.aborted)
        state.producers = decode_producers(state, checkpoint)
    except DamagedIndex:
        return False
    # Opened before anybody reads: a handle that a reader opened would not see later appends.
    active.hold()
    active.expect_indexes(checkpoint)
    active.end_offset = state.end_offset = end.offset
    state.sync.synced = end
    first_open = state.producers.first_open_offset()
    state.sync.stable_end = end.offset if first_open is None else first_open
    state.is_closed_clean = True
    return True
