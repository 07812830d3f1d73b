"""The table of topic settings: Kafka's names, what each means and what it may be. Any other name is refused."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from goqueue.metadata.setting_rules import (
    INT_MAX,
    LONG_MAX,
    NODE,
    ConfigType,
    boolean,
    cleanup_policy,
    flush_messages,
    fraction,
    integer,
    lane_weights,
    number,
    one_of,
    or_node,
    timestamp_type,
)
from goqueue.metadata.settings_without_effect import SETTINGS_WITHOUT_EFFECT
from goqueue.metadata.topic_setting import TopicSetting
from goqueue.partitioner import MURMUR2, MURMUR3

_HALF_DAY_MS = 12 * 3600 * 1000
_YEAR_MS = 365 * 24 * 3600 * 1000

_ROWS = (
    TopicSetting(
        "confluent.key.schema.validation",
        "confluent_key_validation",
        boolean(),
        "false",
        "The same as goqueue.schema.key.validation=id.",
    ),
    TopicSetting(
        "confluent.value.schema.validation",
        "confluent_value_validation",
        boolean(),
        "false",
        "The same as goqueue.schema.validation=id.",
    ),
    TopicSetting(
        "cleanup.policy",
        "cleanup_policy",
        cleanup_policy(),
        "delete",
        "What happens to old segments: deleted by age and size, or compacted to the newest record of each key.",
    ),
    TopicSetting(
        "delete.retention.ms",
        "tombstone_retention_ms",
        integer(0),
        "",
        "How long a deletion (a key without a value) outlives compaction.",
        "tombstone_retention_ms",
    ),
    TopicSetting(
        "delivery.backoff.max.ms",
        "delivery_backoff_ms_max",
        or_node(integer(0, _YEAR_MS)),
        NODE,
        "Longest wait before a redelivery to a queue group.",
        delivery_field="backoff_ms_max",
    ),
    TopicSetting(
        "delivery.backoff.ms",
        "delivery_backoff_ms",
        or_node(integer(0, _YEAR_MS)),
        NODE,
        "Wait before the first redelivery after a nack.",
        delivery_field="backoff_ms",
    ),
    TopicSetting(
        "delivery.backoff.multiplier",
        "delivery_backoff_multiplier",
        or_node(number(1, 1000)),
        NODE,
        "How much longer each further wait is.",
        delivery_field="backoff_multiplier",
    ),
    TopicSetting(
        "delivery.dead.letters",
        "delivery_dead_letters",
        boolean(),
        "true",
        "Whether messages that failed too often go to the dead-letter topic; false retries them for ever.",
    ),
    TopicSetting(
        "delivery.max.retries",
        "delivery_retries_max",
        or_node(integer(0, 1_000_000)),
        NODE,
        "Redeliveries after the first delivery; then the dead-letter topic.",
        delivery_field="retries_max",
    ),
    TopicSetting(
        "delivery.visibility.timeout.ms",
        "delivery_visibility_ms",
        or_node(integer(0, _HALF_DAY_MS)),
        NODE,
        "How long a message delivered to a queue group is hidden from others.",
        delivery_field="visibility_ms",
    ),
    TopicSetting(
        "flush.messages",
        "flush_messages",
        flush_messages(),
        str(LONG_MAX),
        "1 syncs every batch to the disk before it is acknowledged, whatever its acks.",
    ),
    TopicSetting(
        "flush.ms",
        "flush_ms",
        integer(1000),
        str(LONG_MAX),
        "Longest time before a sync. The node syncs all its logs at least once a second anyway.",
    ),
    TopicSetting(
        "goqueue.dedup.window.ms",
        "dedup_window_ms",
        integer(0, 7 * 24 * 3600 * 1000),
        "0",
        "A message whose deduplication id came within this time is not stored again; 0 switches that off.",
    ),
    TopicSetting(
        "goqueue.delay.headers",
        "delay_headers",
        boolean(),
        "false",
        "Whether the record headers goqueue-deliver-at and goqueue-delay-ms of Kafka producers hold a record back.",
    ),
    TopicSetting(
        "goqueue.lane.weights",
        "lane_weights",
        lane_weights(),
        "50,25,15,7,3",
        "Shares of the five priority lanes, critical first.",
    ),
    TopicSetting(
        "goqueue.partitioner",
        "partitioner",
        one_of(MURMUR3, MURMUR2),
        MURMUR3,
        "Hash of keys that places records whose sender names no partition; murmur2 agrees with Java clients.",
    ),
    TopicSetting(
        "goqueue.priority.headers",
        "priority_headers",
        boolean(),
        "false",
        "Whether the record header goqueue-priority of Kafka producers puts a record in a lane.",
    ),
    TopicSetting(
        "goqueue.schema.invalid",
        "schema_invalid",
        one_of("refuse", "quarantine"),
        "refuse",
        "What becomes of records that are not allowed: their batch is refused, or they go to {topic}.invalid.",
    ),
    TopicSetting(
        "goqueue.schema.key.validation",
        "schema_key_validation",
        one_of("off", "id", "full"),
        "off",
        "As goqueue.schema.validation, for keys.",
    ),
    TopicSetting(
        "goqueue.schema.missing",
        "schema_missing",
        one_of("refuse", "latest"),
        "refuse",
        "What holds for values that name no schema: they are refused, or checked against the subject's latest version.",
    ),
    TopicSetting(
        "goqueue.schema.subjects",
        "schema_subjects",
        one_of("topic", "record", "topic-record"),
        "topic",
        "Whose schemas are allowed: those of {topic}-value and {topic}, of {record}, or of {topic}-{record}.",
    ),
    TopicSetting(
        "goqueue.schema.validation",
        "schema_validation",
        one_of("off", "id", "full"),
        "off",
        "What is asked of values: nothing, that they name an allowed schema, or that they are valid by it.",
    ),
    TopicSetting(
        "goqueue.strict.priority",
        "strict_priority",
        boolean(),
        "false",
        "Whether a lane is served only while all more urgent ones are empty.",
    ),
    TopicSetting(
        "index.interval.bytes",
        "index_interval_bytes",
        integer(1, INT_MAX),
        "",
        "One index entry per this many bytes of log.",
        "index_interval_bytes",
    ),
    TopicSetting(
        "max.compaction.lag.ms",
        "max_compaction_lag_ms",
        integer(1),
        str(LONG_MAX),
        "A record of a compacted topic is looked at by compaction at this age, however little else is to compact.",
    ),
    TopicSetting(
        "max.message.bytes",
        "max_message_bytes",
        integer(1, INT_MAX),
        "",
        "Largest batch the topic takes, compressed as it comes.",
        "max_message_bytes",
    ),
    TopicSetting(
        "message.timestamp.after.max.ms",
        "timestamp_after_max_ms",
        integer(0),
        "3600000",
        "How far a record's timestamp may lie ahead of the broker's clock.",
    ),
    TopicSetting(
        "message.timestamp.before.max.ms",
        "timestamp_before_max_ms",
        integer(0),
        str(LONG_MAX),
        "How far a record's timestamp may lie behind the broker's clock.",
    ),
    TopicSetting(
        "message.timestamp.type",
        "timestamp_type",
        timestamp_type(),
        "CreateTime",
        "Whose clock timestamps are: the producer's or the broker's.",
    ),
    TopicSetting(
        "message.ttl.ms",
        "message_ttl_ms",
        integer(-1, unlimited="; -1 is no limit"),
        "-1",
        "Age at which a message is no longer delivered to queue groups.",
    ),
    TopicSetting(
        "min.cleanable.dirty.ratio",
        "compaction_dirty_ratio",
        fraction(),
        "",
        "Share of uncompacted bytes that starts compaction.",
        "compaction_dirty_ratio",
    ),
    TopicSetting(
        "min.compaction.lag.ms",
        "min_compaction_lag_ms",
        integer(0),
        "0",
        "A record is safe from compaction for this long.",
    ),
    TopicSetting(
        "min.insync.replicas",
        "min_insync_replicas",
        integer(1, INT_MAX),
        "1",
        "Copies that must have a record before acks=all is answered.",
    ),
    TopicSetting(
        "preallocate",
        "preallocate",
        one_of("false", kind=ConfigType.BOOLEAN),
        "false",
        "Segments grow as they are written; they are never preallocated.",
    ),
    TopicSetting(
        "retention.bytes",
        "retention_bytes",
        integer(-1, unlimited="; -1 is no limit"),
        "",
        "Size of a partition above which its oldest segments go.",
        "retention_bytes",
    ),
    TopicSetting(
        "retention.ms",
        "retention_ms",
        integer(-1, unlimited="; -1 is no limit"),
        "",
        "Age at which records go.",
        "retention_ms",
    ),
    TopicSetting(
        "segment.bytes",
        "segment_bytes",
        integer(1024, INT_MAX),
        "",
        "A segment is sealed at this size.",
        "segment_bytes",
    ),
    TopicSetting(
        "segment.jitter.ms",
        "segment_jitter_ms",
        integer(0),
        "0",
        "A segment is sealed up to this much before its age, so that not all are sealed at once.",
    ),
    TopicSetting(
        "segment.ms",
        "segment_ms",
        integer(1),
        "",
        "A segment is sealed at this age.",
        "segment_ms",
    ),
    TopicSetting(
        "unclean.leader.election.enable",
        "unclean_leader_election",
        one_of("false", kind=ConfigType.BOOLEAN),
        "false",
        "Whether a replica that lacks acknowledged records may lead: never.",
    ),
)

TOPIC_SETTINGS: Mapping[str, TopicSetting] = MappingProxyType(
    {row.name: row for row in sorted((*_ROWS, *SETTINGS_WITHOUT_EFFECT), key=lambda row: row.name)}
)

# Other ways to say the same: name -> (setting, milliseconds per unit).
ALIASES: Mapping[str, tuple[str, int]] = MappingProxyType(
    {"retention.hours": ("retention.ms", 3_600_000), "retention.minutes": ("retention.ms", 60_000)}
)
