"""Deliveries, settlements, expiries, dead letters and redrives, as events."""

from __future__ import annotations

from collections.abc import Sequence

from goqueue.broker.topics import TopicService
from goqueue.clock import Clock
from goqueue.delivery.dead_letters.dead_letter_moves import HEADER_PREFIX
from goqueue.delivery.leases.outstanding import Hold
from goqueue.delivery.settlement.outcomes import REJECTED, RETRIES_EXHAUSTED
from goqueue.delivery.state.commands import Dead, Lease, Settle, SettleHeld
from goqueue.delivery.state.queue import Queue
from goqueue.delivery.state.records import (
    Change,
    Dying,
    Extended,
    Leased,
    QueueId,
    Reopened,
    Requeued,
    Settled,
    offsets_of,
    ranges_of,
)
from goqueue.delivery.values import Action, Delivery
from goqueue.records import Header
from goqueue.tracing.events import At, Attributes, Kind
from goqueue.tracing.recorder import Recorder
from goqueue.tracing.slots import slots_topic

_ORIGIN = tuple(HEADER_PREFIX + name for name in ("topic", "partition", "offset"))


class QueueStories:
    """A `QueueObserver`, and who is told of dead letters and of their way back."""

    def __init__(self, recorder: Recorder, topics: TopicService, clock: Clock) -> None:
        self._recorder = recorder
        self._topics = topics
        self._clock = clock

    # --- what the machine decides ----------------------------------------------------------

    def changed(self, queue: Queue, changes: Sequence[Change], command: object, now_ms: int) -> None:
        """See `QueueObserver`."""
        if not self._recorder.active:
            return
        attributes: Attributes
        for change in changes:
            if isinstance(change, Leased):
                attributes = (
                    *(At.GROUP, queue.id.group, At.MEMBER, change.consumer, At.LANE, change.lane),
                    *(At.DELIVERY_COUNT, change.count, At.LOCK_MS, change.deadline_ms - change.at_ms),
                )
                self._note(Kind.CONSUME_FETCHED, queue.id, change.ranges, now_ms, attributes)
            elif isinstance(change, Settled):
                if not isinstance(command, Lease):
                    # What a lease settles has left its log: that is told by the log.
                    self._settled(queue, change, command, now_ms)
            elif isinstance(change, Requeued):
                self._requeued(queue, change, now_ms, is_late=command is None)
            elif isinstance(change, Extended):
                attributes = (*_holder(queue, change.ranges), At.LOCK_MS, change.deadline_ms - now_ms)
                self._note(Kind.VISIBILITY_EXTENDED, queue.id, change.ranges, now_ms, attributes)
            elif isinstance(change, Dying):
                self._dying(queue, change, now_ms)
            elif isinstance(change, Reopened):
                self._note(Kind.REDRIVE_SENT, queue.id, change.ranges, now_ms, (At.GROUP, queue.id.group))

    def _settled(self, queue: Queue, change: Settled, command: object, now_ms: int) -> None:
        kind = Kind.CONSUME_ACKED
        if not queue.policy.dead_letters and _rejects(command, change.ranges[0]):
            kind = Kind.CONSUME_REJECTED
        self._note(kind, queue.id, change.ranges, now_ms, _holder(queue, change.ranges))

    def _requeued(self, queue: Queue, change: Requeued, now_ms: int, *, is_late: bool) -> None:
        if is_late:
            # After the last visibility, without dead letters: `expired` has told it.
            return
        holder = _holder(queue, change.ranges)
        hold = queue.outstanding.get(change.ranges[0])
        if hold is not None and change.count < hold.count:
            self._note(Kind.CONSUME_RELEASED, queue.id, change.ranges, now_ms, holder)
            return
        attributes: Attributes = (*holder, At.WAIT_MS, change.visible_at_ms - now_ms)
        if change.reason:
            attributes += (At.ERROR, change.reason)
        self._note(Kind.CONSUME_NACKED, queue.id, change.ranges, now_ms, attributes)

    def _dying(self, queue: Queue, change: Dying, now_ms: int) -> None:
        kind = {REJECTED: Kind.CONSUME_REJECTED, RETRIES_EXHAUSTED: Kind.CONSUME_NACKED}.get(change.reason)
        if kind is None:
            # Of a visibility that ended `expired` tells.
            return
        attributes: Attributes = (*_holder(queue, change.ranges), At.REASON, change.reason)
        if change.error:
            attributes += (At.ERROR, change.error)
        self._note(kind, queue.id, change.ranges, now_ms, attributes)

    def expired(self, queue: Queue, hold: Hold) -> None:
        """See `QueueObserver`."""
        if not self._recorder.active:
            return
        outstanding = queue.outstanding
        ranges = ranges_of([one for one in offsets_of(hold.ranges) if outstanding.get(one) is hold])
        attributes = (At.GROUP, queue.id.group, At.MEMBER, hold.consumer, At.DELIVERY_COUNT, hold.count)
        self._note(Kind.VISIBILITY_TIMEOUT, queue.id, ranges, hold.visible_at_ms, attributes)

    def _note(self, kind: Kind, queue_id: QueueId, ranges: Sequence[int], at_ms: int, attributes: Attributes) -> None:
        note = self._recorder.note
        for at in range(0, len(ranges), 2):
            note(kind, queue_id.topic_id, queue_id.partition, ranges[at], ranges[at + 1], at_ms, attributes)

    # --- dead letters ----------------------------------------------------------------------

    def moved(self, queue_id: QueueId, dead: Sequence[Dead], topic: str, first: int | None, now_ms: int) -> None:
        """Messages lie in the dead-letter topic."""
        if not self._recorder.active:
            return
        for number, one in enumerate(dead):
            attributes: Attributes = (At.GROUP, queue_id.group, At.DELIVERY_COUNT, one.count, At.REASON, one.reason)
            attributes += (At.TO_TOPIC, topic, At.TO_PARTITION, queue_id.partition)
            if first is not None:
                attributes += (At.TO_OFFSET, first + number)
            self._note(Kind.DLQ_ROUTED, queue_id, (one.offset, one.offset), now_ms, attributes)

    def sent_back(self, letter: Delivery, topic: str, partition: int, offset: int, *, is_held: bool) -> None:
        """A dead letter goes on living elsewhere."""
        found = self._topics.find(letter.topic)
        if self._recorder.active and found is not None:
            target = slots_topic(topic) if is_held else topic
            attributes = (At.TO_TOPIC, target, At.TO_PARTITION, partition, At.TO_OFFSET, offset)
            self._recorder.note(
                Kind.REDRIVE_SENT,
                found.topic_id,
                letter.partition,
                letter.offset,
                letter.offset,
                self._clock.now_ms(),
                attributes,
            )


def origin_of(headers: Sequence[Header]) -> tuple[str, int, int] | None:
    """Where a dead letter, or what was made of one, came from: the headers of its last death say it."""
    found = {name: value for name, value in headers if name in _ORIGIN}
    if len(found) < len(_ORIGIN):
        return None
    topic, partition, offset = ((found[name] or b"").decode(errors="replace") for name in _ORIGIN)
    if not (partition.isdecimal() and offset.isdecimal()):
        return None
    return topic, int(partition), int(offset)


def _holder(queue: Queue, ranges: Sequence[int]) -> Attributes:
    """Whose messages these were: what is settled together was given out together."""
    hold = queue.outstanding.get(ranges[0])
    if hold is None:
        return (At.GROUP, queue.id.group)
    return (At.GROUP, queue.id.group, At.MEMBER, hold.consumer, At.DELIVERY_COUNT, hold.count)


def _rejects(command: object, offset: int) -> bool:
    if isinstance(command, Settle):
        return any(one.action is Action.REJECT and offset in one.offsets for one in command.shares)
    if isinstance(command, SettleHeld):
        return any(one.action is Action.REJECT and one.first <= offset <= one.last for one in command.ranges)
    return False
