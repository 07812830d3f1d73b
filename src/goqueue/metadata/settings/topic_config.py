"""A topic's settings, checked and typed, and how they are shown to an administrator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from goqueue.config import DeliveryConfig, LogConfig
from goqueue.errors import InvalidConfig
from goqueue.metadata.settings.rules import LONG_MAX, ConfigType
from goqueue.metadata.settings.topic_setting import TopicSetting
from goqueue.metadata.settings.topic_settings import ALIASES, TOPIC_SETTINGS
from goqueue.records import TimestampType

if TYPE_CHECKING:
    from goqueue.log.settings import LogSettings

_STANDARD = LogConfig()
_STANDARD_DELIVERY = DeliveryConfig()


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """What a topic obeys: its own settings over the node's defaults."""

    cleanup_policy: frozenset[str]
    compression_type: str
    tombstone_retention_ms: int
    delivery_backoff_ms_max: int | None
    delivery_backoff_ms: int | None
    delivery_backoff_multiplier: float | None
    delivery_dead_letters: bool
    delivery_retries_max: int | None
    delivery_visibility_ms: int | None
    flush_messages: int
    flush_ms: int
    dedup_window_ms: int
    lane_weights: tuple[int, int, int, int, int]
    partitioner: str
    priority_headers: bool
    delay_headers: bool
    schema_validation: str
    schema_key_validation: str
    schema_subjects: str
    schema_missing: str
    schema_invalid: str
    confluent_value_validation: bool
    confluent_key_validation: bool
    strict_priority: bool
    index_interval_bytes: int
    max_message_bytes: int
    timestamp_after_max_ms: int
    timestamp_before_max_ms: int
    timestamp_type: TimestampType
    message_ttl_ms: int
    max_compaction_lag_ms: int
    compaction_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    preallocate: str
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_jitter_ms: int
    segment_ms: int
    trace_enabled: bool | None
    trace_index: bool
    trace_sample_rate: float | None
    unclean_leader_election: str

    @property
    def is_compacted(self) -> bool:
        """Whether only the newest record of each key is kept."""
        return "compact" in self.cleanup_policy

    @property
    def is_deleted_by_age(self) -> bool:
        """Whether whole old segments go."""
        return "delete" in self.cleanup_policy

    @property
    def stamps_records(self) -> bool:
        """Whether the broker's clock replaces the producer's."""
        return self.timestamp_type is TimestampType.LOG_APPEND_TIME

    @property
    def syncs_every_batch(self) -> bool:
        """Whether even acks=leader waits for the disk."""
        return self.flush_messages == 1


class ConfigSource(IntEnum):
    """Where a value comes from. Values are Kafka's."""

    TOPIC = 1
    ALTERED_BROKER = 2
    ALTERED_DEFAULT = 3
    BROKER_FILE = 4
    DEFAULT = 5
    GROUP = 8


class ConfigSynonym(msgspec.Struct, frozen=True):
    """One place that gives the setting a value, nearest first."""

    name: str
    value: str
    source: ConfigSource


class ConfigEntry(msgspec.Struct, frozen=True):
    """One setting as an administrator sees it."""

    name: str
    value: str
    type: ConfigType
    source: ConfigSource
    doc: str
    allowed: str
    default: str
    read_only: bool = False
    sensitive: bool = False
    synonyms: tuple[ConfigSynonym, ...] = ()


def canonical_name(name: str) -> str:
    """The setting that a name or its alias stands for, or InvalidConfig naming the closest."""
    if name in ALIASES:
        return ALIASES[name][0]
    if name not in TOPIC_SETTINGS:
        close = get_close_matches(name, [*TOPIC_SETTINGS, *ALIASES], n=1, cutoff=0.5)
        hint = f"did you mean {close[0]!r}?" if close else f"the settings are {', '.join(TOPIC_SETTINGS)}"
        raise InvalidConfig(f"there is no topic setting {name[:100]!r}", field=name[:100], hint=hint)
    return name


def canonical_config(given: Mapping[str, str | None]) -> dict[str, str]:
    """Settings under their own names, every value checked; aliases are turned into what they mean."""
    settings: dict[str, str] = {}
    for name, text in given.items():
        setting = TOPIC_SETTINGS[canonical_name(name)]
        if setting.name in settings:
            raise InvalidConfig(f"setting {setting.name!r} is given twice", field=setting.name)
        if text is None:
            raise _refused(setting, name, text, "it has no value")
        plain = text.strip()
        if name in ALIASES:
            plain = _in_milliseconds(setting, name, plain)
        _parse(setting, name, plain)
        settings[setting.name] = plain
    return settings


