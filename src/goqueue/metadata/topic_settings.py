"""The table of topic settings: Kafka's names, what each means and what it may be.

A setting that nothing obeys is not in the table, so it is refused by name instead of
being taken and forgotten.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Any

from goqueue.config import LogConfig
from goqueue.records import TimestampType

INT_MAX = 2**31 - 1
_LANES = 5
_HALF_DAY_MS = 12 * 3600 * 1000
_YEAR_MS = 365 * 24 * 3600 * 1000
LONG_MAX = 2**63 - 1
TIMESTAMP_TYPES: Mapping[str, TimestampType] = MappingProxyType(
    {"CreateTime": TimestampType.CREATE_TIME, "LogAppendTime": TimestampType.LOG_APPEND_TIME}
)


class ConfigType(IntEnum):
    """What kind of value a setting has. Values are Kafka's."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


@dataclass(frozen=True, slots=True)
class Rule:
    """How the text of a setting is read; `allowed` says in words what may stand there."""

    type: ConfigType
    parse: Callable[[str], Any]
    allowed: str


@dataclass(frozen=True, slots=True)
class TopicSetting:
    """One row: `field` is its place in `TopicConfig`, `broker_field` the node's own default."""

    name: str
    field: str
    rule: Rule
    default: str
    doc: str
    broker_field: str | None = None

    def default_text(self, log: LogConfig) -> str:
        """What a topic that does not set it gets, as text."""
        return self.default if self.broker_field is None else str(getattr(log, self.broker_field))


def _integer(minimum: int, maximum: int = LONG_MAX, *, unlimited: str = "") -> Rule:
    def parse(text: str) -> int:
        # int() would also take "1_000" and digits of other scripts.
        if not re.fullmatch(r"[+-]?[0-9]{1,20}", text):
            raise ValueError("it is not a whole number")
        number = int(text)
        if not minimum <= number <= maximum:
            raise ValueError("it is out of range")
        return number

    kind = ConfigType.INT if maximum <= INT_MAX else ConfigType.LONG
    return Rule(kind, parse, f"a whole number from {minimum} to {maximum}{unlimited}")


def _fraction() -> Rule:
    def parse(text: str) -> float:
        if not re.fullmatch(r"[0-9]*\.?[0-9]+([eE]-?[0-9]{1,3})?", text):
            raise ValueError("it is not a number")
        number = float(text)
        if not 0 <= number <= 1:
            raise ValueError("it is out of range")
        return number

    return Rule(ConfigType.DOUBLE, parse, "a number from 0 to 1")


def _one_of(*choices: str, because: str = "", kind: ConfigType = ConfigType.STRING) -> Rule:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError("it is not supported")
        return text

    return Rule(kind, parse, " or ".join(choices) + because)


def _cleanup_policy() -> Rule:
    def parse(text: str) -> frozenset[str]:
        policies = frozenset(one.strip() for one in text.split(","))
        if not policies <= {"delete", "compact"}:
            raise ValueError("it is not supported")
        return policies

    return Rule(ConfigType.LIST, parse, "delete, compact, or both with a comma between")


def _timestamp_type() -> Rule:
    def parse(text: str) -> TimestampType:
        if text not in TIMESTAMP_TYPES:
            raise ValueError("it is not supported")
        return TIMESTAMP_TYPES[text]

    return Rule(ConfigType.STRING, parse, " or ".join(TIMESTAMP_TYPES))


def _boolean() -> Rule:
    def parse(text: str) -> bool:
        if text.lower() not in {"true", "false"}:
            raise ValueError("it is neither true nor false")
        return text.lower() == "true"

    return Rule(ConfigType.BOOLEAN, parse, "true or false")


def _number(minimum: float, maximum: float) -> Rule:
    def parse(text: str) -> float:
        if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text):
            raise ValueError("it is not a number")
        number = float(text)
        if not minimum <= number <= maximum:
            raise ValueError("it is out of range")
        return number

    return Rule(ConfigType.DOUBLE, parse, f"a number from {minimum:g} to {maximum:g}")


def _or_node(rule: Rule) -> Rule:
    """As the node has it, or a value of its own."""
    return Rule(
        ConfigType.STRING, lambda text: None if text == "node" else rule.parse(text), f"{rule.allowed}, or node"
    )


