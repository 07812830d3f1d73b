"""The recorder: takes events from hooks and hands them on every 100 ms.

`note` is all that a producer or a consumer pays: one tuple in a list. The list is bounded. When what is to write it
cannot keep up, the oldest events are dropped, and the stories that they belong to say so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from uuid import UUID

from goqueue.clock import Clock, Timer
from goqueue.tracing.events import At, Attributes, Kind, Noted, Subject

FLUSH_MS = 100
_noted = tuple.__new__

# Takes what a flush brings; an exception keeps the events for the next one.
Sink = Callable[[list[Noted]], None]


class NotReady(Exception):
    """A sink cannot take events yet, and soon can."""


class RecorderStats:
    """Counters since the start."""

    __slots__ = ("dropped", "events", "failures")

    def __init__(self) -> None:
        self.events = 0
        self.dropped = 0
        self.failures = 0


class Recorder:
    """Events on their way to the store."""

    def __init__(self, clock: Clock, *, pending_max: int, is_on: bool = True) -> None:
        # Whether anything is recorded at all: hooks look here before they do any work.
        self.active = is_on
        self.stats = RecorderStats()
        self._clock = clock
        self._pending_max = pending_max
        self._pending: list[Noted] = []
        self._timer: Timer | None = None
        self._sinks: list[Sink] = []
        self._is_on = is_on
        # Topics that want it otherwise.
        self._otherwise: set[UUID] = set()

    def add_sink(self, sink: Sink) -> None:
        """Hand events to this one too, after those that were added before. Only the first may fail."""
        self._sinks.append(sink)

    def set_topic(self, topic_id: UUID, *, is_on: bool | None) -> None:
        """Record a topic's events or not; None: as the node does."""
        if is_on is None or is_on is self._is_on:
            self._otherwise.discard(topic_id)
        else:
            self._otherwise.add(topic_id)
        self.active = self._is_on or bool(self._otherwise)

    def records(self, topic_id: UUID) -> bool:
        """Whether events of a topic are recorded."""
        return (topic_id in self._otherwise) is not self._is_on

    def note(
        self,
        kind: Kind,
        topic_id: UUID,
        partition: int,
        first: int,
        last: int,
        at_ms: int,
        attributes: Attributes = (),
    ) -> None:
        """Something happened to these offsets."""
        if (topic_id in self._otherwise) is self._is_on:
            return
        pending = self._pending
        pending.append(_noted(Noted, (kind, topic_id, partition, first, last, at_ms, attributes)))
        if self._timer is None:
            self._timer = self._clock.call_later(FLUSH_MS, self.flush)
        elif len(pending) > self._pending_max:
            self._drop_oldest()

    def flush(self) -> None:
        """Hand on what there is."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._pending:
            return
        events, self._pending = self._pending, []
        try:
            for sink in self._sinks:
                sink(events)
        except NotReady:
            self._pending = events + self._pending
            self._timer = self._clock.call_later(FLUSH_MS, self.flush)
            return
        except Exception:  # noqa: BLE001 - whatever keeps events from being written must not reach who caused them
            self.stats.failures += 1
            self._pending = events + self._pending
            self._timer = self._clock.call_later(FLUSH_MS * 10, self.flush)
            return
        self.stats.events += len(events)

    def close(self) -> None:
        """Hand on the last ones."""
        self.flush()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def waiting(self) -> int:
        """Events that are not handed on yet."""
        return len(self._pending)

    def _drop_oldest(self) -> None:
        """Drop the older half, and note for each partition what is missing."""
        count = len(self._pending) // 2
        dropped, kept = self._pending[:count], self._pending[count:]
        lost: dict[Subject, list[int]] = {}
        for _, topic_id, partition, first, last, at_ms, attributes in dropped:
            subject = Subject(topic_id, partition)
            number, from_ms, until_ms = _counted(attributes, at_ms)
            found = lost.get(subject)
            if found is None:
                lost[subject] = [first, last, from_ms, until_ms, number]
            else:
                found[:] = (
                    min(found[0], first),
                    max(found[1], last),
                    min(found[2], from_ms),
                    max(found[3], until_ms),
                    found[4] + number,
                )
            self.stats.dropped += number if At.UNTIL_MS not in attributes[::2] else 0
        notes = [
            Noted(
                Kind.NOT_KEPT,
                *subject,
                first,
                last,
                from_ms,
                (At.FROM_MS, from_ms, At.UNTIL_MS, until_ms, At.COUNT, number),
            )
            for subject, (first, last, from_ms, until_ms, number) in lost.items()
        ]
        self._pending = notes + kept


def _counted(attributes: Attributes, at_ms: int) -> tuple[int, int, int]:
    """How many events a dropped one stands for, and from when to when: it may say itself that some were dropped."""
    if len(attributes) == 6 and attributes[0] == At.FROM_MS:
        return int(attributes[5]), int(attributes[1]), int(attributes[3])
    return 1, at_ms, at_ms


class Ring:
    """The events of the last moments, the oldest overwritten by the newest."""

    def __init__(self, capacity: int) -> None:
        self._events: deque[Noted] = deque(maxlen=capacity)

    @property
    def capacity(self) -> int:
        """How many it holds at most."""
        return self._events.maxlen or 0

    def push(self, events: list[Noted]) -> None:
        """Add events, newest last. One step of the interpreter, so that threads need no lock."""
        self._events.extend(events)

    def count(self) -> int:
        """How many there are."""
        return len(self._events)

    def recent(self, limit: int) -> list[Noted]:
        """The newest first."""
        events = list(self._events)
        return events[: -limit - 1 : -1]

    def by_place(self, topic_id: UUID, partition: int, offset: int) -> list[Noted]:
        """What happened to one message, oldest first."""
        return [
            one
            for one in list(self._events)
            if one[1] == topic_id and one[2] == partition and one[3] <= offset <= one[4]
        ]

    def by_trace_id(self, trace_id: str, place_of: Callable[[str], tuple[UUID, int, int] | None]) -> list[Noted]:
        """The events of one trace, oldest first: of a place that the id follows from, or of records that brought it."""
        place = place_of(trace_id)
        if place is not None:
            return self.by_place(*place)
        brought = next((one for one in list(self._events) if trace_id in one[6]), None)
        return [] if brought is None else self.by_place(brought[1], brought[2], brought[3])

    def by_time(self, start_ms: int, end_ms: int) -> list[Noted]:
        """From the first time to before the second, oldest first."""
        return [one for one in list(self._events) if start_ms <= one[5] < end_ms]
