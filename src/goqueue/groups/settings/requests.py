"""Requests about settings of groups: read and changed in the metadata.

While a node is registered that does not understand settings there, they are records of the group's coordinator, as
they were before; then only the coordinator answers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

from msgspec import structs

from goqueue.config import GroupsConfig
from goqueue.errors import GroupModeMismatch, NotCoordinator
from goqueue.groups.commands import AlterQueue, AlterSettings, AskMode, AskSettings, UseQueue
from goqueue.groups.queue.settings import AsQueue, Mode, QueueSettings, Sharing, altered_delivery
from goqueue.groups.records import PolicyValue, SettingsRecord
from goqueue.groups.settings.former_settings import FormerSettings
from goqueue.groups.settings.own_settings import altered_settings
from goqueue.groups.settings.stored_settings import NOTHING_SET, StoredSettings
from goqueue.metadata.events import GroupSettings

# What a group is, not how it delivers: the coordinator's affair.
_KIND = frozenset({"sharing", "key_ordered"})

# (group, command): asks the group's coordinator, which must be this node.
Submit = Callable[[str, object], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class SettingsRequests:
    """Who asks for settings of a group, or changes them, comes here."""

    config: GroupsConfig
    stored: StoredSettings
    former: FormerSettings

    def over(self, group: str, settings: QueueSettings) -> QueueSettings:
        """A queue group as its coordinator knows it, with what was set for it."""
        stored = self.stored.of(group)
        if stored is None:
            return settings
        return structs.replace(settings, policy=stored.policy, start=stored.start)

    async def of(self, group: str, submit: Submit) -> GroupSettings:
        """What was set for a group, whether it is there or not."""
        stored = self.stored.of(group)
        if stored is not None:
            return stored
        try:
            return cast("GroupSettings", await submit(group, AskSettings(group)))
        except NotCoordinator:
            if not self.stored.are_available:
                raise
            return NOTHING_SET

    async def alter(
        self,
        group: str,
        own: Mapping[str, str | None],
        delivery: Mapping[str, PolicyValue | None],
        submit: Submit,
        *,
        validate_only: bool,
    ) -> None:
        """Change settings by Kafka's names, and how the group delivers; all are checked before one is changed."""
        if not self.stored.are_available:
            await self._alter_former(group, own, delivery, submit, validate_only=validate_only)
            return
        with suppress(NotCoordinator):
            # Elsewhere it is not known what the group is; a stream group has no use for the settings.
            if delivery and await submit(group, AskMode(group)) is Mode.STREAM:
                raise GroupModeMismatch(group, Mode.STREAM)
        altered_own(self.config, await self.of(group, submit), own)
        if validate_only:
            return
        await self._moved(group)
        await self.stored.change(group, lambda held: with_delivery(altered_own(self.config, held, own), delivery))

    async def alter_queue(self, group: str, changes: Mapping[str, PolicyValue | None], submit: Submit) -> QueueSettings:
        """Change a queue group: what it is, at its coordinator, and how it delivers."""
        if not self.stored.are_available:
            return cast("QueueSettings", await submit(group, AlterQueue(group, changes)))
        kind = {name: value for name, value in changes.items() if name in _KIND}
        delivery = {name: value for name, value in changes.items() if name not in _KIND}
        with_delivery(self.stored.of(group) or NOTHING_SET, delivery)
        queue = cast("QueueSettings", await submit(group, AlterQueue(group, kind)))
        if delivery:
            await self._moved(group)
            await self.stored.change(group, lambda held: with_delivery(held, delivery))
        return queue

    async def _moved(self, group: str) -> None:
        with suppress(NotCoordinator):
            await self.former.move(group)

    async def _alter_former(
        self,
        group: str,
        own: Mapping[str, str | None],
        delivery: Mapping[str, PolicyValue | None],
        submit: Submit,
        *,
        validate_only: bool,
    ) -> None:
        await submit(group, AlterSettings(group, own, validate_only=True))
        if validate_only:
            return
        if delivery:
            # Records of the coordinator are those of a group that is there.
            await submit(group, UseQueue(group, AsQueue(Sharing.SHARED)))
            await submit(group, AlterQueue(group, delivery))
        if own:
            await submit(group, AlterSettings(group, own))


def altered_own(config: GroupsConfig, held: GroupSettings, changes: Mapping[str, str | None]) -> GroupSettings:
    """The settings with those changed that hold in either mode."""
    before = SettingsRecord(held.session_timeout_ms, held.heartbeat_interval_ms, held.isolation)
    after = altered_settings(config, before, changes)
    return structs.replace(
        held,
        session_timeout_ms=after.session_timeout_ms,
        heartbeat_interval_ms=after.heartbeat_interval_ms,
        isolation=after.isolation,
    )


def with_delivery(held: GroupSettings, changes: Mapping[str, PolicyValue | None]) -> GroupSettings:
    """The settings with those changed that say how a queue group delivers."""
    policy, start = altered_delivery(held.policy, held.start, changes)
    return structs.replace(held, policy=policy, start=start)
