"""Keywords of the client's calls that become the fields of a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from goqueue.client.durations import Duration, ms_of, without_ms


class ResetFields(TypedDict, total=False):
    """Where a group's offsets go: `to` is a name, or one of `offset`, `timestamp` and `shift`."""

    to: Literal["earliest", "latest"] | Mapping[str, int]
    topic: str | None
    partitions: list[int] | None
    dry_run: bool


class PolicyFields(TypedDict, total=False):
    """Changes to a group's policy; None removes an override. The names in `_ms` are deprecated."""

    visibility: Duration | None
    retries_max: int | None
    backoff: Duration | None
    backoff_multiplier: float | None
    backoff_max: Duration | None
    backoff_jitter: float | None
    in_flight_max: int | None
    outstanding_max: int | None
    key_ordered: bool | None
    dead_letters: bool | None
    ttl: Duration | None
    strict_priority: bool | None
    starvation: Duration | None
    visibility_ms: int | None
    backoff_ms: int | None
    backoff_ms_max: int | None
    ttl_ms: int | None
    starvation_ms: int | None


_POLICY_DURATIONS = {
    "visibility": "visibility_ms",
    "backoff": "backoff_ms",
    "backoff_max": "backoff_ms_max",
    "ttl": "ttl_ms",
    "starvation": "starvation_ms",
}


def policy_body(changes: PolicyFields) -> dict[str, Any]:
    """The body of a change of policy: durations in milliseconds, as the broker names them."""
    old_names = {old: new for new, old in _POLICY_DURATIONS.items()}
    body = without_ms(dict(changes), **old_names)
    for name, field in _POLICY_DURATIONS.items():
        if name in body:
            duration = body.pop(name)
            body[field] = None if duration is None else ms_of(duration, name)
    return body


class LetterFields(TypedDict, total=False):
    """Which dead letters to show.

    `reason` is a code such as rejected, `header` is a name or name=value, times are Unix ms of the death.
    """

    reason: str | None
    group: str | None
    key: str | None
    header: str | None
    since: int | None
    until: int | None
    partition: int | None
    limit: int | None
    cursor: str | None
    encoding: Literal["text", "base64"]


class RedriveFields(TypedDict, total=False):
    """Which dead letters go back, and how. `headers` are set on the way; None takes one away."""

    reason: str | None
    group: str | None
    key: str | None
    header: str | None
    since: int | None
    until: int | None
    to: str | None
    headers: Mapping[str, str | None] | None
    limit: int | None
    per_second: float | None
    all_groups: bool
    dry_run: bool


TailFields = TypedDict(
    "TailFields",
    {"from": str, "partition": int | str, "partitions": str, "limit": int | str, "encoding": str},
    total=False,
)


def text_params(params: Mapping[str, Any]) -> dict[str, str]:
    """Parameters of a query, as text; None is left out."""
    return {
        name: str(one).lower() if isinstance(one, bool) else str(one) for name, one in params.items() if one is not None
    }
