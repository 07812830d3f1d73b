"""What the broker answers, with attributes that an editor knows: `client.topic("orders").partitions`.

Every answer is also a mapping with all that the broker sent, so that it can be written as JSON as it came, and
fields of a newer broker are not lost.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    """One topic: its settings, sizes and offsets (by partition, as text).

    `config` has every setting and its effective value. Of a topic that `create_topic` has just created it has those
    that were given.
    """

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


class AssignedPartition(Reply):
    """A partition that a member reads."""

    topic: str
    partition: int


class Member(Reply):
    """A member of a group."""

    _nested: ClassVar[Mapping[str, type[Reply]]] = {"assigned_partitions": AssignedPartition}
    _defaults: ClassVar[Mapping[str, Any]] = {"instance_id": None, "tags": {}}
    id: str
    client_id: str
    host: str
    assigned_partitions: list[AssignedPartition]
    instance_id: str | None
    tags: dict[str, str]


class GroupOffset(Reply):
    """How far a group is in one partition; `committed` is None where it has committed nothing."""

    topic: str
    partition: int
    committed: int | None
    end: int
    lag: int
    lag_seconds: float
    metadata: str


class Group(Reply):
    """One group; `sharing` and `key_ordered` are those of a queue group."""

    _defaults: ClassVar[Mapping[str, Any]] = {"sharing": None, "key_ordered": False}
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


class CommittedOffset(Reply):
    """A partition's committed offset and lag; `offset` is None where nothing is committed."""

    offset: int | None
    end: int
    lag: int
    lag_seconds: float
    metadata: str


class GroupOffsets(Reply):
    """Committed offsets and lag by topic and partition (as text): `offsets.topics["orders"]["0"].lag`."""

    group_id: str
    topics: dict[str, dict[str, CommittedOffset]]
    total_lag: int

    def __init__(self, fields: Mapping[str, Any]) -> None:
        super().__init__(fields)
        self["topics"] = {
            topic: {partition: CommittedOffset(one) for partition, one in found.items()}
            for topic, found in self["topics"].items()
        }


class OffsetChange(Reply):
    """One partition of a reset; `get("from")` is its offset before."""

    topic: str
    partition: int
    to: int | None


class Reset(Reply):
    """What a reset moved, or would move."""

    _nested: ClassVar[Mapping[str, type[Reply]]] = {"changes": OffsetChange}
    dry_run: bool
    changes: list[OffsetChange]


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
