"""Compaction: the newest record of every key stays, where it was (W27, R14.05)."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from goqueue.codec.batch import decode_records, encode_batch, encode_marker, parse_batch_header
from goqueue.codec.frame import HEADER_BYTES, Flags, encode_frame_header, encode_headers
from goqueue.errors import CorruptFrame
from goqueue.log.compaction import Compaction, compactable, dirty_ratio, finish_interrupted, load_state
from goqueue.log.lane_index import LaneIndex, read_runs
from goqueue.log.lanes import PRIORITY_HEADER
from goqueue.log.producer_state import ProducerState
from goqueue.log.segment import Segment
from goqueue.log.segment_cache import SegmentCache
from goqueue.log.segment_names import LOG, offsets_of
from goqueue.records import NewRecord
from goqueue.testing.disk import Survival
from goqueue.testing.faults import Crash
from goqueue.testing.memory_files import MemoryFiles

HERE = "topic/0"
DAY_MS = 24 * 3600 * 1000


def new(key, value, lane=None):
    headers = () if lane is None else ((PRIORITY_HEADER, lane),)
    as_bytes = [part.encode() if part is not None else None for part in (key, value)]
    return NewRecord(*as_bytes, headers, timestamp_ms=5)


@dataclass
class Bench:
    """A log of sealed segments, without the log: what compaction sees of it."""

    files: MemoryFiles = field(default_factory=MemoryFiles)
    segments: list = field(default_factory=list)
    producers: ProducerState = field(default_factory=ProducerState)
    aborted: list = field(default_factory=list)
    sequences: dict = field(default_factory=dict)
    end: int = 0
    now_ms: int = 1_000_000

    def __post_init__(self):
        self.cache = SegmentCache(100)
        self.files.make_dirs(HERE)
        self.open = None

    def segment(self, base, size_bytes=0, end=None):
        end = base if end is None else end
        return Segment(self.files, self.cache, HERE, base, size_bytes=size_bytes, end_offset=end, interval_bytes=64)

    def frame(self, batch, *, flags=0, priority=2, headers=b""):
        """Append a batch at the end of the log, as the log would."""
        if self.open is None:
            self.open = self.segment(self.end)
            self.open.begin(create=True)
        body = self.end.to_bytes(8, "big") + batch[8:]
        header = encode_frame_header(
            [body], flags=flags, offset=self.end, timestamp_ns=self.now_ms * 10**6, priority=priority, headers=headers
        )
        batch_header = parse_batch_header(body)
        end = self.end + batch_header.last_offset_delta + 1
        commit = bool(flags & Flags.COMMIT) if flags & Flags.CONTROL else None
        aborted = self.producers.apply(batch_header, self.end, commit=commit, now_ms=self.now_ms)
        if aborted is not None:
            self.aborted.append(aborted)
        parts = [header, body, headers]
        size = sum(map(len, parts))
        self.open.append(parts, size=size, offset=self.end, end_offset=end, timestamp_ms=batch_header.max_timestamp_ms)
        self.end = end

    def write(self, *records, producer=-1, transactional=False, codec=0, **frame):
        sequence = self.sequences.get(producer, 0) if producer >= 0 else -1
        batch = encode_batch(
            records,
            codec=codec,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=sequence,
            transactional=transactional,
            now_ms=5,
        )
        self.sequences[producer] = sequence + len(records)
        if transactional:
            frame["flags"] = frame.get("flags", 0) | Flags.TRANSACTIONAL
        self.frame(batch, **frame)

    def mark(self, producer, *, commit):
        batch = encode_marker(commit, producer_id=producer, producer_epoch=0, coordinator_epoch=0, now_ms=5)
        flags = Flags.CONTROL | Flags.TRANSACTIONAL | (Flags.COMMIT if commit else 0)
        self.frame(batch, flags=flags)

    def roll(self):
        if self.open is None:
            return
        self.open.write_indexes()
        for name in self.files.list(HERE):
            self.files.open(f"{HERE}/{name}").sync()
        self.files.sync_dir(HERE)
        self.open.seal()
        self.segments.append(self.open)
        self.open = None

    def aborted_between(self, first, upper):
        return [e for e in self.aborted if e.first_offset < upper and e.last_offset >= first]

    def compaction(self, **changes):
        options = {
            "files": self.files,
            "directory": HERE,
            "segments": tuple(self.segments),
            "aborted_between": self.aborted_between,
            "last_batches": self.producers.last_batches(),
            "now_ms": self.now_ms,
            "segment_bytes": 10**6,
            "index_interval_bytes": 64,
            "tombstone_retention_ms": DAY_MS,
        }
        return Compaction(**(options | changes))

    def replace(self, one):
        at = self.segments.index(one.old[0])
        self.segments[at : at + len(one.old)] = [self.segment(one.base_offset, one.size_bytes, one.end_offset)]
        for old in one.old:
            old.release()

    def compact(self, **changes):
        self.roll()
        pass_ = self.compaction(**changes)
        report = pass_.run()
        pass_.swap(self.replace)
        return report

    def compact_fully(self, **changes):
        reports = [self.compact(**changes)]
        while not reports[-1].is_complete:
            reports.append(self.compact(**changes))
            assert reports[-1].cleaned_to > reports[-2].cleaned_to, "a pass that got no further"
        return reports

    def reopened(self, files):
        """The log as a restart finds it: from the names on the disk alone."""
        bench = Bench(files, producers=self.producers, aborted=self.aborted, sequences=dict(self.sequences))
        finish_interrupted(files, HERE)
        bases = offsets_of(files.list(HERE), LOG)
        for base, end in zip(bases, [*bases[1:], self.end], strict=False):
            size = files.size(f"{HERE}/{base:020d}.log")
            bench.segments.append(bench.segment(base, size, end))
        bench.end, bench.now_ms = self.end, self.now_ms
        return bench

    def batches(self):
        """(header, batch) of every frame."""
        found = []
        for segment in self.segments:
            for _, header, frame in segment.frames():
                found.append((header, bytes(frame[HEADER_BYTES : HEADER_BYTES + header.value_bytes])))
        return found

    def records(self):
        """(offset, key, value) of every data record."""
        return [
            (r.offset, *(None if part is None else part.decode() for part in (r.key, r.value)))
            for header, batch in self.batches()
            if not header.flags & Flags.CONTROL
            for r in decode_records(batch)
        ]

    def newest(self):
        """The latest value of every key: what compaction must never lose."""
        return {key: (offset, value) for offset, key, value in self.records() if key is not None}


def test_only_the_newest_record_of_a_key_stays_with_its_offset_and_order():
    bench = Bench()
    bench.write(new("a", "1"), new("b", "1"), new("a", "2"))
    bench.roll()
    bench.write(new("c", "1"), new("a", "3"))

    report = bench.compact()

    assert bench.records() == [(1, "b", "1"), (3, "c", "1"), (4, "a", "3")]
    assert report.records_dropped == 2
    assert report.is_complete
    assert report.cleaned_to == 5
    assert (report.segments_before, report.segments_after) == (2, 1)


def test_records_without_a_key_all_stay():
    bench = Bench()
    bench.write(new(None, "1"), new(None, "2"), new("a", "1"))
    bench.write(new(None, "3"), new("a", "2"))
    bench.compact()
    assert bench.records() == [(0, None, "1"), (1, None, "2"), (3, None, "3"), (4, "a", "2")]


def test_an_empty_key_is_a_key():
    bench = Bench()
    bench.write(new("", "1"), new("", "2"))
    bench.compact()
    assert bench.records() == [(1, "", "2")]


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_everything_about_a_record_that_stays_is_kept(codec):
    bench = Bench()
    bench.write(
        NewRecord(b"a", b"old", (("h", b"1"), ("n", None)), timestamp_ms=70),
        NewRecord(b"b", b"kept", (("h", b"2"), ("n", None)), timestamp_ms=90),
        NewRecord(b"a", b"new", (), timestamp_ms=80),
        producer=5,
        codec=codec,
    )
    bench.roll()
    (before,) = bench.batches()
    bench.compact()
    (after,) = bench.batches()

    assert decode_records(after[1]) == decode_records(before[1])[1:]
    old, kept = parse_batch_header(before[1]), parse_batch_header(after[1])
    for name in ("base_offset", "last_offset", "producer_id", "producer_epoch", "base_sequence", "attributes"):
        assert getattr(kept, name) == getattr(old, name), name
    assert kept.leader_epoch == old.leader_epoch
    assert kept.max_timestamp_ms == 90
    assert after[0].timestamp_ns == before[0].timestamp_ns
    assert after[0].flags == before[0].flags


def test_frames_that_keep_all_their_records_are_copied_byte_for_byte():
    bench = Bench()
    bench.write(new("a", "1"), headers=encode_headers([("trace", b"x")]))
    bench.write(new("b", "1"))
    bench.write(new("c", "1"), new("b", "2"))
    bench.roll()
    before = bench.files.read(f"{HERE}/{0:020d}.log")
    sizes = [header.size for header, _ in bench.batches()]
    bench.compact()
    after = bench.files.read(f"{HERE}/{0:020d}.log")
    assert after == before[: sizes[0]] + before[sizes[0] + sizes[1] :]


def test_a_log_with_nothing_to_remove_is_left_as_it_lies():
    bench = Bench()
    bench.write(new("a", "1"), new("b", "1"))
    bench.roll()
    segment = bench.segments[0]
    report = bench.compact()
    assert bench.segments == [segment]
    assert report.records_dropped == 0
    assert load_state(bench.files, HERE).cleaned_to == 2
    assert not bench.files.exists(f"{HERE}/cleaned")


def test_small_neighbours_become_one_segment_and_large_ones_stay_apart():
    bench = Bench()
    for i in range(6):
        bench.write(new(f"k{i}", "x" * 100), new("same", "y"))
        bench.roll()
    size = bench.segments[0].size_bytes
    bench.compact(segment_bytes=2 * size)
    assert [segment.base_offset for segment in bench.segments] == [0, 4, 8]
    assert [segment.end_offset for segment in bench.segments] == [4, 8, 12]
    assert len(bench.records()) == 7
    assert offsets_of(bench.files.list(HERE), LOG) == [0, 4, 8]


def test_a_segment_of_which_nothing_is_left_still_says_where_it_ends():
    bench = Bench()
    bench.write(new("a", "x" * 300))
    bench.roll()
    bench.write(new("a", "y" * 300))
    bench.compact(segment_bytes=400)
    again = bench.reopened(bench.files)
    ends = [[h.offset + parse_batch_header(b).last_offset_delta + 1 for h, b in again.batches()]]
    assert ends == [[1, 2]]
    assert again.records() == [(1, "a", "y" * 300)]


def test_the_last_batch_of_a_producer_stays_even_when_it_is_empty_so_that_its_sequence_survives():
    bench = Bench()
    bench.write(new("a", "1"), new("a", "2"), producer=7)
    bench.write(new("a", "3"))
    bench.write(new("b", "1"))
    bench.compact()

    assert bench.records() == [(2, "a", "3"), (3, "b", "1")]
    state = ProducerState()
    for header, batch in bench.batches():
        state.apply(parse_batch_header(batch), header.offset, commit=None, now_ms=0)
    (info,) = state.producers()
    assert (info.producer_id, info.last_sequence) == (7, 1)


def test_a_deletion_stays_for_its_time_after_the_first_compaction_and_then_goes():
    bench = Bench()
    bench.write(new("a", "1"))
    bench.write(new("a", None), new("b", "1"))
    bench.compact()
    assert bench.records() == [(1, "a", None), (2, "b", "1")]

    bench.now_ms += DAY_MS - 1
    bench.write(new("c", "1"))
    bench.compact()
    assert (1, "a", None) in bench.records()

    bench.now_ms += 1
    bench.write(new("c", "2"))
    bench.compact()
    assert bench.records() == [(2, "b", "1"), (4, "c", "2")]


def test_the_time_of_a_deletion_begins_with_its_compaction_not_with_its_age():
    bench = Bench()
    bench.write(new("a", None), new("b", "1"))
    bench.now_ms += 100 * DAY_MS
    bench.compact()
    assert (0, "a", None) in bench.records()


def test_a_deletion_that_no_pass_has_reached_yet_outlives_what_it_deletes():
    """Its time must not run out before the pass that removes the older value."""
    bench = Bench()
    bench.write(new("a", "1"))
    for key in "bcdefg":
        bench.write(new(key, "1"))
    bench.write(new("a", None))
    for _ in range(4):
        report = bench.compact(keys_max=1)
        assert not report.is_complete
        assert [r for r in bench.records() if r[1] == "a"] == [(0, "a", "1"), (7, "a", None)]
        bench.now_ms += 2 * DAY_MS
    bench.compact_fully(keys_max=1)
    assert [r for r in bench.records() if r[1] == "a"] == [(7, "a", None)]


def test_a_value_after_its_deletion_is_a_value():
    bench = Bench()
    bench.write(new("a", "1"), new("a", None), new("a", "2"))
    bench.compact()
    assert bench.records() == [(2, "a", "2")]


def test_records_of_aborted_transactions_go_and_do_not_supersede_anything():
    bench = Bench()
    bench.write(new("a", "committed"))
    bench.write(new("a", "aborted"), producer=1, transactional=True)
    bench.mark(1, commit=False)
    bench.write(new("a", "fine"), new("b", "fine"), producer=1, transactional=True)
    bench.mark(1, commit=True)
    bench.write(new("z", "1"))
    report = bench.compact()
    assert bench.records() == [(3, "a", "fine"), (4, "b", "fine"), (6, "z", "1")]
    assert report.records_dropped == 2


def test_an_aborted_value_never_hides_the_committed_one_before_it():
    bench = Bench()
    bench.write(new("a", "committed"))
    bench.write(new("a", "aborted"), producer=1, transactional=True)
    bench.mark(1, commit=False)
    bench.compact()
    assert bench.records() == [(0, "a", "committed")]


def controls(bench):
    return [header.offset for header, _ in bench.batches() if header.flags & Flags.CONTROL]


def test_a_marker_stays_while_records_of_its_transaction_do_and_a_day_longer():
    bench = Bench()
    bench.write(new("a", "1"), producer=1, transactional=True)
    bench.mark(1, commit=True)
    bench.write(new("z", "1"), producer=1, transactional=True)  # so that the batch above is not the last
    bench.mark(1, commit=True)
    bench.write(new("b", "1"))
    bench.compact()
    assert controls(bench) == [1, 3]

    bench.write(new("a", "2"))
    bench.compact()  # met the transaction's batch and removed it: the marker must wait for the next pass
    assert controls(bench) == [1, 3]

    bench.write(new("b", "2"))
    bench.compact()  # met none: the day begins
    assert controls(bench) == [1, 3]

    bench.now_ms += DAY_MS
    bench.write(new("b", "3"))
    bench.compact()
    assert controls(bench) == [3]


def test_the_index_of_aborted_transactions_goes_with_its_markers():
    bench = Bench()
    bench.write(new("a", "1"), producer=1, transactional=True)
    bench.mark(1, commit=False)
    bench.write(new("a", "2"), producer=1, transactional=True)
    bench.mark(1, commit=True)
    bench.write(new("b", "1"))
    bench.compact()

    def stored():
        from goqueue.log.aborted_index import AbortedIndex

        return AbortedIndex.decode(bench.files.read(f"{HERE}/{0:020d}.txnindex")).entries()

    assert stored() == bench.aborted
    bench.write(new("b", "2"))
    bench.compact()
    bench.now_ms += DAY_MS
    bench.write(new("b", "3"))
    bench.compact()
    assert controls(bench) == [3]
    assert stored() == []


def test_the_last_marker_of_a_producer_without_data_keeps_its_epoch_alive():
    bench = Bench()
    bench.mark(1, commit=False)
    bench.write(new("b", "1"))
    bench.compact()
    bench.now_ms += 2 * DAY_MS
    bench.write(new("b", "2"))
    bench.compact()
    assert controls(bench) == [0]


def test_lanes_are_indexed_again_and_a_frame_of_one_lane_left_is_no_longer_mixed():
    bench = Bench()
    bench.write(
        new("a", "1", b"critical"), new("b", "1", b"low"), new("c", "1", b"low"), flags=Flags.MIXED_LANES, priority=0
    )
    bench.write(new("d", "1", b"high"), new("a", "2", b"low"), flags=Flags.MIXED_LANES, priority=1)
    bench.compact()

    headers = [header for header, _ in bench.batches()]
    assert [(h.flags & Flags.MIXED_LANES, h.priority) for h in headers] == [(0, 3), (Flags.MIXED_LANES, 1)]
    file = bench.files.open(f"{HERE}/{0:020d}.laneindex")
    runs = list(read_runs(file, None, 0, where="t"))
    rebuilt = LaneIndex.rebuild(0, [(h, f) for s in bench.segments for _, h, f in s.frames()])
    assert runs == list(rebuilt.runs(None, 0))
    assert [run for run in runs if run.lane == 1] == [(1, 3, 1)]


def test_offset_and_time_indexes_of_a_new_segment_lead_to_its_frames():
    bench = Bench()
    for i in range(50):
        bench.write(new(f"k{i % 10}", "x" * 40), new(f"u{i}", "x" * 40))
    bench.compact()
    (segment,) = bench.segments
    handles = segment.pin()
    positions = {header.offset: position for position, header, _ in segment.frames()}
    for offset, position in positions.items():
        start = segment.position_before(offset, handles)
        assert start <= position
        assert start in positions.values()
    handles.unpin()
    assert len(segment.index) > 3
    assert segment.max_timestamp_ms == 5


def test_a_small_map_takes_several_passes_and_ends_with_the_same_log():
    def filled():
        bench = Bench()
        for i in range(60):
            bench.write(new(f"k{i * 7 % 11}", f"{i}"), new(f"j{i % 5}", f"{i}"))
            if i % 9 == 0:
                bench.roll()
        bench.roll()
        return bench

    at_once, in_steps = filled(), filled()
    at_once.compact()
    reports = in_steps.compact_fully(keys_max=3)
    assert len(reports) > 3
    assert [report.cleaned_to for report in reports] == sorted({report.cleaned_to for report in reports})
    assert in_steps.records() == at_once.records()


def test_a_second_pass_maps_only_what_is_new():
    bench = Bench()
    bench.write(*(new(f"k{i}", "1") for i in range(50)))
    bench.compact()
    bench.write(new("k1", "2"), new("k2", "2"))
    bench.roll()
    assert dirty_ratio(bench.segments, load_state(bench.files, HERE).cleaned_to) < 0.5
    report = bench.compact(keys_max=2)
    assert report.is_complete
    assert report.records_dropped == 2


def test_only_sealed_segments_below_the_bound_and_old_enough_are_compactable():
    bench = Bench()
    for i in range(4):
        bench.write(NewRecord(b"a", b"v", timestamp_ms=100 * i))
        bench.roll()
    segments = bench.segments

    def bases(**options):
        found = compactable(segments, **({"upper": 4, "now_ms": 1000, "min_lag_ms": 0} | options))
        return [segment.base_offset for segment in found]

    assert bases() == [0, 1, 2, 3]
    assert bases(upper=3) == [0, 1, 2]
    assert bases(upper=0) == []
    assert bases(min_lag_ms=800) == [0, 1, 2]
    assert bases(min_lag_ms=801) == [0, 1]


def test_damage_in_what_is_new_stops_the_pass_before_it_and_is_reported_l08():
    bench = Bench()
    bench.write(new("a", "1"), new("a", "2"))
    bench.roll()
    bench.write(new("a", "3"))
    bench.roll()
    bench.files.flip_bit(f"{HERE}/{2:020d}.log", 50)
    report = bench.compact()
    assert report.damage is not None
    assert not report.is_complete
    bench.files.flip_bit(f"{HERE}/{2:020d}.log", 50)
    assert bench.records() == [(1, "a", "2"), (2, "a", "3")]


def test_damage_in_what_was_compacted_before_refuses_the_pass_and_leaves_the_log():
    bench = Bench()
    bench.write(new("a", "1"), new("a", "2"))
    bench.compact()
    bench.write(new("a", "3"))
    bench.roll()
    bench.files.flip_bit(f"{HERE}/{0:020d}.log", 50)
    names = bench.files.list(HERE)
    with pytest.raises(CorruptFrame):
        bench.compact()
    assert bench.files.list(HERE) == names


def test_a_full_disk_refuses_the_pass_and_leaves_the_log():
    bench = Bench()
    bench.write(new("a", "1"), new("a", "2"))
    bench.roll()
    before = bench.files.tree()
    bench.files.faults.fail("append", "*cleaned*", code=errno.ENOSPC)
    with pytest.raises(OSError, match="space"):
        bench.compact()
    assert bench.files.tree() == before
    assert bench.compact().records_dropped == 1


def test_an_abandoned_pass_leaves_nothing_behind():
    bench = Bench()
    bench.write(new("a", "1"), new("a", "2"))
    bench.roll()
    before = bench.files.tree()
    pass_ = bench.compaction()
    pass_.run()
    pass_.abandon()
    pass_.swap(bench.replace)
    assert bench.files.tree() == before


def test_readers_of_the_old_segments_go_on_undisturbed_while_they_are_replaced():
    bench = Bench()
    for i in range(20):
        bench.write(new("same", f"{i}" * 100))
    bench.roll()
    (old,) = bench.segments
    reading = old.frames()
    seen = [next(reading)[1].offset]
    bench.compact()
    seen += [header.offset for _, header, _ in reading]
    assert seen == list(range(20))
    assert bench.records() == [(19, "same", "19" * 100)]


def keyed_log():
    """Three segments in which every feature meets: values, deletions, transactions, lanes."""
    bench = Bench()
    bench.write(new("a", "1"), new("b", "1"), new(None, "n"), producer=1)
    bench.write(new("t", "aborted"), producer=2, transactional=True)
    bench.mark(2, commit=False)
    bench.roll()
    bench.write(new("a", "2"), new("d", None), new("c", "1", b"low"), flags=Flags.MIXED_LANES)
    bench.roll()
    bench.write(new("b", "2"), new("t", "real"), producer=2, transactional=True)
    bench.mark(2, commit=True)
    bench.roll()
    return bench


def every_crash(build, act):
    """Run `act` on a fresh log and cut the power at each of its steps in turn, in three ways."""
    for survival in Survival:
        step = 0
        while True:
            step += 1
            bench = build()
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
def test_a_crash_at_any_step_leaves_the_old_log_or_the_new_one_never_a_mixture(segment_bytes):
    done = keyed_log()
    done.compact(segment_bytes=segment_bytes)
    after = done.records()
    outcomes = set()
    for step, before, bench, files in every_crash(keyed_log, lambda b: b.compact(segment_bytes=segment_bytes)):
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


def test_a_crash_while_recovery_finishes_the_swap_does_no_harm():
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


def test_a_finished_log_has_nothing_to_finish():
    bench = keyed_log()
    bench.compact()
    assert not finish_interrupted(bench.files, HERE)
    assert not finish_interrupted(bench.files, "no/such/log")


def test_a_damaged_word_about_a_swap_under_way_is_reported_not_guessed():
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


def test_a_damaged_state_without_a_swap_only_means_that_all_is_mapped_again():
    bench = keyed_log()
    bench.compact()
    bench.files.flip_bit(f"{HERE}/compaction.state", 12)
    assert not finish_interrupted(bench.files, HERE)
    assert load_state(bench.files, HERE).cleaned_to == 0
    before = bench.records()
    bench.compact()
    assert bench.records() == before


KEYS = st.one_of(st.none(), st.sampled_from("abcd"))
VALUES = st.one_of(st.none(), st.sampled_from("xyz"))
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("write"), st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=4), st.sampled_from([-1, 1, 2])
        ),
        st.tuples(st.just("transaction"), st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=3), st.booleans()),
        st.tuples(st.just("roll")),
        st.tuples(st.just("compact"), st.integers(1, 6), st.sampled_from([200, 600, 10**6])),
        st.tuples(st.just("wait"), st.sampled_from([1, DAY_MS])),
    ),
    max_size=25,
)


@given(STEPS)
@hypothesis_settings(deadline=None)
def test_any_history_ends_as_a_naive_model_says(steps):
    """The model: a list of committed records. Whatever compaction removes must be superseded in it."""
    bench, written, transaction = Bench(), [], 100
    for step in steps:
        if step[0] == "write":
            records = [new(*pair) for pair in step[1]]
            written += [(bench.end + i, *pair) for i, pair in enumerate(step[1])]
            bench.write(*records, producer=step[2])
        elif step[0] == "transaction":
            transaction += 1
            if step[2]:
                written += [(bench.end + i, *pair) for i, pair in enumerate(step[1])]
            bench.write(*(new(*pair) for pair in step[1]), producer=transaction, transactional=True)
            bench.mark(transaction, commit=step[2])
        elif step[0] == "roll":
            bench.roll()
        elif step[0] == "compact":
            bench.compact(keys_max=step[1], segment_bytes=step[2])
        else:
            bench.now_ms += step[1]
    bench.compact_fully(keys_max=3)

    newest = {key: offset for offset, key, _ in written if key is not None}
    wanted = [r for r in written if r[1] is None or newest[r[1]] == r[0]]
    found = bench.records()
    assert [r for r in wanted if r not in found and not (r[1] and r[2] is None)] == []
    assert [r for r in found if r not in wanted] == []
    assert found == sorted(found, key=lambda record: record[0])
    assert bench.reopened(bench.files).records() == found
    # Sequences survive for every producer that the log would still know.
    state = ProducerState()
    for header, batch in bench.batches():
        commit = bool(header.flags & Flags.COMMIT) if header.flags & Flags.CONTROL else None
        state.apply(parse_batch_header(batch), header.offset, commit=commit, now_ms=0)
    assert state.first_open_offset() is None
    last = {info.producer_id: info.last_sequence for info in state.producers()}
    assert last == {info.producer_id: info.last_sequence for info in bench.producers.producers()}
