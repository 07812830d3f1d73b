"""Compaction and power cuts: afterwards the old log or the new one, never a mixture."""

from __future__ import annotations

import pytest

from goqueue.codec.frame import Flags
from goqueue.errors import CorruptFrame
from goqueue.log.compaction.compaction_pass import finish_interrupted, load_state
from goqueue.log.segment.file_names import PRODUCER_SNAPSHOT, offsets_of
from goqueue.testing.disk import Survival
from goqueue.testing.faults import Crash
from goqueue.testing.memory_files import MemoryFiles

HERE = "topic/0"


@pytest.fixture(scope="module")
def keyed_log(make_bench):
    return lambda seed=0: build_keyed_log(make_bench(MemoryFiles(seed=seed)))


def build_keyed_log(bench):
    """Three segments in which every feature meets: values, deletions, transactions, lanes."""
    bench.write(("a", "1"), ("b", "1"), (None, "n"), producer=1)
    bench.write(("t", "aborted"), producer=2, transactional=True)
    bench.mark(2, commit=False)
    bench.roll()
    bench.write(("a", "2"), ("d", None), ("c", "1", b"low"), flags=Flags.MIXED_LANES)
    bench.roll()
    bench.write(("b", "2"), ("t", "real"), producer=2, transactional=True)
    bench.mark(2, commit=True)
    bench.roll()
    return bench


def every_crash(build, act, seeds=1):
    """Run `act` on a fresh log and cut the power at each of its steps in turn, in several ways."""
    ways = [(Survival.NOTHING, 0), (Survival.EVERYTHING, 0), *((Survival.SOME, seed) for seed in range(seeds))]
    for survival, seed in ways:
        step = 0
        while True:
            step += 1
            bench = build(seed)
            before = bench.records()
            bench.files.faults.crash_at_step = bench.files.faults.steps + step
            try:
                act(bench)
            except Crash:
                yield step, before, bench, bench.files.crash(survival)
                continue
            break
        assert step > 10


@pytest.mark.parametrize("segment_bytes", [10**6, 300])
def test_a_crash_at_any_step_leaves_the_old_log_or_the_new_one_never_a_mixture(keyed_log, segment_bytes):
    done = keyed_log()
    done.compact(segment_bytes=segment_bytes)
    after = done.records()
    outcomes = set()
    for step, before, bench, files in every_crash(keyed_log, lambda b: b.compact(segment_bytes=segment_bytes), seeds=2):
        again = bench.reopened(files)
        found = again.records()
        assert found in (before, after), f"step {step}"
        outcomes.add(found == after)
        assert again.newest()["a"] == (5, "2")
        assert not files.exists(f"{HERE}/cleaned")
        # And what was found can be compacted, to the same end.
        again.compact(segment_bytes=segment_bytes)
        assert again.records() == after, f"step {step}"
    assert outcomes == {True, False}


def test_a_crash_while_recovery_finishes_the_swap_does_no_harm(keyed_log):
    done = keyed_log()
    done.compact()
    after = done.records()
    for first, before, bench, crashed in every_crash(keyed_log, lambda b: b.compact()):
        files, step = crashed, 0
        while True:
            step += 1
            files.faults.crash_at_step = files.faults.steps + step
            try:
                finish_interrupted(files, HERE)
                files.faults.crash_at_step = None
                break
            except Crash:
                files = files.crash()
        assert bench.reopened(files).records() in (before, after), f"step {first}"


def test_a_finished_log_has_nothing_to_finish(keyed_log):
    bench = keyed_log()
    bench.compact()
    assert not finish_interrupted(bench.files, HERE)
    assert not finish_interrupted(bench.files, "no/such/log")


def test_a_damaged_word_about_a_swap_under_way_is_reported_not_guessed(keyed_log):
    bench = keyed_log()
    pass_ = bench.compaction()
    pass_.run()

    def stop(_):
        raise RuntimeError

    with pytest.raises(RuntimeError):
        pass_.swap(stop)
    bench.files.flip_bit(f"{HERE}/compaction.state", 20)
    with pytest.raises(CorruptFrame, match=r"compaction\.state"):
        finish_interrupted(bench.files, HERE)


def test_a_damaged_state_without_a_swap_only_means_that_all_is_mapped_again(keyed_log):
    bench = keyed_log()
    bench.compact()
    bench.files.flip_bit(f"{HERE}/compaction.state", 12)
    assert not finish_interrupted(bench.files, HERE)
    assert load_state(bench.files, HERE).cleaned_to == 0
    before = bench.records()
    bench.compact()
    assert bench.records() == before


def snapshots(bench):
    return offsets_of(bench.files.list(HERE), PRODUCER_SNAPSHOT)


def test_a_snapshot_of_the_producers_goes_with_the_segment_that_began_there(keyed_log):
    bench = keyed_log()
    for offset in (0, 3, 5, bench.end, bench.end + 7):
        bench.files.replace(f"{HERE}/{offset:020d}.snapshot", b"")
    bench.compact()
    assert snapshots(bench) == [0, bench.end, bench.end + 7]


def test_a_snapshot_that_may_know_a_transaction_as_open_goes_with_its_marker(make_bench):
    """A replay from it would wait for the marker for ever."""
    bench = make_bench()
    bench.write(("a", "1"), producer=1, transactional=True)
    bench.roll()
    bench.mark(1, commit=True)
    bench.write(("b", "1"), producer=1)
    for value in "234":  # the record goes, then the batch that ended its segment; then the marker's day begins
        bench.write(("a", value))
        bench.compact()
    bench.files.replace(f"{HERE}/{1:020d}.snapshot", b"")
    bench.files.replace(f"{HERE}/{0:020d}.snapshot", b"")
    bench.now_ms += 24 * 3600 * 1000
    bench.write(("a", "5"))
    bench.compact()
    assert [header.offset for header, _ in bench.batches() if header.flags & Flags.CONTROL] == []
    assert snapshots(bench) == []
