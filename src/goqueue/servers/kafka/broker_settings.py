"""The node's own settings, as Kafka's administration tools ask for them.

Settings that mean what a Kafka setting means carry Kafka's name; the others carry ours.
They come from the node's file, variables and flags, so here they are read-only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from goqueue.config import Config, documented_settings
from goqueue.errors import InvalidRequest
from goqueue.metadata.setting_rules import ConfigType
from goqueue.metadata.topic_config import ConfigEntry, ConfigSource, ConfigSynonym
from goqueue.metadata.topic_settings import TOPIC_SETTINGS

KAFKA_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "broker.data_dir": "log.dirs",
        "broker.node_id": "node.id",
        "broker.auto_create_topics": "auto.create.topics.enable",
        "broker.default_partitions": "num.partitions",
        "broker.default_replication_factor": "default.replication.factor",
        "listeners.kafka": "listeners",
        "listeners.advertised_kafka": "advertised.listeners",
        "log.segment_bytes": "log.segment.bytes",
        "log.segment_ms": "log.roll.ms",
        "log.index_interval_bytes": "log.index.interval.bytes",
        "log.retention_ms": "log.retention.ms",
        "log.retention_bytes": "log.retention.bytes",
        "log.retention_check_ms": "log.retention.check.interval.ms",
        "log.max_message_bytes": "message.max.bytes",
        "log.producer_expiry_ms": "producer.id.expiration.ms",
        "log.tombstone_retention_ms": "log.cleaner.delete.retention.ms",
        "log.compaction_dirty_ratio": "log.cleaner.min.cleanable.ratio",
        "limits.connections_max": "max.connections",
        "limits.request_bytes_max": "socket.request.max.bytes",
        "limits.fetch_bytes_max": "fetch.max.bytes",
        "limits.idle_connection_ms": "connections.max.idle.ms",
        "groups.offsets_partitions": "offsets.topic.num.partitions",
        "groups.session_timeout_ms": "group.consumer.session.timeout.ms",
        "groups.session_timeout_ms_min": "group.min.session.timeout.ms",
        "groups.session_timeout_ms_max": "group.max.session.timeout.ms",
        "groups.heartbeat_interval_ms": "group.consumer.heartbeat.interval.ms",
        "groups.initial_rebalance_delay_ms": "group.initial.rebalance.delay.ms",
        "groups.members_max": "group.max.size",
        "groups.offset_metadata_bytes_max": "offset.metadata.max.bytes",
    }
)

_TYPES: Mapping[type, ConfigType] = MappingProxyType(
    {bool: ConfigType.BOOLEAN, int: ConfigType.LONG, float: ConfigType.DOUBLE}
)


def broker_entries(config: Config) -> list[ConfigEntry]:
    """Every setting of the node, by the name that an administrator knows."""
    entries = [
        _entry(f"{section}.{name}", getattr(getattr(config, section), name), default, doc)
        for section, name, default, _, doc in documented_settings()
    ]
    return sorted(entries, key=lambda entry: entry.name)


def refusal_of_change(names: Iterable[str]) -> InvalidRequest:
    """Why these settings of the node are not changed while it runs, and how to change the first of them."""
    listed = sorted(names)
    name = listed[0] if listed else "a setting"
    ours = {kafka: path for path, kafka in KAFKA_NAMES.items()}
    ours |= {path: path for path in (f"{section}.{one}" for section, one, *_ in documented_settings())}
    path = ours.get(name)
    if listed and path is None:
        return InvalidRequest(
            f"the node has no setting {name[:100]!r}", field=name, hint="describe the node to see all"
        )
    of_topic = next((row.name for row in TOPIC_SETTINGS.values() if path is not None and row.node_name == path), None)
    hint = f"set {path or 'it'} in the node's file and restart it"
    return InvalidRequest(
        f"{name} cannot be changed while the node runs",
        field=name if listed else "configs",
        hint=hint if of_topic is None else f"{hint}, or set {of_topic} for single topics, which needs no restart",
    )


def _entry(path: str, value: object, default: object, doc: str) -> ConfigEntry:
    name = KAFKA_NAMES.get(path, path)
    source = ConfigSource.DEFAULT if value == default else ConfigSource.BROKER_FILE
    synonyms = [ConfigSynonym(name, _text(default), ConfigSource.DEFAULT)]
    if value != default:
        synonyms.insert(0, ConfigSynonym(path, _text(value), source))
    return ConfigEntry(
        name=name,
        value=_text(value),
        type=_TYPES.get(type(value), ConfigType.STRING),
        source=source,
        doc=doc,
        allowed="",
        default=_text(default),
        read_only=True,
        synonyms=tuple(synonyms),
    )


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
