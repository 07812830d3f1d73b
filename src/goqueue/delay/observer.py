"""Who is told of what becomes of delayed messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from goqueue.records import TopicPartition


class DelayObserver(Protocol):
    """Called after the fact, on the event loop. A method must not raise and must not take long."""

    def rescheduled(self, place: TopicPartition, slot: int, due_ms: int, /) -> None:
        """A message is due at another time."""
        ...

    def cancelled(self, place: TopicPartition, slot: int, /) -> None:
        """A message is never delivered."""
        ...

    def fired(self, place: TopicPartition, slots: Sequence[int], first: int | None, now_ms: int, /) -> None:
        """Messages were due and lie in their partition, one behind the other; None: an earlier term put them there."""
        ...

    def expired(self, place: TopicPartition, slots: Sequence[int], reason: str, /) -> None:
        """Messages were due, and their topic does not take them."""
        ...
