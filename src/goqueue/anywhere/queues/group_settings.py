"""What delivery wants to know of a queue group: what it is, and what was set for it.

The first is asked of the group's coordinator and remembered for a moment; the second is in the metadata.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from goqueue.anywhere.asking import Asking, PeerMethod
from goqueue.caller import INTERNAL
from goqueue.clock import Clock
from goqueue.delivery.values import GroupSettings, GroupSettingsOf, Start
from goqueue.groups.service import CONSUMER_OFFSETS
from goqueue.metadata.events import GroupSettings as StoredSettings

_SETTINGS: PeerMethod[str, GroupSettings] = PeerMethod("group.settings", str, GroupSettings)

# A change of settings is told to all nodes; this bounds how long one that missed it goes on with the former ones.
_REMEMBERED_MS = 1_000
_GROUPS_MAX = 10_000


class GroupSettingsAnywhere:
    """A `GroupSettingsOf` for groups that any node coordinates."""

    def __init__(
        self,
        local: GroupSettingsOf,
        asking: Asking,
        clock: Clock,
        stored: Callable[[str], StoredSettings | None],
    ) -> None:
        self._local = local
        self._stored = stored
        self._asking = asking
        self._clock = clock
        self._known: dict[str, tuple[int, GroupSettings]] = {}
        asking.answer(_SETTINGS, lambda group, _caller: local(group))

    async def __call__(self, group: str) -> GroupSettings:
        """The group's settings; a group that is new becomes a queue group by this."""
        return self._with_stored(group, await self._from_coordinator(group))

    async def _from_coordinator(self, group: str) -> GroupSettings:
        known = self._known.get(group)
        if known is not None and self._clock.monotonic_ms() < known[0]:
            return known[1]
        homes = self._asking.homes
        found = await self._asking.at_home(lambda: homes.coordinator_of(CONSUMER_OFFSETS, group), self._from(group))
        if len(self._known) >= _GROUPS_MAX:
            self._known.clear()
        self._known[group] = (self._clock.monotonic_ms() + _REMEMBERED_MS, found)
        return found

    def forget(self, group: str) -> None:
        """They were changed."""
        self._known.pop(group, None)

    def _with_stored(self, group: str, found: GroupSettings) -> GroupSettings:
        stored = self._stored(group)
        if stored is None:
            return found
        wishes = {**stored.policy, "key_ordered": found.wishes.get("key_ordered", False)}
        return GroupSettings(wishes, Start(stored.start or Start.EARLIEST), found.incarnation)

    def _from(self, group: str) -> Callable[[int], Awaitable[GroupSettings]]:
        def ask(node: int) -> Awaitable[GroupSettings]:
            if node == self._asking.homes.node_id:
                return self._local(group)
            return self._asking.ask(node, _SETTINGS, group, INTERNAL)

        return ask