def _lane_weights() -> Rule:
    def parse(text: str) -> tuple[int, ...]:
        weights = text.split(",")
        if len(weights) != _LANES or not all(re.fullmatch(r" *[0-9]{1,4} *", one) for one in weights):
            raise ValueError("it is not five whole numbers")
        numbers = tuple(int(one) for one in weights)
        if min(numbers) < 1:
            raise ValueError("a lane without weight would never be served")
        return numbers

    return Rule(ConfigType.LIST, parse, "five whole numbers from 1 to 9999, critical first, with commas between")


def _flush_messages() -> Rule:
    def parse(text: str) -> int:
        if text not in {"1", str(LONG_MAX)}:
            raise ValueError("it is not supported")
        return int(text)

    return Rule(ConfigType.LONG, parse, f"1 (every batch) or {LONG_MAX} (by time alone)")


_ROWS = (
    TopicSetting(
        "cleanup.policy",
        "cleanup_policy",
        _cleanup_policy(),
        "delete",
        "What happens to old segments: deleted by age and size, or compacted to the newest record of each key.",
    ),
    TopicSetting(
        "compression.type",
        "compression_type",
        _one_of("producer", because=": batches are stored as they came"),
        "producer",
        "Compression of stored batches; they keep what the producer chose.",
    ),
    TopicSetting(
        "delete.retention.ms",
        "tombstone_retention_ms",
        _integer(0),
        "",
        "How long a deletion (a key without a value) outlives compaction.",
        "tombstone_retention_ms",
    ),
    TopicSetting(
        "delivery.backoff.max.ms",
        "delivery_backoff_ms_max",
        _or_node(_integer(0, _YEAR_MS)),
        "node",
        "Longest wait before a redelivery to a queue group.",
    ),
    TopicSetting(
        "delivery.backoff.ms",
        "delivery_backoff_ms",
        _or_node(_integer(0, _YEAR_MS)),
        "node",
        "Wait before the first redelivery after a nack.",
    ),
    TopicSetting(
        "delivery.backoff.multiplier",
        "delivery_backoff_multiplier",
        _or_node(_number(1, 1000)),
        "node",
        "How much longer each further wait is.",
    ),
    TopicSetting(
        "delivery.dead.letters",
        "delivery_dead_letters",
        _boolean(),
        "true",
        "Whether messages that failed too often go to the dead-letter topic; false retries them for ever.",
    ),
    TopicSetting(
        "delivery.max.retries",
        "delivery_retries_max",
        _or_node(_integer(0, 1_000_000)),
        "node",
        "Redeliveries after the first delivery; then the dead-letter topic.",
    ),
    TopicSetting(
        "delivery.visibility.timeout.ms",
        "delivery_visibility_ms",
        _or_node(_integer(0, _HALF_DAY_MS)),
        "node",
        "How long a message delivered to a queue group is hidden from others.",
    ),
    TopicSetting(
        "flush.messages",
        "flush_messages",
        _flush_messages(),
        str(LONG_MAX),
        "1 syncs every batch to the disk before it is acknowledged, whatever its acks.",
    ),
    TopicSetting(
        "flush.ms",
        "flush_ms",
        _integer(1000),
        str(LONG_MAX),
        "Longest time before a sync. The node syncs all its logs at least once a second anyway.",
    ),
    TopicSetting(
        "goqueue.dedup.window.ms",
        "dedup_window_ms",
        _integer(0, 7 * 24 * 3600 * 1000),
        "0",
        "A message whose deduplication id came within this time is not stored again; 0 switches that off.",
    ),
    TopicSetting(
        "goqueue.delay.headers",
        "delay_headers",
        _boolean(),
        "false",
        "Whether the record headers goqueue-deliver-at and goqueue-delay-ms of Kafka producers hold a record back.",
    ),
    TopicSetting(
        "goqueue.lane.weights",
        "lane_weights",
        _lane_weights(),
        "50,25,15,7,3",
        "Shares of the five priority lanes, critical first.",
    ),
    TopicSetting(
        "goqueue.partitioner",
        "partitioner",
        _one_of("murmur3", "murmur2"),
        "murmur3",
        "Hash of keys when the broker chooses the partition; murmur2 agrees with Java clients.",
    ),
    TopicSetting(
        "goqueue.priority.headers",
        "priority_headers",
        _boolean(),
        "false",
        "Whether the record header goqueue-priority of Kafka producers puts a record in a lane.",
    ),
    TopicSetting(
        "goqueue.strict.priority",
        "strict_priority",
        _boolean(),
        "false",
        "Whether a lane is served only while all more urgent ones are empty.",
    ),
    TopicSetting(
        "index.interval.bytes",
        "index_interval_bytes",
        _integer(1, INT_MAX),
        "",
        "One index entry per this many bytes of log.",
        "index_interval_bytes",
    ),
    TopicSetting(
        "max.message.bytes",
        "max_message_bytes",
        _integer(1, INT_MAX),
        "",
        "Largest batch the topic takes, compressed as it comes.",
        "max_message_bytes",
    ),
    TopicSetting(
        "message.timestamp.after.max.ms",
        "timestamp_after_max_ms",
        _integer(0),
        "3600000",
        "How far a record's timestamp may lie ahead of the broker's clock.",
    ),
    TopicSetting(
        "message.timestamp.before.max.ms",
        "timestamp_before_max_ms",
        _integer(0),
        str(LONG_MAX),
        "How far a record's timestamp may lie behind the broker's clock.",
    ),
    TopicSetting(
        "message.timestamp.type",
        "timestamp_type",
        _timestamp_type(),
        "CreateTime",
        "Whose clock timestamps are: the producer's or the broker's.",
    ),
    TopicSetting(
        "message.ttl.ms",
        "message_ttl_ms",
        _integer(-1, unlimited="; -1 is no limit"),
        "-1",
        "Age at which a message is no longer delivered to queue groups.",
    ),
    TopicSetting(
        "min.cleanable.dirty.ratio",
        "compaction_dirty_ratio",
        _fraction(),
        "",
        "Share of uncompacted bytes that starts compaction.",
        "compaction_dirty_ratio",
    ),
    TopicSetting(
        "min.compaction.lag.ms",
        "min_compaction_lag_ms",
        _integer(0),
        "0",
        "A record is safe from compaction for this long.",
    ),
    TopicSetting(
        "min.insync.replicas",
        "min_insync_replicas",
        _integer(1, INT_MAX),
        "1",
        "Copies that must have a record before acks=all is answered.",
    ),
    TopicSetting(
        "preallocate",
        "preallocate",
        _one_of("false", kind=ConfigType.BOOLEAN),
        "false",
        "Segments grow as they are written; they are never preallocated.",
    ),
    TopicSetting(
        "retention.bytes",
        "retention_bytes",
        _integer(-1, unlimited="; -1 is no limit"),
        "",
        "Size of a partition above which its oldest segments go.",
        "retention_bytes",
    ),
    TopicSetting(
        "retention.ms",
        "retention_ms",
        _integer(-1, unlimited="; -1 is no limit"),
        "",
        "Age at which records go.",
        "retention_ms",
    ),
    TopicSetting(
        "segment.bytes",
        "segment_bytes",
        _integer(1024, INT_MAX),
        "",
        "A segment is sealed at this size.",
        "segment_bytes",
    ),
    TopicSetting(
        "segment.ms",
        "segment_ms",
        _integer(1),
        "",
        "A segment is sealed at this age.",
        "segment_ms",
    ),
    TopicSetting(
        "unclean.leader.election.enable",
        "unclean_leader_election",
        _one_of("false", kind=ConfigType.BOOLEAN),
        "false",
        "Whether a replica that lacks acknowledged records may lead: never.",
    ),
)

TOPIC_SETTINGS: Mapping[str, TopicSetting] = MappingProxyType({row.name: row for row in _ROWS})

# Other ways to say the same: name -> (setting, milliseconds per unit).
ALIASES: Mapping[str, tuple[str, int]] = MappingProxyType(
    {"retention.hours": ("retention.ms", 3_600_000), "retention.minutes": ("retention.ms", 60_000)}
)
