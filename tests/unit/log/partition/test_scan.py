"""A scan finds out what the appends knew: indexes, lanes, producers, epochs, whatever kinds of frames are mixed."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.codec.batch_encode import encode_batch
from goqueue.codec.frame import Flags
from goqueue.log.index.batch_lanes import PRIORITY_HEADER
from goqueue.records import NewRecord

FRAMES = st.lists(
    st.tuples(
        st.sampled_from(["plain", "plain", "plain", "producer", "marker", "mixed", "headers"]),
        st.integers(0, 4),  # lane
        st.integers(1, 3),  # records
        st.integers(0, 150),  # bytes in each
        st.sampled_from([-1, 5, 900, 40, 2_000_000]),  # timestamp
        st.booleans(),  # whether a new leader writes
    ),
    min_size=1,
    max_size=30,
)


def write(desk, frames, checkpoint_at):
    epoch, sequence, is_open = 0, 0, False
    for number, (kind, lane, count, size, stamp, is_new) in enumerate(frames):
        if number == checkpoint_at:
            desk.sync()
            desk.log.checkpoint()
        epoch += is_new
        desk.now_ms += 7
        if kind == "marker" and is_open:
            desk.mark(commit=lane > 2, epoch=epoch)
            is_open = False
            continue
        producer = kind in {"producer", "marker"}
        lanes = [(lane + one) % 5 if kind == "mixed" else lane for one in range(count)]
        batch = encode_batch(
            [NewRecord(None, b"x" * size, ((PRIORITY_HEADER, b"%d" % one),), timestamp_ms=stamp) for one in lanes],
            now_ms=1,
            producer_id=5 if producer else -1,
            producer_epoch=0 if producer else -1,
            base_sequence=sequence if producer else -1,
            transactional=producer,
        )
        desk.log.append_batch(
            batch,
            now_ms=desk.now_ms,
            leader_epoch=epoch,
            priority=min(lanes),
            flags=Flags.MIXED_LANES if kind == "mixed" else 0,
            headers=b"\0\0" if kind == "headers" else b"",
        )
        desk.log.high_watermark = desk.log.end_offset
        sequence += count if producer else 0
        is_open |= producer


def knowledge(desk):
    log = desk.log
    return {
        "batches": desk.read(),
        "segments": [(one.base_offset, one.end_offset, one.size_bytes, one.max_timestamp_ms) for one in log.segments],
        "indexes": {path: data for path, data in desk.files.tree().items() if "index" in path},
        "lanes": list(log.segments[-1].lanes.runs(None, 0)),
        "producers": log.producers.all(),
        "stable": log.last_stable_offset,
        "aborted": log.aborted_between(0, 999),
        "epochs": [log.end_offset_for_epoch(epoch) for epoch in range(32)],
    }


@settings(max_examples=60, deadline=None)
@given(frames=FRAMES, with_checkpoint=st.booleans(), at=st.integers(0, 30))
def test_a_scan_knows_what_the_appends_knew(make_desk, frames, with_checkpoint, at):
    desk = make_desk()
    write(desk, frames, checkpoint_at=at if with_checkpoint else None)
    desk.log.segments[-1].spill_indexes(whole=True)
    before = knowledge(desk)
    if not with_checkpoint:
        for path in before["indexes"]:
            desk.files.remove(path)
        desk.lose_checkpoint()
    desk.kill()
    assert not desk.log.recovery.is_clean
    desk.log.segments[-1].spill_indexes(whole=True)
    assert knowledge(desk) == before


def test_most_of_a_scan_over_plain_frames_makes_no_objects(desk, monkeypatch):
    desk.reopen(segment_bytes=10**7)
    desk.append_many(500)
    applied = []
    state = type(desk.log._state)
    apply_frame = state.apply_frame
    monkeypatch.setattr(state, "apply_frame", lambda *a, **k: applied.append(1) or apply_frame(*a, **k))
    desk.sync()
    desk.log.checkpoint()
    desk.append_many(500)
    desk.kill()
    assert desk.offsets() == list(range(1000))
    assert not applied