def parse_topic_config(given: Mapping[str, str], log: LogConfig = _STANDARD) -> TopicConfig:
    """Typed settings; what is not given comes from the node."""
    settings = canonical_config(given)
    values: dict[str, Any] = {}
    for row in TOPIC_SETTINGS.values():
        if row.field is None:
            continue
        text = settings.get(row.name)
        values[row.field] = _parse(row, row.name, row.default_text(log) if text is None else text)
    return TopicConfig(**values)


def describe(
    given: Mapping[str, str],
    log: LogConfig = _STANDARD,
    delivery: DeliveryConfig = _STANDARD_DELIVERY,
    altered: Mapping[str, str] = MappingProxyType({}),
) -> list[ConfigEntry]:
    """Every setting with the value in force and where that came from, by name.

    `altered` holds the broker's defaults that were changed at run time, by the broker's names.
    """
    return [
        _entry(row, given.get(row.name), log, delivery, altered.get(row.node_name or ""))
        for row in TOPIC_SETTINGS.values()
    ]


def warnings_of(given: Mapping[str, str | None]) -> list[str]:
    """What is to be said about settings that are taken and change nothing."""
    warnings = []
    for name, text in given.items():
        row = TOPIC_SETTINGS.get(name)
        if row is not None and row.no_effect is not None and text is not None and text.strip() != row.default:
            warnings.append(f"setting {name!r} is {text.strip()[:100]!r} and has no effect: {row.no_effect}")
    return warnings


def log_settings(config: TopicConfig, log: LogConfig) -> LogSettings:
    """The part of the settings that the log itself obeys."""
    from goqueue.log.settings import LogSettings

    return LogSettings(
        segment_bytes=config.segment_bytes,
        segment_ms=config.segment_ms,
        index_interval_bytes=config.index_interval_bytes,
        retention_ms=config.retention_ms,
        retention_bytes=config.retention_bytes,
        max_message_bytes=config.max_message_bytes,
        cleanup_delete=config.is_deleted_by_age,
        cleanup_compact=config.is_compacted,
        timestamp_type=config.timestamp_type,
        tombstone_retention_ms=config.tombstone_retention_ms,
        compaction_dirty_ratio=config.compaction_dirty_ratio,
        min_compaction_lag_ms=config.min_compaction_lag_ms,
        max_compaction_lag_ms=config.max_compaction_lag_ms if config.is_compacted else LONG_MAX,
        segment_jitter_ms=min(config.segment_jitter_ms, config.segment_ms - 1),
        producer_window_batches=log.producer_window_batches,
        producer_expiry_ms=log.producer_expiry_ms,
    )


def _parse(setting: TopicSetting, name: str, text: str) -> Any:
    try:
        return setting.rule.parse(text)
    except ValueError as error:
        raise _refused(setting, name, text, str(error)) from None


def _refused(setting: TopicSetting, name: str, text: str | None, why: str) -> InvalidConfig:
    shown = "nothing" if text is None else repr(text[:100])
    return InvalidConfig(
        f"setting {name!r} cannot be {shown}: {why}; allowed is {setting.rule.allowed}",
        field=name,
        hint=f"use {setting.rule.allowed}",
    )


def _in_milliseconds(setting: TopicSetting, name: str, text: str) -> str:
    number = int(_parse(setting, name, text))
    return str(number if number < 0 else number * ALIASES[name][1])


def _entry(
    row: TopicSetting, own: str | None, log: LogConfig, delivery: DeliveryConfig, altered: str | None
) -> ConfigEntry:
    node_text, standard_text = row.text_in_force(log, delivery), row.text_in_force(_STANDARD, _STANDARD_DELIVERY)
    synonyms = [ConfigSynonym(row.name, standard_text, ConfigSource.DEFAULT)]
    if node_text != standard_text:
        synonyms.insert(0, ConfigSynonym(row.node_name or row.name, node_text, ConfigSource.BROKER_FILE))
    if altered is not None:
        synonyms.insert(0, ConfigSynonym(row.node_name or row.name, altered, ConfigSource.ALTERED_DEFAULT))
    if own is not None and row.is_own(own):
        synonyms.insert(0, ConfigSynonym(row.name, own, ConfigSource.TOPIC))
    nearest = synonyms[0]
    return ConfigEntry(
        name=row.name,
        value=nearest.value,
        type=row.rule.type,
        source=nearest.source,
        doc=row.doc,
        allowed=row.rule.allowed,
        default=standard_text,
        synonyms=tuple(synonyms),
    )


def _check_table() -> None:
    """A row without a field, or a field without a row, is our own mistake: found at import."""
    rows = {row.field for row in TOPIC_SETTINGS.values() if row.field is not None}
    places = {one.name for one in fields(TopicConfig)}
    if rows != places:
        raise RuntimeError(f"settings and TopicConfig disagree about {sorted(rows ^ places)}")


_check_table()
