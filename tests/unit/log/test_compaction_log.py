"""Compaction of a whole log: readers, producers and restarts meet it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from uuid import UUID

import pytest

from goqueue.codec.batch import parse_batch_header
from goqueue.codec.batch_decode import decode_records
from goqueue.codec.batch_encode import encode_batch
from goqueue.codec.markers import encode_marker
from goqueue.log.partition_log import PartitionLog
from goqueue.log.settings import LogSettings
from goqueue.node.disk.os_files import OsFiles
from goqueue.records import NewRecord
from goqueue.testing.disk import Survival
from goqueue.testing.faults import Crash
from goqueue.testing.memory_files import MemoryFiles

HERE = "orders/0"
TOPIC = UUID(int=7)
DAY_MS = 24 * 3600 * 1000
SETTINGS = LogSettings(segment_bytes=2000, cleanup_compact=True, cleanup_delete=False, compaction_dirty_ratio=0.3)


def opened(files, now_ms=1000):
    log = PartitionLog.open(files, HERE, settings=SETTINGS, topic_id=TOPIC, now_ms=now_ms)
    log.high_watermark = log.end_offset
    return log


def append(log, *pairs, sequence=None, now_ms=1000, **producer):
    records = [NewRecord(key.encode(), value and value.encode(), timestamp_ms=now_ms) for key, value in pairs]
    if sequence is not None:
        producer = {"producer_id": 9, "producer_epoch": 0, "base_sequence": sequence}
    batch = encode_batch(records, now_ms=now_ms, **producer)
    done = log.append_batch(batch, now_ms=now_ms, leader_epoch=0)
    log.high_watermark = log.end_offset
    return done


def sync(log):
    round_ = log.begin_sync()
    if round_ is not None:
        round_.run()
        log.end_sync(round_, None)


def records(log, offset=None):
    found, at = [], log.start_offset if offset is None else offset
    while at < log.end_offset:
        read = log.read_batches(at, max_bytes=500, upper=log.end_offset)
        if not read.batches:
            break
        for batch in read.batches:
            if not parse_batch_header(batch).is_control:
                found += [(r.offset, r.key.decode(), r.value and r.value.decode()) for r in decode_records(batch)]
        at = read.next_offset
    return found if offset is None else [r for r in found if r[0] >= offset]


def filled(files, rounds=12):
    log = opened(files)
    for i in range(rounds):
        append(log, ("a", f"{i}"), (f"k{i % 3}", "x" * 200), sequence=2 * i)
    log.roll()
    sync(log)
    return log


def test_a_compacted_log_reads_the_same_from_every_offset():
    log = filled(MemoryFiles())
    before = records(log)
    newest = {key: offset for offset, key, _ in before}
    assert log.needs_compaction(1000)

    report = log.compact(1000)

    wanted = [record for record in before if newest[record[1]] == record[0]]
    assert report.records_dropped == len(before) - len(wanted)
    for offset in range(log.start_offset, log.end_offset + 1):
        assert records(log, offset) == [record for record in wanted if record[0] >= offset]
    assert not log.needs_compaction(1000)
    assert log.size_bytes == sum(segment.size_bytes for segment in log.segments)


def test_the_log_goes_on_after_compaction_and_after_a_restart():
    files = MemoryFiles()
    log = filled(files)
    log.compact(1000)
    wanted = records(log)
    end = log.end_offset
    log.close()

    log = opened(files)
    assert log.recovery.is_clean
    assert records(log) == wanted
    assert append(log, ("a", "new"), ("z", "new"), sequence=24).base_offset == end
    assert records(log)[-2:] == [(end, "a", "new"), (end + 1, "z", "new")]


@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_sequences_survive_compaction_and_a_crash_w35(has_checkpoint):
    files = MemoryFiles()
    log = filled(files)
    log.compact(1000)
    sync(log)
    if has_checkpoint:
        log.checkpoint()
    else:
        files.remove(f"{HERE}/partition.ckpt")
    log = opened(files.crash(Survival.EVERYTHING))
    assert log.damage == ()
    retry = append(log, ("a", "11"), ("k2", "x" * 200), sequence=22)
    assert retry.duplicate
    assert retry.base_offset == 22
    assert not append(log, ("a", "12"), sequence=24).duplicate


def test_only_what_is_synced_may_supersede_what_is():
    """The newer value could be lost in a power cut, and the older one, acknowledged, with it."""
    log = opened(MemoryFiles())
    append(log, ("a", "1"))
    log.roll()
    sync(log)
    append(log, ("a", "2"))
    log.roll()
    assert log.compact(1000).records_dropped == 0
    assert len(records(log)) == 2


def test_an_open_transaction_is_not_compacted():
    log = opened(MemoryFiles())
    append(log, ("a", "1"))
    append(log, ("a", "2"), producer_id=3, producer_epoch=0, base_sequence=0, transactional=True)
    log.roll()
    sync(log)
    assert log.compact(1000).records_dropped == 0

    marker = encode_marker(False, producer_id=3, producer_epoch=0, coordinator_epoch=0, now_ms=1000)
    log.append_batch(marker, now_ms=1000, leader_epoch=0, marker=True)
    log.high_watermark = log.end_offset
    log.roll()
    sync(log)
    log.compact(1000)
    assert records(log) == [(0, "a", "1")]


@pytest.mark.parametrize("spoil", ["lost", "damaged"])
def test_a_spoilt_index_of_aborted_transactions_is_built_again_and_hides_no_committed_value_l10(spoil):
    files = MemoryFiles()
    log = opened(files)
    append(log, ("a", "committed"))
    append(log, ("a", "aborted"), producer_id=3, producer_epoch=0, base_sequence=0, transactional=True)
    log.roll()  # the transaction begins in one segment and ends in another
    marker = encode_marker(False, producer_id=3, producer_epoch=0, coordinator_epoch=0, now_ms=1000)
    log.append_batch(marker, now_ms=1000, leader_epoch=0, marker=True)
    append(log, ("b", "1"))
    log.roll()
    sync(log)
    wanted = log.aborted_between(0, 4)
    log.close()
    for base in (0, 2):
        path = f"{HERE}/{base:020d}.txnindex"
        files.remove(path) if spoil == "lost" else files.flip_bit(path, 8)

    log = opened(files)
    assert [(one.first_offset, one.last_offset) for one in wanted] == [(1, 2)]
    assert log.aborted_between(0, 4) == wanted
    log.compact(1000)
    assert records(log) == [(0, "a", "committed"), (3, "b", "1")]


def test_a_pass_that_the_log_has_outrun_is_thrown_away():
    files = MemoryFiles()
    log = filled(files)
    before = records(log)
    compaction = log.begin_compaction(1000)
    compaction.run()
    log.delete_before(log.segments[1].base_offset)
    assert log.end_compaction(compaction) is None
    assert records(log) == [record for record in before if record[0] >= log.start_offset]
    assert not files.exists(f"{HERE}/cleaned")


def test_what_comes_after_a_truncation_is_compacted_like_anything_new():
    log = opened(MemoryFiles())
    append(log, ("a", "1"), ("b", "1"))
    append(log, ("c", "1"))
    log.roll()
    sync(log)
    assert log.compact(1000).cleaned_to == 3
    log.truncate_to(2)
    append(log, ("b", "2"))
    log.roll()
    sync(log)
    log.compact(1000)
    assert records(log) == [(0, "a", "1"), (2, "b", "2")]


def test_appends_during_a_pass_stay():
    log = filled(MemoryFiles())
    compaction = log.begin_compaction(1000)
    append(log, ("a", "during"), sequence=24)
    compaction.run()
    log.roll()
    append(log, ("a", "after"), sequence=25)
    assert log.end_compaction(compaction) is not None
    assert records(log)[-2:] == [(24, "a", "during"), (25, "a", "after")]
    assert log.segments[-1].base_offset == 25


def test_a_swap_that_fails_poisons_the_log_and_a_restart_finishes_it():
    files = MemoryFiles()
    log = filled(files)
    compaction = log.begin_compaction(1000)
    compaction.run()
    files.faults.fail("rename", "*cleaned*.log")
    with pytest.raises(Exception, match="could not be written"):
        log.end_compaction(compaction)
    assert log.poisoned
    log.abandon()
    log = opened(files)
    newest = {key: offset for offset, key, _ in records(log)}
    assert [offset for offset, key, _ in records(log)] == sorted(newest.values())


def test_a_crash_at_any_step_of_a_compaction_loses_no_latest_value():
    whole = filled(MemoryFiles())
    before = records(whole)
    whole.compact(1000)
    after = records(whole)
    outcomes = set()
    for survival in Survival:
        step = 0
        while True:
            step += 1
            files = MemoryFiles(seed=step)
            log = filled(files)
            files.faults.crash_at_step = files.faults.steps + step
            try:
                log.compact(1000)
            except Crash:
                pass
            else:
                break
            log = opened(files.crash(survival))
            found = records(log)
            assert found in (before, after), f"step {step}, {survival}"
            outcomes.add(found == after)
            assert log.damage == ()
            assert append(log, ("a", "11"), ("k2", "x" * 200), sequence=22).duplicate
            append(log, ("a", "next"), sequence=24)
            log.roll()
            sync(log)
            log.compact(1000)
            assert records(log)[-1] == (24, "a", "next")
            assert [r for r in records(log) if r[1] == "a"] == [(24, "a", "next")]
        assert step > 20
    assert outcomes == {True, False}


def test_readers_on_other_threads_never_notice_a_compaction(tmp_path):
    """They see each key's newest value at every moment, whichever log they happen to read."""
    log = opened(OsFiles(tmp_path / "data", create=True))
    expected: dict[str, int] = {}
    stop = []

    def read_over_and_over():
        rounds = 0
        while not stop or rounds < 3:
            floor = dict(expected)
            newest = {key: offset for offset, key, _ in records(log)}
            assert all(newest[key] >= offset for key, offset in floor.items())
            rounds += 1
        return rounds

    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(read_over_and_over) for _ in range(3)]
        for i in range(6):
            for j in range(6):
                done = append(log, (f"k{j}", "x" * 150), ("same", f"{i}"))
                expected[f"k{j}"], expected["same"] = done.base_offset, done.last_offset
            log.roll()
            sync(log)
            compaction = log.begin_compaction(1000)
            compaction.run()
            assert log.end_compaction(compaction) is not None
        stop.append(True)
        assert all(reader.result() >= 3 for reader in readers)
    assert len(records(log)) < 20
    log.close()


