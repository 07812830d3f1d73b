"""StoredSettings: what was set for groups, in the metadata.

They belong to a name, as Kafka's group settings do, so any node can change them, and every leader of a partition reads
them without a call. What a group is (stream or queue, sharing, incarnation) stays with its coordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from goqueue.errors import GuardFailed, TooBusy
from goqueue.metadata.events import Event, FeatureFinalised, GroupSettings, GroupSettingsChanged
from goqueue.metadata.features import GROUP_SETTINGS_LEVEL, METADATA_VERSION, is_agreed
from goqueue.metadata.keys import feature_key, group_settings_key
from goqueue.metadata.store import Guard, MetadataStore

NOTHING_SET = GroupSettings()

# Whoever is refused by a guard was overtaken by a change that succeeded.
_ATTEMPTS_MAX = 100


class StoredSettings:
    """Settings of groups, by name. A group for which nothing was ever set has none."""

    def __init__(self, metadata: MetadataStore) -> None:
        self._metadata = metadata

    @property
    def are_available(self) -> bool:
        """Whether settings may be stored: not while a node is registered that would not understand them."""
        return self._is_final or is_agreed(
            METADATA_VERSION, GROUP_SETTINGS_LEVEL, self._metadata.image.nodes().values()
        )

    def of(self, group: str) -> GroupSettings | None:
        """What was set for a group."""
        return self._metadata.image.group_settings.get(group)

    async def change(
        self, group: str, changed: Callable[[GroupSettings], GroupSettings | None], guards: Sequence[Guard] = ()
    ) -> GroupSettings:
        """Store what `changed` makes of the settings; None removes them. Returns the settings from now on.

        `changed` is asked again when another change comes first. Whose `guards` fail gets `GuardFailed`.
        """
        key = group_settings_key(group)
        own_keys = {key, feature_key(METADATA_VERSION)}
        for _ in range(_ATTEMPTS_MAX):
            image = self._metadata.image
            held = image.group_settings.get(group)
            after = changed(held or NOTHING_SET)
            if after == held or (held is None and after == NOTHING_SET):
                return after or NOTHING_SET
            events: list[Event] = [GroupSettingsChanged(group, after)]
            if not self._is_final and self.are_available:
                # A broker on its own has no controller that would do it. Where a node does not agree, this is refused.
                events.insert(0, FeatureFinalised(METADATA_VERSION, GROUP_SETTINGS_LEVEL))
            fences = [Guard(one, image.revision_of(one)) for one in sorted(own_keys)]
            try:
                await self._metadata.commit(events, [*fences, *guards])
            except GuardFailed:
                if any(image.revision_of(guard.key) != guard.revision for guard in guards):
                    raise
                continue
            return after or NOTHING_SET
        raise TooBusy(f"settings of group {group!r} changed {_ATTEMPTS_MAX} times meanwhile; nothing was changed")

    async def forget(self, group: str) -> None:
        """The group is deleted, and its settings with it."""
        if self.of(group) is not None:
            await self.change(group, lambda _held: None)

    @property
    def _is_final(self) -> bool:
        return self._metadata.image.feature_levels().get(METADATA_VERSION, 0) >= GROUP_SETTINGS_LEVEL
