"""Who is told of what becomes of delayed messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from goqueue.delay.values import SlotId


class DelayObserver(Protocol):
    """Called after the fact, on the event loop. A method must not raise and must not take long."""

    def rescheduled(self, at: SlotId, topic: str, due_ms: int, /) -> None:
        """A message is due at another time."""
        ...

    def cancelled(self, at: SlotId, topic: str, /) -> None:
        """A message is never delivered."""
        ...

    def fired(
        self, shard: int, slots: Sequence[int], topic: str, partition: int, first: int | None, now_ms: int, /
    ) -> None:
        """Messages were due and lie in their topic, one behind the other; None: an earlier life put them there."""
        ...

    def expired(self, shard: int, slots: Sequence[int], topic: str, reason: str, /) -> None:
        """Messages were due, and their topic does not take them."""
        ...
