"""Who is told of the queues of a delivery machine: the table that finds them, and an observer of what happens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from goqueue.delivery.leases.outstanding import Hold
    from goqueue.delivery.state.queue import Queue
    from goqueue.delivery.state.records import Change


class QueueTable(Protocol):
    """Who wants to know of queues: all shards of a node share one."""

    def put(self, queue: Queue) -> None:
        """The queue is in memory from now on, in place of another of its id."""
        ...

    def drop(self, queue: Queue) -> None:
        """The queue is gone."""
        ...

    def on_ready(self, queue: Queue) -> None:
        """Messages of the queue became available by time."""
        ...

    def on_dying(self, queue: Queue) -> None:
        """Messages of the queue are on their way to the dead-letter topic."""
        ...


class QueueObserver(Protocol):
    """Told of what happens to messages, in ranges, as it is decided. It must not raise and must not take long."""

    def changed(self, queue: Queue, changes: Sequence[Change], command: object, now_ms: int, /) -> None:
        """These changes follow; the queue is still as it was before. `command` is None for what time alone did."""
        ...

    def expired(self, queue: Queue, hold: Hold, /) -> None:
        """The visibility of what belongs to the hold has ended, perhaps before the node was started."""
        ...
