"""QueueTable: the queues in memory, over all shards, and who waits at them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from goqueue.broker.reading.waiters import Waiters
from goqueue.delivery.lanes.lane_window import LaneWindow
from goqueue.delivery.state.queue import Queue
from goqueue.delivery.state.records import QueueId, QueuePlace


class Desk:
    """What the service keeps beside a queue: who waits for it, and what it knows of the lanes."""

    __slots__ = ("waiters", "window")

    def __init__(self) -> None:
        self.waiters = Waiters()
        self.window = LaneWindow()


class NodeQueues:
    """All queues of this node."""

    def __init__(self, on_dying: Callable[[QueueId], None]) -> None:
        self._queues: dict[QueueId, Queue] = {}
        self._by_group: dict[str, dict[QueueId, Queue]] = {}
        self._by_place: dict[QueuePlace, dict[QueueId, Queue]] = {}
        self._desks: dict[QueueId, Desk] = {}
        # Groups in which somebody was given less than there is, because too much is outstanding.
        self._crowded: set[str] = set()
        self._on_dying = on_dying

    def __iter__(self) -> Iterator[Queue]:
        return iter(list(self._queues.values()))

    def find(self, queue_id: QueueId) -> Queue | None:
        """The queue, if its shard is in memory."""
        return self._queues.get(queue_id)

    def desk(self, queue_id: QueueId) -> Desk:
        """Its desk; it outlives the queue's shard."""
        desk = self._desks.get(queue_id)
        if desk is None:
            desk = self._desks[queue_id] = Desk()
        return desk

    def of_group(self, group: str) -> list[Queue]:
        """The queues of a group."""
        return list(self._by_group.get(group, {}).values())

    def in_flight(self, group: str, consumer: str) -> int:
        """Messages that a consumer holds, over all partitions."""
        return sum(queue.in_flight.get(consumer, 0) for queue in self._by_group.get(group, {}).values())

    def wake(self, queue_id: QueueId) -> None:
        """Somebody answered: whoever waits for the queue may have more now."""
        desk = self._desks.get(queue_id)
        if desk is not None and desk.waiters:
            desk.waiters.wake_all()

    def note_crowded(self, group: str) -> None:
        """Somebody of the group would get more if less were outstanding."""
        self._crowded.add(group)

    def wake_after(self, queue_id: QueueId, *, returned: bool) -> None:
        """Messages were settled, or `returned` to the queue: wake those who may get something by that.

        Every acknowledgement would otherwise let all idle consumers look at all their partitions.
        """
        queue, group = self._queues.get(queue_id), queue_id.group
        if group in self._crowded:
            waiting = [one for one in self._by_group.get(group, {}) if self.desk(one).waiters]
            for one in waiting:
                self.wake(one)
            if waiting:
                self._crowded.discard(group)
        elif returned or queue is None or queue.chains:
            # The next message of a key may go when the one before it is settled.
            self.wake(queue_id)

    def at(self, place: QueuePlace) -> list[Queue]:
        """The queues of one partition."""
        return list(self._by_place.get(place, {}).values())

    def drop_all_at(self, place: QueuePlace) -> None:
        """A partition's delivery log was dropped from memory: what it knew is no longer true."""
        for queue in self.at(place):
            self.drop(queue)

    # --- what the machines say -----------------------------------------------------------

    def put(self, queue: Queue) -> None:
        """The queue is in memory from now on, in place of another of its id."""
        self._queues[queue.id] = queue
        self._by_group.setdefault(queue.id.group, {})[queue.id] = queue
        self._by_place.setdefault(queue.id.place, {})[queue.id] = queue

    def drop(self, queue: Queue) -> None:
        """The queue is gone."""
        self._queues.pop(queue.id, None)
        desk = self._desks.pop(queue.id, None)
        if desk is not None:
            desk.waiters.wake_all()
        at_place = self._by_place.get(queue.id.place)
        if at_place is not None:
            at_place.pop(queue.id, None)
            if not at_place:
                del self._by_place[queue.id.place]
        of_group = self._by_group.get(queue.id.group)
        if of_group is not None:
            of_group.pop(queue.id, None)
            if not of_group:
                del self._by_group[queue.id.group]
                self._crowded.discard(queue.id.group)

    def on_ready(self, queue: Queue) -> None:
        """Messages became available by time."""
        self.wake(queue.id)

    def on_dying(self, queue: Queue) -> None:
        """Messages are on their way to the dead-letter topic."""
        self._on_dying(queue.id)
