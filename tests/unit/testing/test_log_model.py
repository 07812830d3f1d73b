"""The model of a log must object to everything that is wrong, or a search with it finds nothing."""

from __future__ import annotations

from dataclasses import replace

from goqueue.codec.batch import encode_prefix, parse_batch_header
from goqueue.codec.batch_encode import encode_batch, encode_sparse_batch
from goqueue.codec.markers import encode_marker
from goqueue.records import NewRecord
from goqueue.testing.log_model import LogModel, ModelFrame, objection


def frame(offset: int, *records: tuple[bytes | None, bytes | None], **producer: int | bool) -> ModelFrame:
    batch = encode_batch([NewRecord(key, value) for key, value in records], now_ms=1, **producer)
    return ModelFrame.of(encode_prefix(offset, parse_batch_header(batch).length, 0) + batch[16:])


def marker(offset: int, *, commit: bool) -> ModelFrame:
    batch = encode_marker(commit, producer_id=7, producer_epoch=0, coordinator_epoch=0, now_ms=1)
    return ModelFrame.of(encode_prefix(offset, parse_batch_header(batch).length, 0) + batch[16:])


def thinned(whole: ModelFrame, *offsets: int) -> bytes:
    kept = [record for record in whole.records if record.offset in offsets]
    return encode_sparse_batch(parse_batch_header(whole.batch), kept)


FRAMES = (frame(0, (b"a", b"1"), (b"b", b"1")), frame(2, (b"a", b"2")), frame(3, (None, b"3")))
MODEL = LogModel(FRAMES)
BATCHES = [one.batch for one in FRAMES]


def test_what_was_written_is_fine_whole_or_cut_between_two_frames() -> None:
    assert objection(MODEL, BATCHES, 0, 4) is None
    assert objection(MODEL, BATCHES[:2], 0, 3) is None
    assert objection(MODEL, [], 0, 0) is None
    assert objection(MODEL, BATCHES[1:], 2, 4) is None
    # A log that starts inside a batch still has the batch.
    assert objection(MODEL, BATCHES, 1, 4) is None


def test_a_missing_a_foreign_a_changed_and_a_doubled_batch_are_objected_to() -> None:
    assert objection(MODEL, [BATCHES[0], BATCHES[2]], 0, 4)
    assert objection(MODEL, [*BATCHES, frame(4, (b"x", b"x")).batch], 0, 4)
    assert objection(MODEL, [frame(0, (b"a", b"X"), (b"b", b"1")).batch, *BATCHES[1:]], 0, 4)
    assert objection(MODEL, [BATCHES[0], *BATCHES], 0, 4)
    assert objection(MODEL, BATCHES[:2], 0, 4)
    assert objection(MODEL, BATCHES[:1], 0, 1)
    assert objection(MODEL, [], 0, 2)


def test_compaction_may_take_what_gave_way_to_something_newer_and_nothing_else() -> None:
    without_old_a = [thinned(FRAMES[0], 1), *BATCHES[1:]]
    assert objection(MODEL, without_old_a, 0, 4)
    compacted = replace(MODEL, compacted_to=4)
    assert objection(compacted, without_old_a, 0, 4) is None
    assert objection(compacted, [thinned(FRAMES[0], 0), *BATCHES[1:]], 0, 4)
    assert objection(compacted, BATCHES[1:], 0, 4)
    assert objection(compacted, BATCHES[:2], 0, 4)
    assert objection(replace(MODEL, compacted_to=2), without_old_a, 0, 4)


def test_tombstones_go_only_when_they_may() -> None:
    frames = (frame(0, (b"a", b"1")), frame(1, (b"a", None)), frame(2, (b"b", b"1")))
    compacted = LogModel(frames, compacted_to=2)
    assert objection(compacted, [frames[1].batch, frames[2].batch], 0, 3) is None
    assert objection(compacted, [frames[2].batch], 0, 3)
    assert objection(replace(compacted, tombstones_may_go=True), [frames[2].batch], 0, 3) is None


def test_aborted_records_may_be_compacted_away_and_protect_nobody() -> None:
    aborted = frame(1, (b"a", b"2"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    frames = (frame(0, (b"a", b"1")), aborted, marker(2, commit=False))
    compacted = LogModel(frames, compacted_to=3)
    assert objection(compacted, [frames[0].batch, frames[2].batch], 0, 3) is None
    assert objection(compacted, [aborted.batch, frames[2].batch], 0, 3)


def test_producers_transactions_and_epochs_are_read_off_the_frames() -> None:
    first = frame(0, (b"a", b"1"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    opened = LogModel((first,))
    assert opened.last_stable_offset() == 0
    assert opened.producers()[7].open_first_offset == 0
    ended = opened.appended(marker(1, commit=False))
    assert ended.last_stable_offset() == ended.end_offset == 2
    assert [(one.first_offset, one.last_offset) for one in ended.aborted()] == [(0, 1)]
    assert ended.producers()[7].last_sequence == 0
    assert ended.epochs() == [(0, 0)]
    assert ended.cut(1) == opened
