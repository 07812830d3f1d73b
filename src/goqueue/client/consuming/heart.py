"""A member's heartbeats: follows what the group decides, and joins again when its place is lost.

A consumer that has not polled for `poll_interval_s` leaves its group, so that a program that is stuck does not
keep its partitions for ever. It joins again when it polls.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from goqueue.client.background import end_task
from goqueue.client.consuming.membership import Changes, Membership
from goqueue.client.errors import ClientError, RequestRefused

# Answers that mean: you are no longer who you were in this group.
_LOST_MEMBERSHIP = frozenset({"unknown_member", "fenced_member_epoch", "illegal_generation", "group_not_found"})
# The group has moved on and we have not heard yet: the next heartbeat tells.
_STALE_EPOCH = "stale_member_epoch"

Follow = Callable[[Changes], Awaitable[None]]
_log = logging.getLogger("goqueue.client")


class Heart:
    """Keeps a membership. `joined` hears what a join brought, `changed` carries out what a heartbeat asks for."""

    def __init__(
        self, member: Membership, *, joined: Follow, changed: Follow, poll_interval_s: float | None = None
    ) -> None:
        self._member = member
        self._joined = joined
        self._changed = changed
        self._poll_interval_s = poll_interval_s
        self._polling = 0
        self._polled_at = 0.0
        self._is_out = False
        self._lock = asyncio.Lock()
        self._beating: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Join, and begin to beat."""
        self._polled_at = asyncio.get_running_loop().time()
        await self._joined(await self._member.join())
        self._beating = asyncio.create_task(self._beat())

    async def stop(self) -> None:
        """Beat no more; the membership stays until it is left or its session ends."""
        await end_task(self._beating)

    @contextmanager
    def polling(self) -> Iterator[None]:
        """The program asks for messages meanwhile, so it works."""
        self._polling += 1
        try:
            yield
        finally:
            self._polling -= 1
            self._polled_at = asyncio.get_running_loop().time()

    async def come_back(self) -> None:
        """Join again if we left because nobody polled."""
        if self._is_out:
            async with self._lock:
                if self._is_out:
                    await self._joined(await self._member.join())
                    self._is_out = False

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
            if self._is_out:
                continue
            try:
                if self._is_stuck():
                    await self._leave()
                else:
                    await self._beat_once()
            except ClientError:
                # While the broker is away we keep beating: the session may outlive the gap.
                continue
            except Exception:  # noqa: BLE001 - logged
                # A callback of the program failed: without heartbeats the member would be evicted in silence.
                _log.exception("%s: a callback for a rebalance failed", self._member)

    def _is_stuck(self) -> bool:
        if self._poll_interval_s is None or self._polling:
            return False
        return asyncio.get_running_loop().time() - self._polled_at > self._poll_interval_s

    async def _leave(self) -> None:
        async with self._lock:
            self._is_out = True
            _log.warning(
                "%s leaves its group, because it has not polled for %g s (poll_interval_max); it joins again at its "
                "next poll",
                self._member,
                self._poll_interval_s,
            )
            await self._member.leave()

    async def _beat_once(self) -> None:
        try:
            async with self._lock:
                changes = await self._member.heartbeat()
                if changes:
                    await self._changed(changes)
        except RequestRefused as refused:
            await self.recover(refused)
