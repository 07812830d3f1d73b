"""ScheduleHomes: the names of recurring messages, and the partition in which each one lives, in the metadata."""

from __future__ import annotations

from collections.abc import Mapping

from goqueue.errors import GuardFailed, ScheduleExists
from goqueue.metadata.events import Event, FeatureFinalised, ScheduleHome, ScheduleHomed
from goqueue.metadata.features import DELAY_VERSION, SCHEDULE_HOMES_LEVEL
from goqueue.metadata.keys import feature_key, schedule_key
from goqueue.metadata.store import Guard, MetadataStore

# Whoever is refused by a guard was overtaken by a change that succeeded.
_ATTEMPTS_MAX = 100


class ScheduleHomes:
    """Which names are taken. What a schedule is, its home knows."""

    def __init__(self, metadata: MetadataStore) -> None:
        self._metadata = metadata

    def all(self) -> Mapping[str, ScheduleHome]:
        """The homes, by name."""
        return self._metadata.image.schedule_homes

    async def claim(self, name: str, home: ScheduleHome, former: ScheduleHome | None) -> None:
        """Take a name that is free, or whose `former` home has no such schedule; `ScheduleExists` if another does."""
        key, level_key = schedule_key(name), feature_key(DELAY_VERSION)
        for _ in range(_ATTEMPTS_MAX):
            image = self._metadata.image
            if image.schedule_homes.get(name) != former:
                raise ScheduleExists(name)
            events: list[Event] = [ScheduleHomed(name, home)]
            if image.feature_levels().get(DELAY_VERSION, 0) < SCHEDULE_HOMES_LEVEL:
                # A broker on its own is every node that there is, so it may finalise the level itself.
                events.insert(0, FeatureFinalised(DELAY_VERSION, SCHEDULE_HOMES_LEVEL))
            guards = [Guard(one, image.revision_of(one)) for one in (key, level_key)]
            try:
                await self._metadata.commit(events, guards)
            except GuardFailed:
                continue
            return
        raise ScheduleExists(name)

    async def release(self, name: str) -> None:
        """The name is free. Releasing one that is free does no harm."""
        for _ in range(_ATTEMPTS_MAX):
            image = self._metadata.image
            if name not in image.schedule_homes:
                return
            try:
                await self._metadata.commit(
                    [ScheduleHomed(name, None)], [Guard(schedule_key(name), image.revision_of(schedule_key(name)))]
                )
            except GuardFailed:
                continue
            return
