"""What the broker answers, with attributes that an editor knows: `client.topic("orders").partitions`.

Every answer is also a mapping with all that the broker sent, so that it can be written as JSON as it came, and
fields of a newer broker are not lost.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar


class Reply(dict[str, Any]):
    """An answer: fields are attributes, and items."""

    # Fields that are answers themselves, or lists or tables of them.
    _nested: ClassVar[Mapping[str, type[Reply]]] = {}
    # Fields that the broker leaves out where they have these values.
    _defaults: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, fields: Mapping[str, Any]) -> None:
        super().__init__(fields)
        for name, kind in self._nested.items():
            if (found := self.get(name)) is not None:
                self[name] = _made(found, kind)

    if not TYPE_CHECKING:
        # Hidden from type checkers, which would take any misspelt attribute for one of these.
        def __getattr__(self, name):
            try:
                return self[name]
            except KeyError:
                if name in self._defaults:
                    return self._defaults[name]
                raise AttributeError(f"the broker's answer has no field {name!r}: it has {', '.join(self)}") from None

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self})


def _made(found: Any, kind: type[Reply]) -> Any:
    if isinstance(found, list):
        return [kind(one) for one in found]
    if kind is OffsetRange:
        return {key: kind(one) for key, one in found.items()}
    return kind(found)


class TopicSummary(Reply):
    """A topic in a list."""

    name: str
    partitions: int
    internal: bool


class OffsetRange(Reply):
    """The first offset held, and the one the next record will get."""

    earliest: int
    latest: int


class Topic(Reply):
    """One topic: its settings, sizes and offsets (by partition, as text)."""

    _nested: ClassVar[Mapping[str, type[Reply]]] = {"partition_offsets": OffsetRange}
    name: str
    topic_id: str
    partitions: int
    replication_factor: int
    internal: bool
    config: dict[str, str]
    overrides: dict[str, str]
    total_messages: int
    total_size_bytes: int
    partition_offsets: dict[str, OffsetRange]


class GroupSummary(Reply):
    """A group in a list."""

    id: str
    mode: str
    state: str
    protocol: str
    members: int
    generation: int
    topics: list[str]


class Member(Reply):
    """A member of a group."""

    id: str
    client_id: str
    host: str
    assigned_partitions: list[dict[str, Any]]
    instance_id: str | None
    tags: dict[str, str]


class GroupOffset(Reply):
    """How far a group is in one partition."""

    topic: str
    partition: int
    committed: int
    end: int
    lag: int
    lag_seconds: float
    metadata: str


class Group(Reply):
    """One group."""

    _nested: ClassVar[Mapping[str, type[Reply]]] = {"members": Member, "offsets": GroupOffset}
    id: str
    mode: str
    state: str
    protocol: str
    generation: int
    topics: list[str]
    assignor: str
    members: list[Member]
    offsets: list[GroupOffset]
    sharing: str | None
    key_ordered: bool


class GroupOffsets(Reply):
    """Committed offsets and lag by topic and partition."""

    topics: dict[str, dict[str, dict[str, Any]]]
    total_lag: int


class Reset(Reply):
    """What a reset moved, or would move: rows of topic, partition, `from` and `to`."""

    dry_run: bool
    changes: list[dict[str, Any]]


class Policy(Reply):
    """How a queue group's messages are delivered, with all defaults filled in."""

    visibility_ms: int
    retries_max: int
    backoff_ms: int
    backoff_multiplier: float
    backoff_ms_max: int
    backoff_jitter: float
    in_flight_max: int
    outstanding_max: int
    key_ordered: bool
    dead_letters: bool
    ttl_ms: int | None
    strict_priority: bool
    lane_weights: list[int]
    starvation_ms: int


class GroupPolicy(Reply):
    """A queue group: what it overrides, and the policy that follows."""

    _nested: ClassVar[Mapping[str, type[Reply]]] = {"effective": Policy}
    group: str
    mode: str
    sharing: str
    key_ordered: bool
    overrides: dict[str, Any]
    effective: Policy


class DeadLetter(Reply):
    """One dead letter: the message as it was, and what happened to it."""

    message: dict[str, Any]
    topic: str
    partition: int
    offset: int
    group: str
    delivery_count: int
    died_at: int
    reason: str
    error: str


class DeadLetters(Reply):
    """Dead letters, by partition and offset; with `cursor`, ask on."""

    _nested: ClassVar[Mapping[str, type[Reply]]] = {"letters": DeadLetter}
    topic: str
    dlq_topic: str
    total: int
    letters: list[DeadLetter]
    cursor: str | None


class Purged(Reply):
    """How many dead letters were deleted."""

    topic: str
    dlq_topic: str
    purged: int


class RedriveState(Reply):
    """A redrive and how far it is; `state` is running, done, cancelled or failed."""

    topic: str
    state: str
    dry_run: bool
    total: int
    scanned: int
    matched: int
    redriven: int
    failed: int
    started_at: int
    ended_at: int | None
    error: str | None

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen."""
        return self.get("state") != "running"


class Redrive(RedriveState):
    """A redrive that was begun.

    job = await client.redrive("orders")
    print((await job.wait()).redriven)
    """

    def __init__(self, fields: Mapping[str, Any], wait: Callable[[], Awaitable[RedriveState]]) -> None:
        super().__init__(fields)
        object.__setattr__(self, "_wait", wait)

    async def wait(self) -> RedriveState:
        """Wait until it is over; returns what it did."""
        waiting: Callable[[], Awaitable[RedriveState]] = object.__getattribute__(self, "_wait")
        return await waiting()
