"""FormerSettings: settings that an earlier version left in `__consumer_offsets`, moved into the metadata.

A group's coordinator does it when it has read its log and every node understands settings in the metadata. They are
stored there first and dropped from the log then, so a crash in between only leaves something to be dropped. What was
set in the metadata meanwhile counts; what is missing there is added.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from goqueue.coordinator.runtime import Coordinator
from goqueue.coordinator.shard import Machine
from goqueue.errors import GoQueueError, NotCoordinator, NotLeader, ShuttingDown
from goqueue.groups.commands import AskSettings, DropSettings, ListSettings
from goqueue.groups.machine import GroupMachine
from goqueue.groups.settings.stored_settings import NOTHING_SET, StoredSettings
from goqueue.metadata.events import Delta, FeatureFinalised, GroupSettings
from goqueue.metadata.store import Guard

_PAUSE_S = 1.0


class FormerSettings:
    """Moves the settings of the groups that this node coordinates. `fence_of` guards a shard's term in the metadata."""

    def __init__(self, stored: StoredSettings, fence_of: Callable[[int], Guard | None]) -> None:
        self._stored = stored
        self._fence_of = fence_of
        self._coordinator: Coordinator | None = None
        # One at a time: whoever finds nothing left to drop then knows that the group was deleted.
        self._turn = asyncio.Lock()
        self._moving: dict[int, asyncio.Task[None]] = {}

    def of(self, coordinator: Coordinator) -> FormerSettings:
        """Work on the shards of this coordinator."""
        self._coordinator = coordinator
        return self

    def shard_loaded(self, shard: int, machine: Machine) -> None:
        """A shard has read its log."""
        if isinstance(machine, GroupMachine) and machine.former_settings():
            self._begin(shard)

    def on_delta(self, delta: Delta) -> None:
        """A level that becomes final may be the one that was missing."""
        if self._coordinator is not None and any(isinstance(event, FeatureFinalised) for event in delta.events):
            for shard in self._coordinator.loaded():
                self._begin(shard)

    async def move(self, group: str) -> None:
        """Have one group's settings in the metadata before they are changed there. `NotCoordinator` if others do it."""
        if self._coordinator is None:
            return
        async with self._turn:
            await self._move(group)

    async def close(self) -> None:
        """Stop; what is left is moved after the next start."""
        tasks = list(self._moving.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, shard: int) -> None:
        if self._stored.are_available and shard not in self._moving:
            task = self._moving[shard] = asyncio.get_running_loop().create_task(self._move_all(shard))
            task.add_done_callback(lambda _done: self._moving.pop(shard, None))

    async def _move_all(self, shard: int) -> None:
        while self._coordinator is not None:
            try:
                found: tuple[tuple[str, GroupSettings], ...] = await self._coordinator.submit_to(shard, ListSettings())
                for group, _ in found:
                    await self.move(group)
            except (NotCoordinator, NotLeader, ShuttingDown):
                return
            except GoQueueError:
                # The metadata cannot be changed at present, or the term may be over.
                await asyncio.sleep(_PAUSE_S)
            else:
                return

    async def _move(self, group: str) -> None:
        if self._coordinator is None:
            return
        fence = self._fence_of(self._coordinator.partition_for(group))
        former: GroupSettings = await self._coordinator.submit(group, AskSettings(group))
        if former == NOTHING_SET:
            return
        moved = await self._stored.change(group, lambda held: filled(held, former), () if fence is None else (fence,))
        was_there = await self._coordinator.submit(group, DropSettings(group))
        if not was_there and self._stored.of(group) == moved:
            # The group was deleted meanwhile.
            await self._stored.forget(group)


def filled(held: GroupSettings, former: GroupSettings) -> GroupSettings:
    """The settings that are held, and those of the former ones that are not set there."""
    return GroupSettings(
        held.session_timeout_ms or former.session_timeout_ms,
        held.heartbeat_interval_ms or former.heartbeat_interval_ms,
        held.isolation or former.isolation,
        held.start or former.start,
        {**former.policy, **held.policy},
    )
