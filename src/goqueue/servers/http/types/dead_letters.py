"""The JSON of dead letters: looking at them, sending them back, deleting them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from goqueue.servers.http.types.common import Body, MessageOut, Millis, PartitionIndex, Reply, Text

Word = Annotated[str, Meta(max_length=1024)]


class LetterQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which dead letters to show. `header` is a name, or name=value; times are Unix ms of the death."""

    reason: Word | None = None
    group: Word | None = None
    key: Word | None = None
    header: Word | None = None
    since: Millis | None = None
    until: Millis | None = None
    partition: PartitionIndex | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    cursor: Annotated[str, Meta(max_length=20_000)] | None = None
    encoding: Literal["text", "base64"] = "text"


class LetterOut(Reply):
    """One dead letter: the message as it was, and what happened to it."""

    message: MessageOut
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    timestamp: int | None = None
    group: str | None = None
    consumer: str | None = None
    delivery_count: int | None = None
    first_delivered_at: int | None = None
    last_delivered_at: int | None = None
    died_at: int | None = None
    reason: str | None = None
    error: str | None = None


class Letters(Reply):
    """Dead letters, by partition and offset; with `cursor`, ask on."""

    topic: str
    dlq_topic: str
    total: int
    letters: list[LetterOut]
    cursor: str | None = None


class RedriveBody(Body):
    """Which dead letters go back, and how. `headers` are set on the way; null takes one away.

    A message goes to the group in which it died; with `all_groups` to every group of its topic, with `to` to
    every group of that topic.
    """

    reason: Word | None = None
    group: Word | None = None
    key: Word | None = None
    header: Word | None = None
    since: Millis | None = None
    until: Millis | None = None
    to: Annotated[str, Meta(min_length=1, max_length=249)] | None = None
    all_groups: bool = False
    headers: dict[str, Text | None] | None = None
    limit: Annotated[int, Meta(ge=1, le=2**53)] | None = None
    per_second: Annotated[float, Meta(gt=0, le=1_000_000)] | None = None
    dry_run: bool = False


class Redrive(Reply):
    """A redrive and how far it is."""

    topic: str
    state: str
    dry_run: bool
    total: int
    scanned: int
    matched: int
    redriven: int
    failed: int
    started_at: int
    ended_at: int | None = None
    error: str | None = None


class Purged(Reply):
    """How many dead letters were deleted."""

    topic: str
    dlq_topic: str
    purged: int
