"""Stories as values: what happened to one message, in order, and what it adds up to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import structs

from goqueue.tracing.events import ATTRIBUTE_NAMES, At, Happened, Kind


class Status(StrEnum):
    """What a story adds up to."""

    COMPLETED = "completed"
    PENDING = "pending"
    ERROR = "error"


class Line(msgspec.Struct, frozen=True):
    """One event of a message, at the place where the message lay then."""

    at_ms: int
    kind: Kind
    topic: str
    partition: int
    offset: int
    # Without those that name other places: these are in `source` and `target`.
    attributes: dict[str, int | str]
    source: str | None = None
    target: str | None = None


class Story(msgspec.Struct, frozen=True):
    """All that is known of one message. The place is the one that was asked for."""

    trace_id: str
    topic: str
    partition: int
    offset: int
    status: Status
    start_ms: int
    end_ms: int
    lines: tuple[Line, ...]
    # Every place where the message lay, in the order in which it got there.
    places: tuple[str, ...]
    # The span in the record's own traceparent.
    parent_span_id: str | None = None
    # Whether the record is still in its log.
    stored: bool = True

    @property
    def duration_ms(self) -> int:
        """From the first event to the last."""
        return self.end_ms - self.start_ms


def place_text(topic: str, partition: int, offset: int) -> str:
    """A place as users write it."""
    return f"{topic}/{partition}@{offset}"


_PLACES = frozenset(
    {At.TO_TOPIC, At.TO_PARTITION, At.TO_OFFSET, At.FROM_TOPIC, At.FROM_PARTITION, At.FROM_OFFSET, At.TRACE, At.PARENT}
)


def line_of(event: Happened, topic: str, partition: int, offset: int) -> Line:
    """An event as a line of one message's story."""
    attributes = event.attributes
    shown: dict[str, Any] = {
        ATTRIBUTE_NAMES[int(attributes[at])]: attributes[at + 1]
        for at in range(0, len(attributes), 2)
        if attributes[at] not in _PLACES
    }
    further = offset - event.first
    return Line(
        event.at_ms,
        event.kind,
        topic,
        partition,
        offset,
        shown,
        source=_place(event, At.FROM_TOPIC, At.FROM_PARTITION, At.FROM_OFFSET, further),
        target=_place(event, At.TO_TOPIC, At.TO_PARTITION, At.TO_OFFSET, further),
    )


def _place(event: Happened, topic: int, partition: int, offset: int, further: int) -> str | None:
    name, number, first = event.get(topic), event.get(partition), event.get(offset)
    if name is None:
        return None
    if number is None or first is None:
        return str(name)
    return place_text(str(name), int(number), int(first) + further)


def in_order(lines: Iterable[tuple[int, Line]]) -> list[Line]:
    """By time, in the order of places and of life where the time is the same; what was recorded twice once.

    Each line comes with the number of its place among those of the message.
    """
    seen: set[tuple[Any, ...]] = set()
    found: list[Line] = []
    for _, line in sorted(lines, key=_moment):
        key = (line.at_ms, line.kind, line.topic, line.partition, line.offset, *sorted(line.attributes.items()))
        if key not in seen:
            seen.add(key)
            found.append(line)
    return found


def with_waits(lines: Sequence[Line]) -> list[Line]:
    """The lines, deliveries to groups with how long the message had been available to the group."""
    stored_ms: dict[tuple[str, int, int], int] = {}
    again_ms: dict[tuple[str, int, int, str], int] = {}
    told: list[Line] = []
    for line in lines:
        place = (line.topic, line.partition, line.offset)
        group = str(line.attributes.get("group", ""))
        if line.kind is Kind.PUBLISH_PERSISTED:
            stored_ms[place] = line.at_ms
        elif line.kind in _AVAILABLE_AGAIN and group:
            again_ms[*place, group] = line.at_ms + int(line.attributes.get("wait_ms", 0))
        elif line.kind is Kind.CONSUME_FETCHED and group:
            since_ms = again_ms.get((*place, group), stored_ms.get(place))
            if since_ms is not None:
                waited = {**line.attributes, "waited_ms": max(0, line.at_ms - since_ms)}
                line = structs.replace(line, attributes=waited)  # noqa: PLW2901 - the line as it is told
        told.append(line)
    return told