def test_records_are_compacted_at_the_age_that_the_topic_says_though_little_is_dirty_and_nothing_is_written():
    log = opened(MemoryFiles())
    log.reconfigure(replace(SETTINGS, compaction_dirty_ratio=1.0, max_compaction_lag_ms=5000))
    append(log, ("a", "old"), ("a", "new"))
    log.roll()
    sync(log)
    log.checkpoint()
    log.compact(1000)
    append(log, ("a", "newer"), ("b", "x"))
    sync(log)

    log.seal_for_compaction(5999)
    assert not log.needs_compaction(5999)
    log.seal_for_compaction(6000)
    sync(log)
    log.checkpoint()
    assert log.needs_compaction(6000), "a pass looks at it, though by its bytes it need not"
    log.compact(6000)
    assert [(key, value) for _, key, value in records(log)] == [("a", "newer"), ("b", "x")]
    assert not log.needs_compaction(60_000), "what a pass has seen is not due again"


def test_a_segment_of_a_compacted_log_is_sealed_when_its_records_are_due():
    log = opened(MemoryFiles())
    log.reconfigure(replace(SETTINGS, max_compaction_lag_ms=5000))
    append(log, ("a", "1"), now_ms=1000)
    append(log, ("a", "2"), now_ms=5999)
    assert len(log.segments) == 1
    append(log, ("a", "3"), now_ms=6000)
    assert len(log.segments) == 2
