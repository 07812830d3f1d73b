"""A member's heart: it beats, follows what the group decides, and joins again when its place is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from goqueue.client.background import end_task
from goqueue.client.errors import ClientError, RequestRefused
from goqueue.client.membership import Changes, Membership

# Answers that mean: you are no longer who you were in this group.
_LOST_MEMBERSHIP = frozenset({"unknown_member", "fenced_member_epoch", "illegal_generation", "group_not_found"})
# The group has moved on and we have not heard yet: the next heartbeat tells.
_STALE_EPOCH = "stale_member_epoch"

Follow = Callable[[Changes], Awaitable[None]]


class Heart:
    """Keeps a membership. `joined` hears what a join brought, `changed` carries out what a heartbeat asks for."""

    def __init__(self, member: Membership, *, joined: Follow, changed: Follow) -> None:
        self._member = member
        self._joined = joined
        self._changed = changed
        self._lock = asyncio.Lock()
        self._beating: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Join, and begin to beat."""
        await self._joined(await self._member.join())
        self._beating = asyncio.create_task(self._beat())

    async def stop(self) -> None:
        """Beat no more; the membership stays until it is left or its session ends."""
        await end_task(self._beating)

    async def recover(self, refused: RequestRefused) -> None:
        """What a refusal calls for: a new membership, a heartbeat that brings our epoch up to date, or its report."""
        if refused.code in _LOST_MEMBERSHIP:
            async with self._lock:
                await self._joined(await self._member.join())
        elif refused.code == _STALE_EPOCH:
            await self._beat_once()
        else:
            raise refused

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._member.heartbeat_ms / 1000)
            # While the broker is away we keep beating: the session may outlive the gap.
            with suppress(ClientError):
                await self._beat_once()

    async def _beat_once(self) -> None:
        try:
            async with self._lock:
                changes = await self._member.heartbeat()
                if changes.revoked or changes.assigned:
                    await self._changed(changes)
        except RequestRefused as refused:
            await self.recover(refused)
