"""Times and durations as people write them on a command line: the same rules in every command."""

from __future__ import annotations

from datetime import UTC, datetime

import typer

from goqueue.cli.session import USAGE, fail


def time_ms(text: str | None, option: str) -> int | None:
    """ISO 8601 or milliseconds since 1970; without a zone, local time."""
    if text is None:
        return None
    if text.isdigit():
        return int(text)
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise fail(
            f"{option} {text!r} is not a time: write 2026-01-31T12:00:00Z, or milliseconds since 1970", USAGE
        ) from None
    # A time without a zone is what the reader's own clock shows.
    return int(when.astimezone(UTC).timestamp() * 1000)


def duration(param: typer.CallbackParam, value: str | None) -> str | None:
    """The callback of every option that takes a duration: 250ms, 5s, 2m, 1h30m, 7d; a number needs its unit."""
    if value is None:
        return None
    from goqueue.client.durations import text_of
    from goqueue.client.errors import InvalidArgument

    option = param.opts[0]
    try:
        return text_of(value, option)
    except InvalidArgument as error:
        raise fail(f"{option} {value!r} is not a duration: {error.hint}", USAGE) from None


def moment(param: typer.CallbackParam, value: str | None) -> str | None:
    """The callback of every option that takes an RFC 3339 time, which has a zone."""
    if value is None:
        return None
    from goqueue.client.admin.delayed import time_text
    from goqueue.client.errors import InvalidArgument

    option = param.opts[0]
    try:
        return time_text(value, option)
    except InvalidArgument as error:
        raise fail(f"{option} {value!r} is not an RFC 3339 time with a zone: {error.hint}", USAGE) from None


def time_text(time_ms: int | None) -> str | None:
    """A time that people and programs both read; None for "no timestamp"."""
    if time_ms is None or time_ms < 0:
        return None
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"
