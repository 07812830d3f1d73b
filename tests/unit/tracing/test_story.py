"""Stories as values: order, repeats, and what they add up to."""

from __future__ import annotations

import pytest

from goqueue.tracing.events import At, Happened, Kind
from goqueue.tracing.story import Line, Status, in_order, line_of, status_of


def line(kind: Kind, group: str = "g", at_ms: int = 0) -> Line:
    return Line(at_ms, kind, "t", 0, 5, {"group": group} if group else {})


@pytest.mark.parametrize(
    ("kinds", "status"),
    [
        ([Kind.PUBLISH_RECEIVED, Kind.PUBLISH_PERSISTED], Status.PENDING),
        ([Kind.CONSUME_FETCHED], Status.PENDING),
        ([Kind.CONSUME_FETCHED, Kind.CONSUME_ACKED], Status.COMPLETED),
        ([Kind.CONSUME_FETCHED, Kind.CONSUME_NACKED], Status.PENDING),
        ([Kind.CONSUME_FETCHED, Kind.VISIBILITY_TIMEOUT], Status.PENDING),
        ([Kind.CONSUME_FETCHED, Kind.CONSUME_REJECTED, Kind.DLQ_ROUTED], Status.ERROR),
        ([Kind.CONSUME_FETCHED, Kind.DLQ_ROUTED, Kind.REDRIVE_SENT], Status.PENDING),
        ([Kind.DLQ_ROUTED, Kind.REDRIVE_SENT, Kind.CONSUME_FETCHED, Kind.CONSUME_ACKED], Status.COMPLETED),
        ([Kind.GROUP_COMMITTED], Status.COMPLETED),
        ([Kind.DELAY_SCHEDULED], Status.PENDING),
        ([Kind.DELAY_SCHEDULED, Kind.DELAY_CANCELLED], Status.COMPLETED),
        ([Kind.DELAY_SCHEDULED, Kind.DELAY_EXPIRED], Status.ERROR),
        ([Kind.DELAY_EXPIRED, Kind.DELAY_RESCHEDULED], Status.PENDING),
        ([Kind.TRANSACTION_ABORTED], Status.ERROR),
    ],
)
def test_what_a_story_adds_up_to(kinds: list[Kind], status: Status) -> None:
    assert status_of([line(kind) for kind in kinds]) is status


def test_one_group_that_gave_a_message_up_makes_an_error() -> None:
    lines = [line(Kind.CONSUME_ACKED, "one"), line(Kind.DLQ_ROUTED, "two")]
    assert status_of(lines) is Status.ERROR
    assert status_of(lines, internal_groups=("two",)) is Status.COMPLETED


def test_a_reader_without_a_group_owes_no_answer() -> None:
    assert status_of([line(Kind.CONSUME_FETCHED, ""), line(Kind.CONSUME_ACKED)]) is Status.COMPLETED


def test_within_a_millisecond_lines_follow_the_message_from_place_to_place() -> None:
    lines = [
        (1, line(Kind.PUBLISH_RECEIVED)),
        (0, line(Kind.DLQ_ROUTED)),
        (0, line(Kind.CONSUME_REJECTED)),
        (0, line(Kind.CONSUME_FETCHED, at_ms=-1)),
    ]
    kinds = [one.kind for one in in_order(lines)]
    assert kinds == [Kind.CONSUME_FETCHED, Kind.CONSUME_REJECTED, Kind.DLQ_ROUTED, Kind.PUBLISH_RECEIVED]


def test_what_was_recorded_again_after_a_crash_is_told_once() -> None:
    lines = [
        (0, line(Kind.VISIBILITY_TIMEOUT)),
        (0, line(Kind.VISIBILITY_TIMEOUT)),
        (0, line(Kind.VISIBILITY_TIMEOUT, "h")),
    ]
    assert len(in_order(lines)) == 2


def test_places_of_a_range_are_counted_on() -> None:
    happened = Happened(0, Kind.REDRIVE_SENT, 10, 12, (At.TO_TOPIC, "t", At.TO_PARTITION, 1, At.TO_OFFSET, 50))
    assert line_of(happened, "t.dlq", 0, 12).target == "t/1@52"
    assert line_of(happened, "t.dlq", 0, 12).attributes == {}
