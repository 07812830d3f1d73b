"""Settings of groups as Kafka's administrators know them: what members are told, and how a share group delivers.

A share group's own settings are those of its queue. Naming one for a group that does not exist yet
is that group's first use: it is a share group from then on.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from goqueue.errors import GroupModeMismatch, GroupNotFound, InvalidConfig
from goqueue.groups.queue_settings import QueueSettings, Sharing
from goqueue.groups.records import PolicyValue
from goqueue.metadata.setting_rules import ConfigType
from goqueue.metadata.topic_config import ConfigEntry, ConfigSource, ConfigSynonym
from goqueue.servers.kafka.api import Context
from goqueue.servers.kafka.broker_settings import group_entries

START = "share.auto.offset.reset"
LOCK = "share.record.lock.duration.ms"
ATTEMPTS = "share.delivery.count.limit"

_LOCK_MS_MAX = 12 * 3600 * 1000
_ATTEMPTS_MAX = 1_000_000
_DOCS: Mapping[str, str] = MappingProxyType(
    {
        START: "Where the group begins in a partition that is new to it.",
        LOCK: "How long a message is locked for the consumer that has it.",
        ATTEMPTS: "Deliveries of a message, after the last of which it is a dead letter.",
    }
)


async def group_config(context: Context, group: str) -> list[ConfigEntry]:
    """All settings of a group; those of a share group are told for groups that are none too, as they would be."""
    services = context.services
    try:
        settings = await services.groups.queue_settings(group)
    except (GroupNotFound, GroupModeMismatch):
        settings = QueueSettings()
    delivery, policy = services.config.delivery, settings.policy
    retries = policy.get("retries_max")
    return [
        *group_entries(services.config),
        _entry(START, settings.start, "earliest", is_own=bool(settings.start)),
        _entry(LOCK, policy.get("visibility_ms"), delivery.visibility_ms, is_own="visibility_ms" in policy),
        _entry(
            ATTEMPTS,
            retries + 1 if isinstance(retries, int) else None,
            delivery.retries_max + 1,
            is_own=isinstance(retries, int),
        ),
    ]


async def alter_group_config(
    context: Context, group: str, changes: Mapping[str, str | None], *, validate_only: bool
) -> None:
    """Change settings of a share group; None puts one back to its default."""
    wanted: dict[str, PolicyValue | None] = {}
    for name, text in changes.items():
        if name == START:
            if text not in {"earliest", "latest", None}:
                raise InvalidConfig(f"{START} is {text!r}", field=START, hint="use earliest or latest")
            wanted["start"] = text
        elif name == LOCK:
            wanted["visibility_ms"] = _number(name, text, 0, _LOCK_MS_MAX)
        elif name == ATTEMPTS:
            attempts = _number(name, text, 1, _ATTEMPTS_MAX)
            wanted["retries_max"] = None if attempts is None else attempts - 1
        else:
            raise InvalidConfig(
                f"a group has no setting {name!r} to change", field=name, hint=f"use {', '.join(_DOCS)}"
            )
    if not validate_only and wanted:
        await context.services.groups.ensure_queue(group, sharing=Sharing.SHARED)
        await context.services.groups.alter_queue(group, wanted)


def _number(name: str, text: str | None, least: int, most: int) -> int | None:
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 12 or not least <= int(text) <= most:
        raise InvalidConfig(f"{name} is {text[:40]!r}", field=name, hint=f"use {least} to {most}")
    return int(text)


def _entry(name: str, value: object, default: object, *, is_own: bool) -> ConfigEntry:
    shown = str(value if is_own else default)
    source = ConfigSource.GROUP if is_own else ConfigSource.DEFAULT
    synonyms = [ConfigSynonym(name, str(default), ConfigSource.DEFAULT)]
    if is_own:
        synonyms.insert(0, ConfigSynonym(name, shown, source))
    return ConfigEntry(
        name=name,
        value=shown,
        type=ConfigType.STRING if name == START else ConfigType.INT,
        source=source,
        doc=_DOCS[name],
        allowed="",
        default=str(default),
        read_only=False,
        synonyms=tuple(synonyms),
    )
