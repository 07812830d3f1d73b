"""A Kombu message as the broker is to store it: its lane, and the time until which it is held back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from kombu.utils.json import dumps

# Celery's 1 to 9, where 9 is the most urgent, as with RabbitMQ. Kombu sends 0 where no priority was given.
UNSET_PRIORITY = 0
_LANES = ("normal", "background", "low", "low", "normal", "normal", "high", "high", "critical", "critical")


def lane_of(priority: Any) -> str:
    """The lane of a Celery priority."""
    try:
        number = int(priority)
    except (TypeError, ValueError):
        number = UNSET_PRIORITY
    return _LANES[max(0, min(number, 9))]


def publish_body(message: dict[str, Any]) -> dict[str, Any]:
    """The body of the publish request. A task with an ETA is held back by the broker, not by a worker."""
    body = {
        "value": dumps(message),
        "priority": lane_of(message.get("properties", {}).get("priority")),
    }
    due = due_at((message.get("headers") or {}).get("eta"))
    if due is not None:
        body["deliverAt"] = due
    return body


def due_at(eta: Any) -> str | None:
    """An ETA as the broker reads it; None where there is none that can be read, or it has passed."""
    if not eta:
        return None
    try:
        at = eta if isinstance(eta, datetime) else datetime.fromisoformat(str(eta))
    except ValueError:
        return None
    # Without a zone it is local time, as Celery itself reads it with `enable_utc = False`.
    at = at.astimezone(UTC)
    return at.isoformat() if at > datetime.now(UTC) else None
