"""The schema registry's changes, asked of its coordinator, for the copies that other nodes check messages against."""

from __future__ import annotations

import msgspec

from goqueue.anywhere.asking import ANSWER_MS, Asking, PeerMethod
from goqueue.caller import INTERNAL, Caller
from goqueue.schemas.following.changes import Changes, Position, RegistryChanges
from goqueue.schemas.service import SCHEMAS


class _Since(msgspec.Struct, frozen=True, array_like=True):
    position: Position | None
    wait_ms: int


_SINCE: PeerMethod[_Since, Changes] = PeerMethod("schemas.changes", _Since, Changes)


class ChangesAnywhere:
    """`RegistryChanges.since`, answered by the node that coordinates the registry."""

    def __init__(self, local: RegistryChanges, asking: Asking) -> None:
        self._local = local
        self._asking = asking
        asking.answer(_SINCE, self._here)

    async def __call__(self, position: Position | None, wait_ms: int) -> Changes:
        """See `RegistryChanges.since`."""
        homes, asked = self._asking.homes, _Since(position, wait_ms)

        timeout_ms = wait_ms + ANSWER_MS
        return await self._asking.at_home(
            lambda: homes.coordinator_at(SCHEMAS, 0),
            lambda node: self._asking.ask_or_answer(node, _SINCE, asked, INTERNAL, timeout_ms=timeout_ms),
            is_repeatable=True,
        )

    async def _here(self, asked: _Since, _caller: Caller) -> Changes:
        return await self._local.since(asked.position, asked.wait_ms)
