"""Any sequence of operations on a partition log, with crashes anywhere, against a model.

After every crash the log must be a moment of its own history since the last sync: every
acknowledged-and-synced frame readable with the right bytes, nothing invented, no holes that
nobody asked for, and producers remembered as the surviving frames say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from uuid import UUID

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from goqueue.codec.batch import encode_prefix, parse_batch_header
from goqueue.codec.batch_decode import decode_records
from goqueue.codec.batch_encode import encode_batch
from goqueue.codec.frame import HEADER_BYTES, parse_frame_header
from goqueue.codec.frame_walk import check_frame
from goqueue.codec.markers import encode_marker
from goqueue.errors import (
    DiskFull,
    DuplicateSequence,
    LogPoisoned,
    OffsetOutOfRange,
    OutOfOrderSequence,
    ProducerFenced,
)
from goqueue.log.compaction.compaction_pass import Compaction
from goqueue.log.partition_log import PartitionLog
from goqueue.log.settings import LogSettings
from goqueue.records import Appended, NewRecord
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import Survival
from goqueue.testing.faults import Crash
from goqueue.testing.log_model import LogModel, ModelFrame, ModelProducer, objection
from goqueue.testing.memory_files import MemoryFiles

DIRECTORY = "logs/t/0"
TOPIC_ID = UUID(int=42)
DAY_MS = 24 * 3600 * 1000
PRODUCERS = (7, 8)
SETTINGS = LogSettings(
    segment_bytes=700,
    index_interval_bytes=100,
    retention_ms=3 * DAY_MS,
    cleanup_compact=True,
    compaction_dirty_ratio=0.0,
    producer_expiry_ms=3650 * DAY_MS,
)

KEYS = st.sampled_from([b"a", b"b", b"c", None])
VALUES = st.sampled_from([b"", b"x", b"y" * 40, b"z" * 300, None])
RECORDS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=4)
FRACTION = st.floats(0, 1)


@dataclass
class Moment:
    """What the log was at some time, and the least that a crash had to leave of it."""

    model: LogModel
    synced_end: int


class LogMachine(RuleBasedStateMachine):
    """The real log on a disk in memory beside its model."""

    @initialize(seed=st.integers(0, 2**32), deletes=st.booleans())
    def start(self, seed: int, deletes: bool) -> None:
        self.clock = ManualClock()
        self.files = MemoryFiles(seed=seed)
        self.settings = replace(SETTINGS, cleanup_delete=deletes)
        self.leader_epoch = 0
        self.model = LogModel()
        # Every moment that the disk may still show after a crash, oldest first.
        self.moments: list[Moment] = []
        self.deleted_before = 0
        self.compacted_at_ms: int | None = None
        # Compaction has acted upon everything below, markers included.
        self.settled_to = 0
        self.round: tuple[object, int] | None = None
        self.compaction: Compaction | None = None
        self.log = self.open()
        self.note()

    def open(self) -> PartitionLog:
        return PartitionLog.open(
            self.files, DIRECTORY, settings=self.settings, topic_id=TOPIC_ID, now_ms=self.clock.now_ms()
        )

    def note(self) -> None:
        """The log has changed: remember this moment."""
        self.log.high_watermark = self.log.end_offset
        self.moments.append(Moment(self.model, self.log.synced_end))

    # --- appending --------------------------------------------------------------------------

    @rule(records=RECORDS)
    def append(self, records: list[tuple[bytes | None, bytes | None]]) -> None:
        self.append_batch(self.batch(records))

    @rule(producer=st.sampled_from(PRODUCERS), records=RECORDS, transactional=st.booleans())
    def append_in_sequence(
        self, producer: int, records: list[tuple[bytes | None, bytes | None]], transactional: bool
    ) -> None:
        known = self.known(producer)
        self.append_batch(
            self.batch(
                records,
                producer_id=producer,
                producer_epoch=known.epoch,
                base_sequence=known.last_sequence + 1,
                transactional=transactional or known.open_first_offset >= 0,
            )
        )

    @rule(producer=st.sampled_from(PRODUCERS), commit=st.booleans(), bump=st.booleans())
    def end_transaction(self, producer: int, commit: bool, bump: bool) -> None:
        known = self.model.producers().get(producer)
        if known is None or known.open_first_offset < 0:
            return
        marker = encode_marker(
            commit,
            producer_id=producer,
            producer_epoch=known.epoch + bump,
            coordinator_epoch=0,
            now_ms=self.clock.now_ms(),
        )
        self.append_batch(marker, marker=True)

    @rule(producer=st.sampled_from(PRODUCERS), records=RECORDS, back=st.integers(0, 6))
    def send_again(self, producer: int, records: list[tuple[bytes | None, bytes | None]], back: int) -> None:
        """A retry is never stored twice; the last batch is answered with its first offsets."""
        known = self.model.producers().get(producer)
        if known is None or back >= len(known.frames) or not self.remembers(producer):
            return
        frame = known.frames[-1 - back]
        try:
            appended = self.log.append_batch(frame.batch, now_ms=self.clock.now_ms(), leader_epoch=self.leader_epoch)
        except (DuplicateSequence, OutOfOrderSequence):
            # What was removed or thinned since may be forgotten; the last batch never is.
            assert back > 0
            return
        assert appended.duplicate
        assert (appended.base_offset, appended.last_offset) == (frame.base_offset, frame.last_offset)

    @rule(producer=st.sampled_from(PRODUCERS), gap=st.integers(1, 100))
    def skip_a_sequence(self, producer: int, gap: int) -> None:
        known = self.model.producers().get(producer)
        if known is None or known.last_sequence < 0 or not self.remembers(producer):
            return
        batch = self.batch(
            [(b"a", b"")],
            producer_id=producer,
            producer_epoch=known.epoch,
            base_sequence=known.last_sequence + 1 + gap,
            transactional=known.open_first_offset >= 0,
        )
        with pytest.raises(OutOfOrderSequence):
            self.log.append_batch(batch, now_ms=self.clock.now_ms(), leader_epoch=self.leader_epoch)

    @rule(producer=st.sampled_from(PRODUCERS))
    def write_as_a_zombie(self, producer: int) -> None:
        known = self.model.producers().get(producer)
        if known is None or known.epoch == 0 or not self.remembers(producer):
            return
        batch = self.batch([(b"a", b"")], producer_id=producer, producer_epoch=known.epoch - 1, base_sequence=0)
        with pytest.raises(ProducerFenced):
            self.log.append_batch(batch, now_ms=self.clock.now_ms(), leader_epoch=self.leader_epoch)

    @rule(records=RECORDS, room=st.integers(0, 600))
    def append_to_a_disk_almost_full(self, records: list[tuple[bytes | None, bytes | None]], room: int) -> None:
        self.files.faults.capacity_bytes = sum(map(len, self.files.tree().values())) + room
        try:
            self.append_batch(self.batch(records))
        except DiskFull:
            self.note()
        finally:
            self.files.faults.capacity_bytes = None

    # --- everything else that changes a log -------------------------------------------------

    @rule()
    def sync(self) -> None:
        if self.round is None:
            self.begin_sync()
        if self.round is not None:
            self.end_sync()

    @precondition(lambda self: self.round is None)
    @rule()
    def begin_sync(self) -> None:
        begun = self.log.begin_sync()
        if begun is not None:
            self.round = (begun, len(self.moments) - 1)

    @precondition(lambda self: self.round is not None)
    @rule()
    def end_sync(self) -> None:
        """Other operations may have come between the beginning and the end."""
        (begun, moment), self.round = self.round, None
        before = self.log.synced_end
        begun.run()
        self.log.end_sync(begun, None)
        if self.log.synced_end > before:
            self.moments = self.moments[moment:]
            for one in self.moments:
                one.synced_end = max(one.synced_end, min(self.log.synced_end, one.model.end_offset))

    @rule()
    def roll(self) -> None:
        self.log.roll()
        self.note()

    @rule()
    def checkpoint(self) -> None:
        self.log.checkpoint()
        self.note()

    @rule(hours=st.integers(1, 60))
    def wait(self, hours: int) -> None:
        self.clock.advance(seconds=hours * 3600)

    @rule()
    def lead_anew(self) -> None:
        self.leader_epoch += 1

    @rule()
    def retain(self) -> None:
        self.log.apply_retention(self.clock.now_ms())
        self.model = replace(self.model, start_offset=self.log.start_offset)
        self.note()

    @rule(at=FRACTION)
    def delete_before(self, at: float) -> None:
        offset = self.offset_at(at)
        assert self.log.delete_before(offset) == max(offset, self.model.start_offset)
        self.model = replace(self.model, start_offset=self.log.start_offset)
        self.deleted_before = self.log.start_offset
        self.note()

    @rule(at=FRACTION)
    def truncate(self, at: float) -> None:
        offset = self.offset_at(at)
        # A batch is never split, so one that the offset lies inside goes whole.
        gone = [frame.base_offset for frame in self.model.frames if frame.last_offset >= offset]
        if offset < self.settled_to or (gone and gone[0] < self.log.start_offset):
            return  # below the high watermark, or before the start: no leader's history asks for that
        self.model = self.model.cut(offset)
        assert self.log.truncate_to(offset) == min(gone, default=self.log.end_offset)
        self.model = replace(self.model, start_offset=self.log.start_offset)
        self.note()

    @rule()
    def compact(self) -> None:
        self.allow_compaction()
        report = self.log.compact(self.clock.now_ms())
        self.model = replace(self.model, compacted_to=max(report.cleaned_to, self.moments[-2].model.compacted_to))
        self.note()

    @rule()
    def seal_and_compact(self) -> None:
        self.roll()
        self.sync()
        self.compact()

    @precondition(lambda self: self.compaction is None)
    @rule()
    def begin_compaction(self) -> None:
        self.allow_compaction()
        self.compaction = self.log.begin_compaction(self.clock.now_ms())
        self.compaction.run()

    @precondition(lambda self: self.compaction is not None)
    @rule()
    def end_compaction(self) -> None:
        """The log may have changed since the pass began."""
        compaction, self.compaction = self.compaction, None
        self.log.end_compaction(compaction)
        self.note()

    @rule(max_bytes=st.integers(1, 1500))
    def replicate(self, max_bytes: int) -> None:
        """A follower that copies the frames knows everything that the leader does."""
        files = MemoryFiles()
        follower = PartitionLog.open(
            files, DIRECTORY, settings=self.settings, topic_id=TOPIC_ID, now_ms=self.clock.now_ms()
        )
        offset, end = self.log.start_offset, self.log.end_offset
        continues = offset
        while offset < end:
            read = self.log.read_frames(offset, max_bytes=max_bytes, upper=end)
            if not read.batches:
                break
            if not follower.has_segments:
                # The leader's log may start inside its first batch, or before it where that was compacted away.
                continues = parse_frame_header(read.batches[0]).offset
                follower.start_at(continues)
            assert follower.append_frames(b"".join(read.batches), continues=continues) == read.next_offset
            continues = offset = read.next_offset
        follower.high_watermark = follower.end_offset
        leader, self.log = self.log, follower
        try:
            copied = self.read_all()
        finally:
            self.log = leader
        assert copied == self.read_all()
        known = {one.producer_id: one for one in leader.producers.all()}
        for one in follower.producers.all():
            if self.remembers(one.producer_id):
                assert (one.epoch, one.last_sequence) == (
                    known[one.producer_id].epoch,
                    known[one.producer_id].last_sequence,
                )

    # --- the end, and the beginning again ---------------------------------------------------

    @rule()
    def close_and_open(self) -> None:
        self.round = None
        self.log.close()
        self.reopen(exact=True)
        assert self.log.synced_end == self.log.end_offset or self.log.start_offset == self.log.end_offset

    @rule()
    def kill_and_open(self) -> None:
        self.round = None
        self.files = self.files.kill()
        self.reopen(exact=True)

    @rule(survival=st.sampled_from(Survival))
    def crash_and_open(self, survival: Survival) -> None:
        self.round = None
        self.files = self.files.crash(survival)
        self.reopen()

    @rule(
        survival=st.sampled_from(Survival),
        step=st.integers(1, 25),
        name=st.sampled_from(
            ["append", "sync", "roll", "checkpoint", "retain", "delete_before", "truncate", "compact", "close"]
        ),
        records=RECORDS,
        at=FRACTION,
    )
    def crash_within(
        self, survival: Survival, step: int, name: str, records: list[tuple[bytes | None, bytes | None]], at: float
    ) -> None:
        """The power goes at some step of an operation, which then happened in part, or not, or whole."""
        operations: dict[str, Callable[[], object]] = {
            "append": lambda: self.append(records),
            "sync": self.sync,
            "roll": self.roll,
            "checkpoint": self.checkpoint,
            "retain": self.retain,
            "delete_before": lambda: self.delete_before(at),
            "truncate": lambda: self.truncate(at),
            "compact": self.compact,
            "close": self.close_and_open,
        }
        self.allow_half(name, records, at)
        self.files.faults.crash_at_step = self.files.faults.steps + step
        try:
            operations[name]()
        except Crash:
            self.round = None
            self.files = self.files.crash(survival)
            self.reopen()
        else:
            self.files.faults.crash_at_step = None

    @rule()
    def fail_a_sync(self) -> None:
        """A sync that failed proves that nothing can be proved: the log takes no more writes."""
        self.round = None
        begun = self.log.begin_sync()
        if begun is None:
            return
        self.files.faults.fail("sync", times=1)
        try:
            begun.run()
        except OSError as error:
            synced = self.log.synced_end
            self.log.end_sync(begun, error)
            assert self.log.synced_end == synced
            with pytest.raises(LogPoisoned):
                self.log.append_batch(self.batch([(b"a", b"")]), now_ms=self.clock.now_ms(), leader_epoch=0)
            self.files = self.files.crash()
            self.reopen()
        else:
            self.log.end_sync(begun, None)
            self.files.faults.clear()
            self.crash_and_open(Survival.SOME)

    # --- looking ----------------------------------------------------------------------------

    @invariant()
    def bounds_are_right(self) -> None:
        assert self.log.start_offset == self.model.start_offset
        assert self.log.end_offset == max(self.model.end_offset, self.model.start_offset)
        assert self.log.synced_end <= self.log.end_offset
        assert self.log.poisoned is None or not self.log.poisoned
        assert self.log.damage == ()

    @rule()
    def look(self) -> None:
        problem = objection(self.model, self.read_all(), self.log.start_offset, self.log.end_offset)
        assert problem is None, problem
        self.check_producers()
        self.check_epochs()
        self.check_aborted()

    @rule(at=FRACTION, max_bytes=st.integers(1, 2000))
    def read_from_anywhere(self, at: float, max_bytes: int) -> None:
        offset = max(self.offset_at(at), self.log.start_offset)
        end = self.log.end_offset
        read = self.log.read_batches(offset, max_bytes=max_bytes, upper=end)
        frames = self.log.read_frames(offset, max_bytes=max_bytes, upper=end)
        batches = [bytes(batch) for batch in read.batches]
        following = [batch for batch in self.read_all() if parse_batch_header(batch).last_offset >= offset]
        assert batches == following[: len(batches)]
        assert bool(batches) == bool(following)
        assert len(batches) == 1 or sum(map(len, batches)) <= max_bytes
        if batches:
            assert read.next_offset == parse_batch_header(batches[-1]).last_offset + 1
        for frame, batch in zip(frames.batches, following, strict=False):
            header = check_frame(frame)
            assert bytes(frame[HEADER_BYTES : HEADER_BYTES + header.value_bytes]) == batch

    @rule()
    def find_the_newest(self) -> None:
        found = self.log.offset_of_max_timestamp(self.log.end_offset)
        records = [
            (-record.timestamp_ms, record.offset)
            for batch in self.read_all()
            for record in decode_records(batch)
            if record.offset >= self.log.start_offset
        ]
        assert (None if found is None else (-found.timestamp_ms, found.offset)) == min(records, default=None)

    @rule(ago_ms=st.integers(-1000, 5 * DAY_MS))
    def find_a_timestamp(self, ago_ms: int) -> None:
        wanted = self.clock.now_ms() - ago_ms
        found = self.log.offset_for_timestamp(wanted, upper=self.log.end_offset)
        later = [
            record.offset
            for batch in self.read_all()
            for record in decode_records(batch)
            if record.timestamp_ms >= wanted and record.offset >= self.log.start_offset
        ]
        assert (found.offset if found is not None else None) == min(later, default=None)

    @rule()
    def read_outside(self) -> None:
        for offset in (self.log.start_offset - 1, self.log.end_offset + 1):
            with pytest.raises(OffsetOutOfRange):
                self.log.read_batches(offset, max_bytes=100, upper=self.log.end_offset)

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.look()

    # --- below ------------------------------------------------------------------------------

    def batch(self, records: list[tuple[bytes | None, bytes | None]], **producer: int | bool) -> bytes:
        new = [NewRecord(key, value) for key, value in records]
        return encode_batch(new, now_ms=self.clock.now_ms(), **producer)

    def append_batch(self, batch: bytes, *, marker: bool = False) -> Appended:
        end = self.log.end_offset
        appended = self.log.append_batch(
            batch, now_ms=self.clock.now_ms(), leader_epoch=self.leader_epoch, marker=marker
        )
        assert not appended.duplicate
        assert appended.base_offset == end
        self.model = self.model.appended(self.frame(batch, end))
        assert appended.last_offset == self.model.frames[-1].last_offset
        self.note()
        return appended

    def frame(self, batch: bytes, offset: int) -> ModelFrame:
        return ModelFrame.of(encode_prefix(offset, parse_batch_header(batch).length, self.leader_epoch) + batch[16:])

    def offset_at(self, fraction: float) -> int:
        return round(self.log.start_offset + fraction * (self.log.end_offset - self.log.start_offset))

    def allow_compaction(self) -> None:
        """From now on records below the synced end may be missing, if something newer took their place."""
        self.settled_to = max(self.settled_to, self.log.synced_end)
        now_ms = self.clock.now_ms()
        if self.compacted_at_ms is None:
            self.compacted_at_ms = now_ms
        may_go = now_ms - self.compacted_at_ms >= self.settings.tombstone_retention_ms
        self.model = replace(
            self.model,
            compacted_to=max(self.model.compacted_to, self.log.synced_end),
            tombstones_may_go=self.model.tombstones_may_go or may_go,
        )
        self.note()

    def allow_half(self, name: str, records: list[tuple[bytes | None, bytes | None]], at: float) -> None:
        """Moments that an operation may leave if it is cut short, though it never returned."""
        if name == "append":
            frame = self.frame(self.batch(records), self.log.end_offset)
            self.moments.append(Moment(self.model.appended(frame), self.log.synced_end))
        elif name == "truncate":
            shorter = self.model.cut(self.offset_at(at))
            self.moments.append(Moment(shorter, min(self.log.synced_end, shorter.end_offset)))
        elif name == "delete_before":
            self.moments.append(Moment(replace(self.model, start_offset=self.offset_at(at)), self.log.synced_end))
        elif name == "retain":
            self.moments.append(Moment(replace(self.model, start_offset=self.log.end_offset), self.log.synced_end))

    def reopen(self, *, exact: bool = False) -> None:
        """Open again and find the moment of the past that the log has gone back to."""
        self.compaction = None
        self.log = self.open()
        start, end = self.log.start_offset, self.log.end_offset
        assert self.log.damage == ()
        # What was deleted before it was ever synced may be lost as well: then the start is the end.
        self.deleted_before = min(self.deleted_before, end)
        assert start >= self.deleted_before
        read = self.read_all()
        candidates = [Moment(self.model, self.model.end_offset)] if exact else list(reversed(self.moments))
        reasons = []
        for moment in candidates:
            problem = objection(moment.model, read, start, end)
            if problem is None and end < min(moment.synced_end, moment.model.end_offset):
                problem = f"the log ends at {end}, but was synced to {moment.synced_end}"
            if problem is None and start > max(one.model.start_offset for one in candidates):
                problem = f"the log starts at {start}, where nobody asked it to"
            if problem is None:
                self.model = replace(moment.model.cut(end) if end < moment.model.end_offset else moment.model)
                self.model = replace(self.model, start_offset=start)
                break
            reasons.append(problem)
        else:
            raise AssertionError(f"nothing in the log's history explains it: {reasons}")
        self.log.high_watermark = end
        if not exact:
            self.moments = []
        self.note()
        self.check_producers()
        self.check_epochs()
        self.check_aborted()

    def read_all(self) -> list[bytes]:
        offset, end = self.log.start_offset, self.log.end_offset
        batches: list[bytes] = []
        while offset < end:
            read = self.log.read_batches(offset, max_bytes=1000, upper=end)
            if not read.batches:
                break
            batches += map(bytes, read.batches)
            offset = read.next_offset
        return batches

    def remembers(self, producer: int) -> bool:
        """Whether the producer's last batch is still in the log: what is deleted may be forgotten."""
        return self.model.producers()[producer].last_offset >= self.log.start_offset

    def known(self, producer: int) -> ModelProducer:
        """What the producer goes on from: what it wrote, or what the log still knows of what was deleted."""
        known = self.model.producers().get(producer, ModelProducer(epoch=0))
        if known.last_offset >= self.log.start_offset:
            return known
        real = [one for one in self.log.producers.all() if one.producer_id == producer]
        if not real:
            return known
        return ModelProducer(real[0].epoch, real[0].last_sequence, -1, real[0].open_first_offset)

    def check_producers(self) -> None:
        first = min((frame.base_offset for frame in self.model.stored()), default=self.log.start_offset)
        real = {one.producer_id: one for one in self.log.producers.all()}
        wanted = self.model.producers()
        assert real.keys() <= wanted.keys()
        for producer_id, producer in wanted.items():
            if not self.remembers(producer_id):
                continue
            one = real[producer_id]
            assert (one.epoch, one.last_sequence) == (producer.epoch, producer.last_sequence)
            # A transaction whose first batch was deleted may be taken to begin with the next one.
            assert one.open_first_offset == producer.open_first_offset or (
                0 <= producer.open_first_offset < min(first, one.open_first_offset)
            )
        if all(self.remembers(producer_id) for producer_id in wanted):
            stable, real_stable = self.model.last_stable_offset(), self.log.last_stable_offset
            assert real_stable == stable or stable < min(real_stable, self.log.start_offset)

    def check_epochs(self) -> None:
        epochs = [(epoch, start) for epoch, start in self.model.epochs() if start >= self.log.start_offset]
        ends = [start for _, start in epochs[1:]] + [self.log.end_offset]
        for (epoch, _), end in zip(epochs, ends, strict=False):
            assert self.log.end_offset_for_epoch(epoch) == (epoch, end)

    def check_aborted(self) -> None:
        """Every aborted transaction with a batch in the log is known; where it began may be forgotten."""
        if self.model.compacted_to:
            return
        start, end = self.log.start_offset, self.log.end_offset
        real = {(one.producer_id, one.last_offset) for one in self.log.aborted_between(start, end)}
        possible = {(one.producer_id, one.last_offset): one.first_offset for one in self.model.aborted()}
        needed = {
            (producer_id, last)
            for (producer_id, last), first in possible.items()
            if any(
                frame.producer_id == producer_id and frame.is_transactional and first <= frame.base_offset < last
                for frame in self.model.stored()
            )
        }
        assert needed <= real <= possible.keys()


def run(*, examples: int, steps: int, is_repeatable: bool) -> None:
    run_state_machine_as_test(
        LogMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            derandomize=is_repeatable,
            deadline=None,
            # Not `explain`: it traces every line, which takes longer than all the rest.
            phases=(Phase.reuse, Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_no_sequence_of_operations_and_crashes_loses_or_invents_anything() -> None:
    run(examples=150, steps=40, is_repeatable=True)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_no_long_sequence_does_either() -> None:
    run(examples=5000, steps=60, is_repeatable=False)
