"""The recorder: what hooks tell is handed on in time, within a bound, and nothing is lost without a word."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from goqueue.testing.clock import ManualClock
from goqueue.tracing.events import At, Kind, Noted
from goqueue.tracing.recorder import FLUSH_MS, NotReady, Recorder, Ring

TOPIC = UUID(int=7)
OTHER = UUID(int=8)


class Timers(ManualClock):
    """A clock whose timers are called by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.set: list[tuple[int, Callable[[], None]]] = []

    def call_later(self, wait_ms: int, call: Callable[[], None]) -> Timers:  # type: ignore[override]
        self.set.append((wait_ms, call))
        return self

    def cancel(self) -> None:
        self.set.clear()


def note(recorder: Recorder, offset: int, topic: UUID = TOPIC, at_ms: int = 0) -> None:
    recorder.note(Kind.CONSUME_ACKED, topic, 0, offset, offset, at_ms or 1000 + offset)


def made(**settings: int) -> tuple[Recorder, list[list[Noted]], Timers]:
    clock = Timers()
    recorder = Recorder(clock, pending_max=settings.get("pending_max", 100))
    flushed: list[list[Noted]] = []
    recorder.add_sink(flushed.append)
    return recorder, flushed, clock


def test_events_are_handed_on_together_after_100_ms() -> None:
    recorder, flushed, clock = made()
    note(recorder, 1)
    note(recorder, 2)
    [(wait_ms, call)] = clock.set
    assert (wait_ms, flushed) == (FLUSH_MS, [])
    call()
    assert [one.first for one in flushed[0]] == [1, 2]
    assert recorder.waiting == 0
    note(recorder, 3)
    assert len(clock.set) == 1, "the next event sets the next timer"


def test_what_cannot_be_written_waits_and_is_written_later() -> None:
    recorder, flushed, _ = made()
    problems: list[Exception] = [OSError("disk full"), NotReady()]

    def failing(_: list[Noted]) -> None:
        if problems:
            raise problems.pop()

    recorder._sinks.insert(0, failing)
    note(recorder, 1)
    recorder.flush()
    note(recorder, 2)
    recorder.flush()
    assert flushed == []
    assert recorder.stats.failures == 1, "a store that is not open yet is no failure"
    recorder.flush()
    assert [one.first for one in flushed[0]] == [1, 2]


def test_above_the_bound_the_oldest_go_and_their_partition_says_so() -> None:
    recorder, flushed, _ = made(pending_max=10)
    for offset in range(11):
        note(recorder, offset)
    recorder.flush()
    [gap, *kept] = flushed[0]
    assert [one.first for one in kept] == [5, 6, 7, 8, 9, 10]
    assert (gap.kind, gap.first, gap.last) == (Kind.NOT_KEPT, 0, 4)
    assert gap.attributes == (At.FROM_MS, 1000, At.UNTIL_MS, 1004, At.COUNT, 5)
    assert recorder.stats.dropped == 5


def test_gaps_add_up_when_more_is_dropped() -> None:
    recorder, flushed, _ = made(pending_max=10)
    for offset in range(40):
        note(recorder, offset)
    recorder.flush()
    gap = flushed[0][0]
    kept = [one.first for one in flushed[0][1:]]
    assert gap.kind is Kind.NOT_KEPT
    assert (gap.first, gap.last) == (0, kept[0] - 1)
    assert gap.attributes[-1] == kept[0] == recorder.stats.dropped


def test_each_topic_may_be_switched_off_or_on() -> None:
    recorder, _, _ = made()
    recorder.set_topic(OTHER, is_on=False)
    note(recorder, 1, OTHER)
    assert recorder.waiting == 0
    assert recorder.records(TOPIC)
    assert not recorder.records(OTHER)
    recorder.set_topic(OTHER, is_on=None)
    note(recorder, 1, OTHER)
    assert recorder.waiting == 1


def test_a_node_that_records_nothing_records_the_topics_that_want_it() -> None:
    recorder = Recorder(Timers(), pending_max=10, is_on=False)
    assert not recorder.active
    recorder.set_topic(OTHER, is_on=True)
    assert recorder.active
    note(recorder, 1)
    note(recorder, 2, OTHER)
    assert recorder.waiting == 1


def events(*offsets: int) -> list[Noted]:
    return [Noted(Kind.CONSUME_ACKED, TOPIC, 0, at, at, 1000 + at) for at in offsets]


def test_the_ring_keeps_the_newest() -> None:
    ring = Ring(3)
    ring.push(events(1, 2))
    assert ring.count() == 2
    ring.push(events(3, 4))
    assert (ring.count(), ring.capacity) == (3, 3)
    assert [one.first for one in ring.recent(2)] == [4, 3]
    assert [one.first for one in ring.recent(10)] == [4, 3, 2]


def test_the_ring_is_searched_by_place_by_trace_id_and_by_time() -> None:
    ring = Ring(10)
    own = Noted(Kind.PUBLISH_RECEIVED, TOPIC, 0, 9, 9, 2000, (At.TRACE, "ab" * 16, At.PARENT, "cd" * 8))
    ring.push([*events(1, 2, 3), own])
    assert [one.first for one in ring.by_place(TOPIC, 0, 2)] == [2]
    assert ring.by_trace_id("ab" * 16, lambda _: None) == [own]
    assert [one.first for one in ring.by_trace_id("ff" * 16, lambda _: (TOPIC, 0, 3))] == [3]
    assert ring.by_trace_id("ee" * 16, lambda _: None) == []
    assert [one.first for one in ring.by_time(1002, 1004)] == [2, 3]
