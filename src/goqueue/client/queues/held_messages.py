"""Messages a consumer holds: taken, not yet settled, and when each needs more time.

Nothing here sends or sleeps, so every rule can be tested with plain numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from goqueue.client.types import QueueMessage


@dataclass(slots=True)
class _Held:
    message: QueueMessage
    taken_ms: int
    deadline_ms: int


class HeldMessages:
    """What we owe an answer for. Times are of one monotonic clock."""

    def __init__(self, *, hold_ms_max: int) -> None:
        self._hold_ms_max = hold_ms_max
        self._held: dict[str, _Held] = {}

    def __len__(self) -> int:
        return len(self._held)

    def take(self, messages: Iterable[QueueMessage], visibility_ms: int, now_ms: int) -> None:
        """These are ours now, for so long."""
        for message in messages:
            self._held[message.receipt] = _Held(message, now_ms, now_ms + visibility_ms)

    def settled(self, receipt: str) -> int | None:
        """This one needs nothing more from us; returns when its time ends, if it was held."""
        held = self._held.pop(receipt, None)
        return None if held is None else held.deadline_ms

    def lost(self, now_ms: int) -> list[QueueMessage]:
        """Those whose time has run out."""
        return [held.message for held in self._held.values() if held.deadline_ms <= now_ms]

    def due(self, now_ms: int, *, ahead_ms: int) -> list[QueueMessage]:
        """Those whose time ends within `ahead_ms`; one that was held too long is left to its fate."""
        due = []
        for receipt, held in list(self._held.items()):
            if now_ms - held.taken_ms > self._hold_ms_max or held.deadline_ms <= now_ms:
                # Forgotten by the program, or lost already: let it come again elsewhere.
                del self._held[receipt]
            elif held.deadline_ms - now_ms <= ahead_ms:
                due.append(held.message)
        return due

    def extended(self, receipt: str, visibility_ms: int, now_ms: int) -> None:
        """It has so much time from now on."""
        if (held := self._held.get(receipt)) is not None:
            held.deadline_ms = now_ms + visibility_ms
