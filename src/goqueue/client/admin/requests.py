"""Keywords of the client's calls that become the fields of a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict


class ResetFields(TypedDict, total=False):
    """Where a group's offsets go: `to` is a name, or one of `offset`, `timestamp` and `shift`."""

    to: Literal["earliest", "latest"] | Mapping[str, int]
    topic: str | None
    partitions: list[int] | None
    dry_run: bool


class PolicyFields(TypedDict, total=False):
    """Changes to a group's policy; None takes an override away."""

    visibility_ms: int | None
    retries_max: int | None
    backoff_ms: int | None
    backoff_multiplier: float | None
    backoff_ms_max: int | None
    backoff_jitter: float | None
    in_flight_max: int | None
    outstanding_max: int | None
    key_ordered: bool | None
    dead_letters: bool | None
    ttl_ms: int | None
    strict_priority: bool | None
    starvation_ms: int | None


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
