"""Settings of groups as Kafka's administrators know them: what members are told, and how a share group delivers.

Settings belong to a name and make no group: they wait for its first use, in whichever protocol. How a share group
delivers is refused for a group that is known to be a stream.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType

from goqueue.errors import InvalidConfig
from goqueue.groups.records import PolicyValue
from goqueue.groups.settings.own_settings import HEARTBEAT, ISOLATION, READ_COMMITTED, READ_UNCOMMITTED, SESSION
from goqueue.metadata.settings.rules import ConfigType
from goqueue.metadata.settings.topic_config import ConfigEntry, ConfigSource, ConfigSynonym
from goqueue.servers.kafka.api import Context

START = "share.auto.offset.reset"
LOCK = "share.record.lock.duration.ms"
ATTEMPTS = "share.delivery.count.limit"

_ALWAYS_COMMITTED = "share groups get records of committed transactions alone"
_log = logging.getLogger(__name__)
_LOCK_MS_MAX = 12 * 3600 * 1000
_ATTEMPTS_MAX = 1_000_000
_DOCS: Mapping[str, str] = MappingProxyType(
    {
        HEARTBEAT: "Time between two heartbeats of a member of the consumer protocol.",
        SESSION: "Silence after which a member of the consumer protocol is gone; a new value holds from its "
        "next heartbeat on.",
        START: "Where the group begins in a partition that is new to it.",
        LOCK: "How long a message is locked for the consumer that has it.",
        ATTEMPTS: "Deliveries of a message, after the last of which it is a dead letter.",
        ISOLATION: "Which records the group gets. Stored and shown, without effect: the group gets those of "
        "committed transactions alone.",
    }
)


async def group_config(context: Context, group: str) -> list[ConfigEntry]:
    """All settings of a group; those of a share group are told for groups that are none too, as they would be."""
    services = context.services
    settings = await services.groups.settings(group)
    delivery, groups, policy = services.config.delivery, services.config.groups, settings.policy
    retries = policy.get("retries_max")
    return [
        _entry(
            HEARTBEAT,
            settings.heartbeat_interval_ms,
            groups.heartbeat_interval_ms,
            is_own=bool(settings.heartbeat_interval_ms),
        ),
        _entry(
            SESSION,
            settings.session_timeout_ms,
            groups.session_timeout_ms,
            is_own=bool(settings.session_timeout_ms),
        ),
        _entry(START, settings.start, "earliest", is_own=bool(settings.start)),
        _entry(LOCK, policy.get("visibility_ms"), delivery.visibility_ms, is_own="visibility_ms" in policy),
        _entry(
            ATTEMPTS,
            retries + 1 if isinstance(retries, int) else None,
            delivery.retries_max + 1,
            is_own=isinstance(retries, int),
        ),
        _entry(ISOLATION, settings.isolation, READ_COMMITTED, is_own=bool(settings.isolation)),
    ]


async def alter_group_config(
    context: Context, group: str, changes: Mapping[str, str | None], *, validate_only: bool
) -> None:
    """Change settings of a group; None puts one back to its default. All are checked before one is changed."""
    groups = context.services.groups
    own = {name: text for name, text in changes.items() if name in {HEARTBEAT, SESSION, ISOLATION}}
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
        elif name not in own:
            raise InvalidConfig(
                f"a group has no setting {name!r} to change", field=name, hint=f"use {', '.join(_DOCS)}"
            )
    await groups.alter_settings(group, own, delivery=wanted, validate_only=validate_only)
    if validate_only:
        return
    if wanted:
        await context.services.delivery.govern(group)
    if own.get(ISOLATION) == READ_UNCOMMITTED:
        _log.warning(
            "group %s: setting %r is %r and has no effect: %s", group, ISOLATION, READ_UNCOMMITTED, _ALWAYS_COMMITTED
        )


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
        type=ConfigType.STRING if name in {START, ISOLATION} else ConfigType.INT,
        source=source,
        doc=_DOCS[name],
        allowed="",
        default=str(default),
        read_only=False,
        synonyms=tuple(synonyms),
    )
