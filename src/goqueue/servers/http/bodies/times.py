"""Times as RFC 3339 has them, and when a message that is sent with a delay is due."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from goqueue.delay.values import DUE_MS_MAX
from goqueue.errors import InvalidRequest
from goqueue.servers.http.bodies.durations import parse_duration_ms

_SECOND_MS = 1000
_MS_DIGITS_MAX = 16
_LOST_PLUS = re.compile(r" (\d\d:?\d\d)$")


def parse_time_ms(text: str, field: str) -> int:
    """Milliseconds since 1970 of an RFC 3339 time, rounded up: earlier than it says would be early."""
    try:
        when = datetime.fromisoformat(text)
        if when.tzinfo is None or len(text) < len("2026-01-01T00:00Z"):
            raise ValueError("it has no time zone")
        whole = when.astimezone(UTC)
        micros = int((whole - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()) * 1_000_000 + whole.microsecond
    except (ValueError, OverflowError) as problem:
        raise InvalidRequest(
            f"{field}={text[:64]!r} is not an RFC 3339 time with a zone: {problem}",
            field=field,
            hint="write it as 2026-12-24T18:00:00Z or 2026-12-24T18:00:00+01:00",
        ) from problem
    return -(-micros // 1000)


def query_time_ms(text: str, field: str) -> int:
    """A time in a query: milliseconds since 1970, or RFC 3339."""
    if text.isascii() and text.isdigit() and len(text) <= _MS_DIGITS_MAX:
        return int(text)
    # A plus sign that was not escaped reaches us as a space.
    return max(0, parse_time_ms(_LOST_PLUS.sub(r"+\1", text), field))


def body_time_ms(value: int | str, field: str) -> int:
    """A time in a body: a number is milliseconds since 1970, a text is RFC 3339."""
    return max(0, parse_time_ms(value, field)) if isinstance(value, str) else value


def format_time(ms: int) -> str:
    """RFC 3339 in UTC, to the millisecond."""
    when = datetime.fromtimestamp(ms // _SECOND_MS, tz=UTC)
    return f"{when:%Y-%m-%dT%H:%M:%S}.{ms % _SECOND_MS:03d}Z"


def format_remaining(ms: int) -> str:
    """What is left, as a duration: `90s`, `2h0m1s`; what is overdue is `0s`."""
    seconds, millis = divmod(max(0, ms), _SECOND_MS)
    hours, rest = divmod(seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    tail = f"{seconds}.{millis:03d}s" if millis else f"{seconds}s"
    if hours:
        return f"{hours}h{minutes}m{tail}"
    return f"{minutes}m{tail}" if minutes else tail


def due_of(delay: str | None, deliver_at: str | None, now_ms: int) -> int | None:
    """When a message is due; None if it says nothing about that."""
    if delay is not None and deliver_at is not None:
        raise InvalidRequest("a message has either a delay or a deliverAt", field="deliverAt", hint="leave one out")
    if deliver_at is not None:
        return parse_time_ms(deliver_at, "deliverAt")
    if delay is None:
        return None
    due_ms = now_ms + parse_duration_ms(delay, "delay", maximum_ms=DUE_MS_MAX)
    if due_ms > DUE_MS_MAX:
        raise InvalidRequest(f"delay={delay!r} ends after the year 9999", field="delay")
    return due_ms
