"""Appending: check, write, and only then remember. A write that failed has changed nothing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from goqueue.codec.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    PREFIX_BYTES,
    TRANSACTIONAL,
    BatchHeader,
    check_batch,
    encode_prefix,
    parse_batch_header,
    verify_batch,
)
from goqueue.codec.batch_decode import decode_records
from goqueue.codec.batch_encode import stamped
from goqueue.codec.frame import HEADER_BYTES, Flags, FrameDamage, encode_frame_header
from goqueue.codec.frame_walk import StoredFrame, walk_frames
from goqueue.codec.markers import marker_is_commit
from goqueue.errors import CorruptFrame, FencedLeaderEpoch, MessageTooLarge, OffsetOutOfRange
from goqueue.log.index.batch_lanes import LaneRun, record_runs
from goqueue.log.index.offset_index import POSITION_MAX
from goqueue.log.segment.segment import Segment
from goqueue.log.state.log_state import LogState, coordinator_epoch_of
from goqueue.log.state.snapshot_files import write_snapshot
from goqueue.ports import Buffer
from goqueue.records import Appended, TimestampType

# Offsets within a segment are stored in 32 bits; a batch has at most 2^31 of them.
_SEGMENT_OFFSETS_MAX = 2**31


def append_data(
    state: LogState,
    batch: Buffer,
    now_ms: int,
    leader_epoch: int,
    priority: int,
    flags: int,
    headers: bytes,
    *,
    thinned: bool = False,
) -> Appended:
    """Write one batch of a client; or what is left of it where its broker has `thinned` it."""
    if state.sync.poison is not None or state.is_checkpoint_stale:
        state.check_writable()
    header = verify_batch(batch) if thinned else check_batch(batch)
    settings = state.settings
    if len(batch) > settings.max_message_bytes:
        raise MessageTooLarge(len(batch), settings.max_message_bytes)
    if header[9] >= 0:
        stored = state.producers.check(header)
        if stored is not None:
            return Appended(stored.first_offset, stored.last_offset, state.start_offset, duplicate=True)
    stamped_ms = -1
    if settings.timestamp_type is TimestampType.LOG_APPEND_TIME:
        batch = stamped(batch, now_ms)
        header = parse_batch_header(batch)
        stamped_ms = now_ms
    offset = state.end_offset
    runs = _mixed_runs(batch, header, offset) if flags & _MIXED_LANES else None
    attributes = header[5]
    if attributes & CODEC_MASK:
        flags |= _COMPRESSED
    if attributes & TRANSACTIONAL:
        flags |= _TRANSACTIONAL
    segment = _write(state, batch, header, now_ms, leader_epoch, priority, flags, headers)
    # Nothing below can fail: the frame is written, so it must be remembered.
    lanes = segment.lanes
    if lanes is not None:
        if runs is None:
            lanes.append_run(priority, offset, header[6] + 1)
        else:
            for run in runs:
                lanes.append_run(*run)
    if header[9] >= 0:
        state.producers.apply(header, offset, commit=None, now_ms=now_ms)
    return _appended(Appended, (offset, offset + header[6], state.start_offset, False, stamped_ms))


def append_marker(state: LogState, batch: Buffer, *, now_ms: int, leader_epoch: int) -> Appended:
    """Write a transaction marker, which only the broker itself makes."""
    state.check_writable()
    header = verify_batch(batch)
    commit = marker_is_commit(batch)
    coordinator_epoch = coordinator_epoch_of(batch)
    state.producers.check(header, coordinator_epoch=coordinator_epoch)
    offset = state.end_offset
    flags = _CONTROL | _TRANSACTIONAL | (_COMMIT if commit else 0)
    segment = _write(state, batch, header, now_ms, leader_epoch, 0, flags, b"")
    aborted = state.producers.apply(header, offset, commit=commit, now_ms=now_ms, coordinator_epoch=coordinator_epoch)
    if aborted is not None and segment.aborted is not None:
        segment.aborted.append(aborted)
    return Appended(offset, state.end_offset - 1, state.start_offset)


def append_frames(state: LogState, data: Buffer, continues: int) -> int:
    """Write frames as another replica has them; returns the new end.

    `continues` is the offset up to which the sender knows that both logs are the same: it must be our end. The
    frames' own offsets may leave gaps, since the leader's log may be compacted, so they cannot prove it. Leader
    epochs never fall: a frame of an older epoch is from a leader that was replaced.
    """
    state.check_writable()
    view = memoryview(data)
    try:
        frames = list(walk_frames(view))
    except FrameDamage as damage:
        raise CorruptFrame(f"{state.directory} (replicated)", damage.position, damage.reason) from None
    expected = state.end_offset
    if continues != expected:
        raise OffsetOutOfRange(continues, state.start_offset, expected)
    epoch = state.epochs.latest
    for frame in frames:
        if frame.header.offset < expected:
            raise OffsetOutOfRange(frame.header.offset, expected, expected)
        if frame.batch.leader_epoch < epoch:
            raise FencedLeaderEpoch(f"a frame of leader epoch {frame.batch.leader_epoch} cannot follow epoch {epoch}")
        expected, epoch = frame.batch.last_offset + 1, frame.batch.leader_epoch
    first = 0
    while first < len(frames):
        first = _write_run(state, view, frames, first)
    return state.end_offset


def roll(state: LogState, *, even_empty: bool = False) -> Segment | None:
    """Seal the active segment and begin a new one; None if there is nothing to seal.

    `even_empty`: the new one begins behind offsets whose bytes are lost, which may be all of the active one.

    Syncing both is left to the next round, so a power cut may take the sealed one's end and
    leave frames of the new one. Therefore nothing in the new one is promised before a
    checkpoint says that the recovery point has reached it: see `recovery`.
    """
    active = state.segments.active
    if active is None or not (active.size_bytes or even_empty):
        return None
    try:
        active.write_indexes()
        fresh = _create_segment(state)
    except OSError as error:
        raise state.storage_error(error) from error
    # Without this snapshot a recovery replays from the one before.
    with suppress(OSError):
        state.sync.add_path(write_snapshot(state.files, state.directory, state.end_offset, state.producers))
    state.sync.add_sealed(active.seal(), active)
    state.cache.note_unsynced(state.sync)
    state.sync.change_names()
    state.segments.add(fresh)
    return fresh


# Skips the keyword handling of a NamedTuple's own constructor.
_appended = tuple.__new__
_COMPRESSED = int(Flags.COMPRESSED)
_CONTROL = int(Flags.CONTROL)
_COMMIT = int(Flags.COMMIT)
_TRANSACTIONAL = int(Flags.TRANSACTIONAL)
_MIXED_LANES = int(Flags.MIXED_LANES)


def _write(
    state: LogState,
    batch: Buffer,
    header: BatchHeader,
    now_ms: int,
    leader_epoch: int,
    priority: int,
    flags: int,
    headers: bytes,
) -> Segment:
    """Put the batch at the end of the log, its base offset and leader epoch set, without copying it."""
    offset = state.end_offset
    view = memoryview(batch)
    lead = encode_prefix(offset, header[1], leader_epoch) + view[PREFIX_BYTES:ATTRIBUTES_AT]
    rest = view[ATTRIBUTES_AT:]
    frame_header = encode_frame_header(
        (lead, rest),
        flags=flags,
        offset=offset,
        timestamp_ns=now_ms * 1_000_000,
        priority=priority,
        headers=headers,
        last_crc=header[4],
    )
    size = HEADER_BYTES + len(batch) + len(headers)
    end_offset = offset + header[6] + 1
    segment = _segment_for(state, size, end_offset, now_ms)
    # As `frame_time_ms` has it, without a call for each batch.
    timestamp_ms = header[8]
    parts: Sequence[Buffer] = (frame_header + lead, rest, headers) if headers else (frame_header + lead, rest)
    try:
        segment.append(parts, size, offset, end_offset, timestamp_ms if timestamp_ms > 0 else now_ms)
    except OSError as error:
        _check_nothing_left(state, segment)
        raise state.storage_error(error) from error
    observer = state.observer
    if observer is not None and observer.is_failing:
        observer.succeeded(state.directory)
    state.epochs.assign(leader_epoch, offset)
    state.is_closed_clean = False
    state.end_offset = end_offset
    return segment


def _write_run(state: LogState, view: memoryview, frames: list[StoredFrame], first: int) -> int:
    """Write frames from `first` on, as many as one segment takes, in one write; returns which is next."""
    start = frames[first].position
    needed = _needs(frames[first])
    segment = _segment_for(state, *needed)
    if not segment.size_bytes:
        # Its first frame is in this run, and says how old the others may be.
        segment.first_append_ms = needed[2]
    held = segment.size_bytes - start
    stop = first + 1
    while stop < len(frames) and not _is_full(state, segment, held + frames[stop].position, *_needs(frames[stop])):
        stop += 1
    run = frames[first:stop]
    try:
        segment.append_run(view[start : run[-1].end], run)
    except OSError as error:
        _check_nothing_left(state, segment)
        raise state.storage_error(error) from error
    for frame in run:
        state.apply_frame(segment, frame, view)
    state.is_closed_clean = False
    state.end_offset = segment.end_offset
    return stop


def _segment_for(state: LogState, size: int, end_offset: int, now_ms: int) -> Segment:
    """The segment that takes the next `size` bytes, after a roll if the active one is full or old."""
    active = state.segments.active
    if active is None:
        return _first_segment(state)
    held = active.size_bytes
    if not held or active.first_append_ms is None:
        active.begin(now_ms=now_ms)
    if held and _is_full(state, active, held, size, end_offset, now_ms):
        return roll(state) or active
    return active


def _is_full(state: LogState, segment: Segment, held: int, size: int, end_offset: int, now_ms: int) -> bool:
    """Whether the next `size` bytes begin another segment: this one, with the bytes it holds, is full or old."""
    age_ms = 0 if segment.first_append_ms is None else now_ms - segment.first_append_ms
    return (
        held + size > state.settings.segment_bytes
        or held + size > POSITION_MAX
        or end_offset - segment.base_offset > _SEGMENT_OFFSETS_MAX
        or age_ms >= state.settings.segment_ms
        or (state.settings.seals_early and age_ms >= state.settings.segment_ms_max(segment.base_offset))
    )


def _needs(frame: StoredFrame) -> tuple[int, int, int]:
    """What a stored frame asks of its segment: bytes, the end of its offsets, and when it was written first."""
    return frame.end - frame.position, frame.batch.last_offset + 1, frame.header.timestamp_ns // 1_000_000


def _first_segment(state: LogState) -> Segment:
    try:
        return make_first_segment(state)
    except OSError as error:
        raise state.storage_error(error) from error


def make_first_segment(state: LogState) -> Segment:
    """Make the directory, the first segment, and a checkpoint that says whose they are. May run on any thread.

    Whoever appends meanwhile waits for the lock. The segment is seen by others once all of it is on the disk.
    """
    with state.first_segment_lock:
        active = state.segments.active
        if active is not None:
            return active
        state.files.make_dirs(state.directory)
        segment = _create_segment(state)
        state.sync.synced = state.end_point()
        try:
            if len(state.producers):
                # The log was emptied, and the frames that would tell of them are gone.
                state.sync.add_path(write_snapshot(state.files, state.directory, state.end_offset, state.producers))
            state.write_checkpoint(first=segment)
        except OSError:
            segment.release()
            raise
        state.segments.add(segment)
        return segment


def _create_segment(state: LogState) -> Segment:
    segment = state.new_segment(state.end_offset)
    segment.begin(create=True)
    segment.cut(0, state.end_offset)  # a file of that name may be left from a roll that failed
    return segment


def _check_nothing_left(state: LogState, segment: Segment) -> None:
    """A failed append must have left the file as it was; one that could not be cut back ends the writing."""
    with suppress(OSError):
        if segment.hold().log.size() == segment.size_bytes:
            return
    state.sync.poison = "a failed append left bytes behind"


def _mixed_runs(batch: Buffer, header: BatchHeader, offset: int) -> list[LaneRun]:
    """The lanes of a batch whose records are of several, at the offsets it is about to get."""
    shift = offset - header[0]
    return [LaneRun(run.lane, run.first_offset + shift, run.count) for run in record_runs(decode_records(batch))]
