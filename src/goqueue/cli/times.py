"""Times as people write them on a command line."""

from __future__ import annotations

from datetime import UTC, datetime

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
