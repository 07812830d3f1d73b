"""Settings of a group that hold in either mode: how long a session of the consumer protocol lasts, and the like.

They may be set before the group is first used, so they make no group: what is only set is neither
listed nor described, and its first use decides whether it is a stream or a queue. They are forgotten
when the group is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from goqueue.config import GroupsConfig
from goqueue.errors import InvalidConfig
from goqueue.groups.group_table import GroupTable
from goqueue.groups.records import SettingsRecord
from goqueue.metadata.events import GroupSettings

# Kafka's names: they are the ones that an administrator uses, so refusals name them too.
SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"
ISOLATION = "share.isolation.level"
READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"

NO_SETTINGS = SettingsRecord()


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a session of a group lasts, and how often its members are told to send a heartbeat."""

    config: GroupsConfig
    table: GroupTable
    # What the metadata has; None: nothing was ever set there.
    stored: Callable[[str], GroupSettings | None]

    def session_ms(self, group_id: str) -> int:
        """The group's own, within the node's bounds: those may have changed since it was set."""
        own_ms = self._settings(group_id).session_timeout_ms
        if not own_ms:
            return self.config.session_timeout_ms
        return min(max(own_ms, self.config.session_timeout_ms_min), self.config.session_timeout_ms_max)

    def heartbeat_ms(self, group_id: str) -> int:
        """The group's own; shorter if a changed bound or default of the node left no room within the session."""
        interval_ms = self._settings(group_id).heartbeat_interval_ms or self.config.heartbeat_interval_ms
        session_ms = self.session_ms(group_id)
        return interval_ms if interval_ms < session_ms else max(1, session_ms // 3)

    def _settings(self, group_id: str) -> SettingsRecord | GroupSettings:
        stored = self.stored(group_id)
        if stored is not None:
            return stored
        entry = self.table.get(group_id)
        return NO_SETTINGS if entry is None or entry.settings is None else entry.settings


def altered_settings(
    config: GroupsConfig, before: SettingsRecord | None, changes: Mapping[str, str | None]
) -> SettingsRecord:
    """The settings with these changes, by Kafka's names and as text; None takes one back."""
    before = before or NO_SETTINGS
    session_ms, interval_ms, isolation = before.session_timeout_ms, before.heartbeat_interval_ms, before.isolation
    for name, text in changes.items():
        if name == SESSION:
            session_ms = _number(name, text, config.session_timeout_ms_min, config.session_timeout_ms_max)
        elif name == HEARTBEAT:
            interval_ms = _number(name, text, 1, config.session_timeout_ms_max)
        elif name == ISOLATION:
            isolation = _isolation(text)
        else:
            raise InvalidConfig(f"a group has no setting {name!r}", field=name)
    if SESSION in changes or HEARTBEAT in changes:
        _check_room(session_ms or config.session_timeout_ms, interval_ms or config.heartbeat_interval_ms, changes)
    return SettingsRecord(session_ms, interval_ms, isolation)


def _check_room(session_ms: int, interval_ms: int, changes: Mapping[str, str | None]) -> None:
    if interval_ms >= session_ms:
        raise InvalidConfig(
            f"{HEARTBEAT} is {interval_ms} and {SESSION} is {session_ms}: the heartbeat must be the shorter one",
            field=SESSION if SESSION in changes else HEARTBEAT,
            hint=f"set {HEARTBEAT} to a third of {SESSION}, in the same request",
        )


def _number(name: str, text: str | None, least: int, most: int) -> int:
    if text is None:
        return 0
    if not text.isascii() or not text.isdigit() or len(text) > 12 or not least <= int(text) <= most:
        raise InvalidConfig(f"{name} is {text[:40]!r}", field=name, hint=f"use {least} to {most}")
    return int(text)


def _isolation(text: str | None) -> str:
    if text not in {READ_COMMITTED, READ_UNCOMMITTED, None}:
        raise InvalidConfig(
            f"{ISOLATION} is {text!r}", field=ISOLATION, hint=f"use {READ_COMMITTED} or {READ_UNCOMMITTED}"
        )
    return text or ""