_AVAILABLE_AGAIN = frozenset({Kind.CONSUME_NACKED, Kind.CONSUME_RELEASED, Kind.VISIBILITY_TIMEOUT, Kind.REDRIVE_SENT})

# Of one millisecond: a message is received before it is persisted, and settled before it is moved.
_LIFE = (
    (Kind.DELAY_SCHEDULED,),
    (Kind.DELAY_RESCHEDULED,),
    (Kind.DELAY_READY,),
    (Kind.PUBLISH_RECEIVED,),
    (Kind.PUBLISH_PARTITIONED,),
    (Kind.PUBLISH_PERSISTED,),
    (Kind.PUBLISH_SYNCED,),
    (Kind.PUBLISH_REPLICATED,),
    (Kind.TRANSACTION_COMMITTED, Kind.TRANSACTION_ABORTED),
    (
        Kind.CONSUME_FETCHED,
        Kind.VISIBILITY_EXTENDED,
        Kind.VISIBILITY_TIMEOUT,
        Kind.CONSUME_NACKED,
        Kind.CONSUME_REJECTED,
        Kind.CONSUME_RELEASED,
        Kind.CONSUME_ACKED,
    ),
    (Kind.DLQ_ROUTED,),
    (Kind.REDRIVE_SENT,),
    (Kind.GROUP_COMMITTED,),
)
_ORDER = {kind: (step, number) for step, kinds in enumerate(_LIFE) for number, kind in enumerate(kinds)}
_LAST = (len(_LIFE), 0)


def _moment(numbered: tuple[int, Line]) -> tuple[int, ...]:
    """What lines are sorted by. Of deliveries, one is over before the next begins."""
    place, line = numbered
    step, number = _ORDER.get(line.kind, _LAST)
    return line.at_ms, place, step, int(line.attributes.get("delivery_count", 0)), number


_DONE, _OPEN, _DEAD = "done", "open", "dead"
_STATES = {
    Kind.CONSUME_ACKED: _DONE,
    Kind.DELAY_CANCELLED: _DONE,
    Kind.CONSUME_FETCHED: _OPEN,
    Kind.GROUP_COMMITTED: _DONE,
    Kind.CONSUME_NACKED: _OPEN,
    Kind.CONSUME_RELEASED: _OPEN,
    Kind.VISIBILITY_TIMEOUT: _OPEN,
    Kind.VISIBILITY_EXTENDED: _OPEN,
    Kind.CONSUME_REJECTED: _DEAD,
    Kind.DLQ_ROUTED: _DEAD,
}
_FAILURES = frozenset({Kind.DELAY_EXPIRED, Kind.SCHEMA_REJECTED, Kind.TRANSACTION_ABORTED})


def status_of(lines: Sequence[Line], *, internal_groups: Sequence[str] = ()) -> Status:
    """What lines, in order, add up to: an error if any group gave the message up, completed if every group is done."""
    states: dict[str, str] = {}
    failed = False
    for line in lines:
        kind, group = line.kind, str(line.attributes.get("group", ""))
        if group in internal_groups:
            continue
        if kind in _FAILURES or kind is Kind.DELAY_RESCHEDULED:
            failed = kind in _FAILURES
        elif kind is Kind.REDRIVE_SENT:
            # It lives again, for the group that gave it up or for all.
            states |= dict.fromkeys([one for one, state in states.items() if state == _DEAD], _OPEN)
        elif kind in _STATES and (group or kind is not Kind.CONSUME_FETCHED):
            # A reader without a group owes no answer.
            states[group] = _STATES[kind]
    if failed or _DEAD in states.values():
        return Status.ERROR
    if not states or _OPEN in states.values():
        return Status.PENDING
    return Status.COMPLETED
