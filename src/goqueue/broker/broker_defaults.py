"""BrokerDefaults: settings of the broker that an administrator alters without a restart."""

from __future__ import annotations

from collections.abc import Mapping

from goqueue.errors import GuardFailed, TooBusy
from goqueue.metadata.events import BrokerDefaultsChanged, Event, FeatureFinalised
from goqueue.metadata.features import BROKER_DEFAULTS_LEVEL, METADATA_VERSION, is_agreed
from goqueue.metadata.keys import BROKER_DEFAULTS, feature_key
from goqueue.metadata.settings.broker_defaults import checked
from goqueue.metadata.store import Guard, MetadataStore

# Whoever is refused by a guard was overtaken by a change that succeeded.
ATTEMPTS_MAX = 100


class BrokerDefaults:
    """What topics without settings of their own follow, over the broker's file."""

    def __init__(self, metadata: MetadataStore) -> None:
        self._metadata = metadata

    def altered(self) -> Mapping[str, str]:
        """The settings that were altered, by the broker's names."""
        return self._metadata.image.broker_defaults

    async def alter(
        self, changes: Mapping[str, str | None], *, replace: bool = False, validate_only: bool = False
    ) -> None:
        """Set settings, or with None put them back to the file's value; `replace` drops all that is not named."""
        given = {name: checked(name, text) for name, text in changes.items() if text is not None}
        if validate_only:
            return
        for _ in range(ATTEMPTS_MAX):
            image = self._metadata.image
            defaults = {} if replace else dict(image.broker_defaults)
            for name in changes:
                defaults.pop(name, None)
            defaults |= given
            if defaults == image.broker_defaults:
                return
            events: list[Event] = [BrokerDefaultsChanged(defaults)]
            is_final = image.feature_levels().get(METADATA_VERSION, 0) >= BROKER_DEFAULTS_LEVEL
            if not is_final and is_agreed(METADATA_VERSION, BROKER_DEFAULTS_LEVEL, image.nodes().values()):
                # A broker on its own has no controller that would do it. Where a node does not agree, this is refused.
                events.insert(0, FeatureFinalised(METADATA_VERSION, BROKER_DEFAULTS_LEVEL))
            guards = [Guard(key, image.revision_of(key)) for key in (BROKER_DEFAULTS, feature_key(METADATA_VERSION))]
            try:
                await self._metadata.commit(events, guards)
            except GuardFailed:
                continue
            return
        raise TooBusy(f"metadata changed {ATTEMPTS_MAX} times while the change was being made; nothing was changed")
