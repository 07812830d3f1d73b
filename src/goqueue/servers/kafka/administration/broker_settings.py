"""The node's own settings, as Kafka's administration tools ask for them.

Settings that mean what a Kafka setting means carry Kafka's name; the others carry ours.
Those that are defaults of topic settings can be altered while the broker runs. The others
come from the broker's file, variables and flags, and are read-only here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from goqueue.config import Config, documented_settings
from goqueue.errors import InvalidRequest
from goqueue.metadata.settings.broker_defaults import ALTERABLE, checked
from goqueue.metadata.settings.rules import ConfigType
from goqueue.metadata.settings.topic_config import ConfigEntry, ConfigSource, ConfigSynonym

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

# Settings of Kafka that tools take away without asking whether they are there: kafka-reassign-partitions does when a
# reassignment has ended. Nothing sets them here.
_NEVER_SET = frozenset(
    {
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
)

_TYPES: Mapping[type, ConfigType] = MappingProxyType(
    {bool: ConfigType.BOOLEAN, int: ConfigType.LONG, float: ConfigType.DOUBLE}
)


def broker_entries(
    config: Config,
    altered: Mapping[str, str] = MappingProxyType({}),
    source: ConfigSource = ConfigSource.ALTERED_DEFAULT,
) -> list[ConfigEntry]:
    """Every setting of the node, by the name that an administrator knows; `source` is that of the altered ones."""
    entries = []
    for section, name, default, _, doc in documented_settings():
        path = f"{section}.{name}"
        text = altered.get(path)
        over = None if text is None else ConfigSynonym(KAFKA_NAMES.get(path, path), text, source)
        entries.append(_entry(path, getattr(getattr(config, section), name), default, doc, over))
    return sorted(entries, key=lambda entry: entry.name)


def alterable(changes: Mapping[str, str | None]) -> dict[str, str | None]:
    """Changes of broker settings under the broker's own names; raises for those that need a restart."""
    ours = {kafka: path for path, kafka in KAFKA_NAMES.items()}
    ours |= {path: path for path in (f"{section}.{one}" for section, one, *_ in documented_settings())}
    named: dict[str, str | None] = {}
    for name, text in changes.items():
        if text is None and name in _NEVER_SET:
            continue
        path = ours.get(name)
        if path is None:
            raise InvalidRequest(
                f"the broker has no setting {name[:100]!r}", field=name[:100], hint="describe the broker to see all"
            )
        if path not in ALTERABLE:
            raise InvalidRequest(
                f"{name} cannot be altered while the broker runs",
                field=name,
                hint=f"set {path} in the broker's file and restart it",
            )
        named[path] = None if text is None else checked(path, text, field=name)
    return named


def _entry(path: str, value: object, default: object, doc: str, altered: ConfigSynonym | None) -> ConfigEntry:
    name = KAFKA_NAMES.get(path, path)
    source = ConfigSource.DEFAULT if value == default else ConfigSource.BROKER_FILE
    synonyms = [ConfigSynonym(name, _text(default), ConfigSource.DEFAULT)]
    if value != default:
        synonyms.insert(0, ConfigSynonym(path, _text(value), source))
    if altered is not None:
        source = altered.source
        synonyms.insert(0, altered)
    return ConfigEntry(
        name=name,
        value=synonyms[0].value,
        type=_TYPES.get(type(value), ConfigType.STRING),
        source=source,
        doc=doc,
        allowed="",
        default=_text(default),
        read_only=path not in ALTERABLE,
        synonyms=tuple(synonyms),
    )


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
