"""Defaults of topic settings that an administrator changes while the broker runs.

They lie between a topic's own settings and the broker's file: a topic that sets nothing follows
them from the next batch or the next round of retention on. Names are the broker's, `log.retention_ms`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from goqueue.config import LogConfig
from goqueue.errors import InvalidConfig
from goqueue.metadata.settings.topic_setting import TopicSetting
from goqueue.metadata.settings.topic_settings import TOPIC_SETTINGS

# The settings that can be altered, each with the topic setting whose default it is.
ALTERABLE: Mapping[str, TopicSetting] = MappingProxyType(
    {f"log.{row.broker_field}": row for row in TOPIC_SETTINGS.values() if row.broker_field is not None}
)


def checked(name: str, text: str, *, field: str | None = None) -> str:
    """The value without spaces around it, or InvalidConfig; `field` is the name that the caller used."""
    shown = field or name
    row = ALTERABLE.get(name)
    if row is None:
        raise InvalidConfig(f"broker setting {shown!r} cannot be altered while the broker runs", field=shown)
    plain = text.strip()
    try:
        row.rule.parse(plain)
    except ValueError as error:
        raise InvalidConfig(
            f"broker setting {shown!r} cannot be {plain[:100]!r}: {error}; allowed is {row.rule.allowed}",
            field=shown,
            hint=f"use {row.rule.allowed}",
        ) from None
    return plain


def with_defaults(log: LogConfig, defaults: Mapping[str, str]) -> LogConfig:
    """The broker's settings of logs with what was altered since it started."""
    changed: dict[str, Any] = {}
    for name, text in defaults.items():
        row = ALTERABLE.get(name)
        # A name that only a later version knows has no effect here; it is kept.
        if row is not None and row.broker_field is not None:
            changed[row.broker_field] = row.rule.parse(text)
    return replace(log, **changed) if changed else log
