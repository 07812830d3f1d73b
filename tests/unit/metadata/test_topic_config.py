"""Topic settings: Kafka's names, named refusals, and rows for an administrator."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.config import DeliveryConfig, LogConfig
from goqueue.errors import InvalidConfig
from goqueue.log.settings import LogSettings
from goqueue.metadata.settings.rules import LONG_MAX, ConfigType
from goqueue.metadata.settings.topic_config import (
    ConfigSource,
    canonical_config,
    describe,
    log_settings,
    parse_topic_config,
    warnings_of,
)
from goqueue.metadata.settings.topic_settings import TOPIC_SETTINGS
from goqueue.records import TimestampType


def test_what_is_not_set_comes_from_the_node() -> None:
    config = parse_topic_config({}, LogConfig(retention_ms=5000, segment_bytes=2048))
    assert config.retention_ms == 5000
    assert config.segment_bytes == 2048
    assert config.is_deleted_by_age
    assert not config.is_compacted
    assert config.timestamp_type is TimestampType.CREATE_TIME
    assert config.partitioner == "murmur3"
    assert not config.syncs_every_batch


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("compression.type", "zstd"),
        ("compression.gzip.level", "9"),
        ("file.delete.delay.ms", "1000"),
        ("segment.index.bytes", "1024"),
        ("local.retention.bytes", "-1"),
        ("remote.storage.enable", "true"),
        ("follower.replication.throttled.replicas", "0:1,1:1"),
    ],
)
def test_a_setting_without_effect_is_taken_with_a_warning(name: str, value: str) -> None:
    parse_topic_config({name: value})
    (warning,) = warnings_of({name: value})
    assert f"{name!r} is {value!r} and has no effect: " in warning
    assert warnings_of({name: TOPIC_SETTINGS[name].default, "retention.ms": "5"}) == []


def test_without_a_cleanup_policy_records_are_kept() -> None:
    config = parse_topic_config({"cleanup.policy": ""})
    assert (config.is_compacted, config.is_deleted_by_age) == (False, False)


def test_the_compaction_lag_is_a_compacted_topics_own() -> None:
    given = {"max.compaction.lag.ms": "5000", "segment.jitter.ms": "20"}
    plain = log_settings(parse_topic_config(given), LogConfig())
    compacted = log_settings(parse_topic_config({**given, "cleanup.policy": "compact"}), LogConfig())
    assert plain.segment_ms_max(0) > 5000
    assert 4980 <= compacted.segment_ms_max(0) <= 5000


def test_segments_are_sealed_at_different_times_with_jitter() -> None:
    settings = LogSettings(segment_ms=1000, segment_jitter_ms=500)
    ages = {settings.segment_ms_max(base) for base in range(100)}
    assert len(ages) > 50
    assert 500 <= min(ages) < 600
    assert 900 < max(ages) <= 1000
    assert LogSettings(segment_ms=1000).segment_ms_max(7) == 1000


def test_every_setting_can_be_set() -> None:
    config = parse_topic_config(
        {
            "cleanup.policy": "compact,delete",
            "compression.type": "producer",
            "delete.retention.ms": "1",
            "flush.messages": "1",
            "flush.ms": "1000",
            "goqueue.partitioner": "murmur2",
            "index.interval.bytes": "2",
            "max.message.bytes": "3",
            "message.timestamp.after.max.ms": "4",
            "message.timestamp.before.max.ms": "5",
            "message.timestamp.type": "LogAppendTime",
            "min.cleanable.dirty.ratio": "0.25",
            "min.compaction.lag.ms": "6",
            "min.insync.replicas": "2",
            "preallocate": "false",
            "retention.bytes": "7",
            "retention.ms": "8",
            "segment.bytes": "1024",
            "segment.ms": "9",
            "unclean.leader.election.enable": "false",
        }
    )
    assert config.cleanup_policy == {"compact", "delete"}
    assert config.syncs_every_batch
    assert config.partitioner == "murmur2"
    assert config.max_message_bytes == 3
    assert (config.timestamp_after_max_ms, config.timestamp_before_max_ms) == (4, 5)
    assert config.stamps_records
    settings = log_settings(config, LogConfig(producer_window_batches=9))
    assert settings.cleanup_compact
    assert settings.cleanup_delete
    assert settings.tombstone_retention_ms == 1
    assert settings.index_interval_bytes == 2
    assert settings.compaction_dirty_ratio == 0.25
    assert settings.min_compaction_lag_ms == 6
    assert (settings.retention_bytes, settings.retention_ms) == (7, 8)
    assert (settings.segment_bytes, settings.segment_ms) == (1024, 9)
    assert settings.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert settings.producer_window_batches == 9


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("retention.ms", "-2"),
        ("retention.ms", "1.5"),
        ("retention.ms", ""),
        ("retention.ms", "1_000"),
        ("retention.ms", "١٢"),
        ("retention.ms", str(2**63)),
        ("retention.ms", "9" * 400),
        ("retention.bytes", "many"),
        ("segment.bytes", "1023"),
        ("segment.bytes", str(2**31)),
        ("segment.ms", "0"),
        ("cleanup.policy", "delete,shred"),
        ("cleanup.policy", "delete,"),
        ("cleanup.policy", "Delete"),
        ("compression.type", "brotli"),
        ("compression.gzip.level", "0"),
        ("compression.lz4.level", "18"),
        ("compression.zstd.level", "23"),
        ("file.delete.delay.ms", "-1"),
        ("leader.replication.throttled.replicas", "all"),
        ("local.retention.ms", "-3"),
        ("max.compaction.lag.ms", "0"),
        ("remote.storage.enable", "maybe"),
        ("segment.index.bytes", "3"),
        ("segment.jitter.ms", "-1"),
        ("max.message.bytes", "0"),
        ("min.insync.replicas", "0"),
        ("message.timestamp.type", "createtime"),
        ("min.cleanable.dirty.ratio", "1.1"),
        ("min.cleanable.dirty.ratio", "nan"),
        ("flush.messages", "2"),
        ("flush.ms", "10"),
        ("goqueue.partitioner", "md5"),
        ("preallocate", "true"),
        ("unclean.leader.election.enable", "maybe"),
    ],
)
def test_a_bad_value_is_refused_with_the_settings_name_and_what_is_allowed(name: str, bad: str) -> None:
    with pytest.raises(InvalidConfig) as refusal:
        parse_topic_config({name: bad})
    assert refusal.value.field == name
    assert name in str(refusal.value)
    assert TOPIC_SETTINGS[name].rule.allowed in str(refusal.value)
    assert refusal.value.hint


def test_a_setting_without_a_value_is_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"retention\.ms"):
        canonical_config({"retention.ms": None})


@pytest.mark.parametrize(
    ("name", "closest"),
    [("retention.m", "retention.ms"), ("cleanup_policy", "cleanup.policy"), ("max.message.byte", "max.message.bytes")],
)
def test_an_unknown_name_is_refused_and_the_closest_one_named(name: str, closest: str) -> None:
    with pytest.raises(InvalidConfig) as refusal:
        parse_topic_config({name: "1"})
    assert refusal.value.field == name
    assert closest in (refusal.value.hint or "")


def test_a_name_like_nothing_we_know_is_answered_with_the_list() -> None:
    with pytest.raises(InvalidConfig) as refusal:
        parse_topic_config({"Ω": "1"})
    assert "retention.ms" in (refusal.value.hint or "")


@pytest.mark.parametrize(
    ("name", "value", "expected_ms"),
    [("retention.hours", "3", "10800000"), ("retention.minutes", "3", "180000"), ("retention.hours", "-1", "-1")],
)
def test_retention_in_other_units_becomes_milliseconds(name: str, value: str, expected_ms: str) -> None:
    assert canonical_config({name: value}) == {"retention.ms": expected_ms}


def test_an_alias_that_overflows_is_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"retention\.hours"):
        canonical_config({"retention.hours": str(LONG_MAX)})


def test_a_setting_and_its_alias_exclude_each_other() -> None:
    with pytest.raises(InvalidConfig, match="twice"):
        canonical_config({"retention.ms": "1", "retention.hours": "1"})


def test_rows_say_where_each_value_comes_from() -> None:
    rows = {row.name: row for row in describe({"retention.ms": "5"}, LogConfig(segment_bytes=4096))}
    assert set(rows) == set(TOPIC_SETTINGS)
    own, node, default = rows["retention.ms"], rows["segment.bytes"], rows["segment.ms"]
    assert (own.value, own.source) == ("5", ConfigSource.TOPIC)
    assert [one.source for one in own.synonyms] == [ConfigSource.TOPIC, ConfigSource.DEFAULT]
    assert (node.value, node.source) == ("4096", ConfigSource.BROKER_FILE)
    assert node.default == str(64 * 1024 * 1024)
    assert default.source is ConfigSource.DEFAULT
    assert own.type is ConfigType.LONG
    assert node.type is ConfigType.INT
    assert rows["cleanup.policy"].type is ConfigType.LIST
    assert all(row.doc and row.allowed for row in rows.values())


def test_every_default_passes_its_own_rule() -> None:
    for row in describe({}):
        parse_topic_config({row.name: row.value})


@settings(deadline=None)
@given(st.dictionaries(st.one_of(st.sampled_from(sorted(TOPIC_SETTINGS)), st.text()), st.text(), max_size=3))
def test_whatever_is_sent_is_either_taken_or_refused_by_name(given_settings: dict[str, str]) -> None:
    refusal: InvalidConfig | None = None
    try:
        parse_topic_config(canonical_config(given_settings))
    except InvalidConfig as error:
        refusal = error
    assert refusal is None or refusal.field is not None


def test_a_delivery_setting_shows_the_number_in_force() -> None:
    node = DeliveryConfig(retries_max=7, backoff_multiplier=1.5)
    own = {"delivery.backoff.ms": "5", "delivery.visibility.timeout.ms": "node"}
    rows = {row.name: row for row in describe(own, LogConfig(), node)}
    shown = {name: (row.value, row.source) for name, row in rows.items() if row.name.startswith("delivery.")}
    assert shown == {
        "delivery.backoff.max.ms": ("60000", ConfigSource.DEFAULT),
        "delivery.backoff.ms": ("5", ConfigSource.TOPIC),
        "delivery.backoff.multiplier": ("1.5", ConfigSource.BROKER_FILE),
        "delivery.dead.letters": ("true", ConfigSource.DEFAULT),
        "delivery.max.retries": ("7", ConfigSource.BROKER_FILE),
        # Set to "node", it is the node's value like one that was never set.
        "delivery.visibility.timeout.ms": ("30000", ConfigSource.DEFAULT),
    }
    assert [one.name for one in rows["delivery.max.retries"].synonyms] == [
        "delivery.retries_max",
        "delivery.max.retries",
    ]
