"""The audit log of a cluster: every node's lines go to the one topic, wherever it is led."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from goqueue.anywhere.asking import Asking, PeerMethod
from goqueue.caller import INTERNAL, Caller
from goqueue.records import TopicPartition


class _Lines(msgspec.Struct, frozen=True, array_like=True):
    lines: list[bytes]


_APPEND: PeerMethod[_Lines, None] = PeerMethod("audit.append", _Lines, None)


class AuditAnywhere:
    """Appends lines at the leader of the audit topic."""

    def __init__(self, place: TopicPartition, append_here: Callable[[Sequence[bytes]], None], asking: Asking) -> None:
        """`append_here` raises NotLeader where this node does not lead the place."""
        self._place = place
        self._append_here = append_here
        self._asking = asking
        asking.answer(_APPEND, self._here)

    async def __call__(self, lines: Sequence[bytes]) -> None:
        """Append, and return when the leader has written the lines."""
        homes = self._asking.homes
        asked = _Lines(list(lines))
        await self._asking.at_home(
            lambda: homes.leader_of(self._place),
            lambda node: self._asking.ask_or_answer(node, _APPEND, asked, INTERNAL),
        )

    async def _here(self, asked: _Lines, _caller: Caller) -> None:
        self._append_here(asked.lines)
