"""Delayed messages, as events of their slots: a slot is an offset in the delay log of the message's partition."""

from __future__ import annotations

from collections.abc import Sequence

from goqueue.broker.topics import TopicService
from goqueue.caller import Caller
from goqueue.clock import Clock
from goqueue.delay.values import Held, SlotId
from goqueue.errors import GoQueueError
from goqueue.node.stories.hooks import Hooks
from goqueue.records import TopicPartition
from goqueue.tracing.context import context_of
from goqueue.tracing.events import At, Attributes, Kind
from goqueue.tracing.recorder import Recorder
from goqueue.tracing.slots import slots_id, slots_topic


class DelayStories:
    """A `DelayObserver`, and who is told of messages that are held back."""

    def __init__(self, recorder: Recorder, hooks: Hooks, topics: TopicService, clock: Clock) -> None:
        self._recorder = recorder
        self._hooks = hooks
        self._topics = topics
        self._clock = clock

    def held(
        self, caller: Caller, topic: str, messages: Sequence[Held], outcomes: Sequence[SlotId | GoQueueError]
    ) -> None:
        """Messages wait in their slots."""
        if not self._records(topic):
            return
        who = self._hooks.caller_attributes(caller)
        for held, slot in zip(messages, outcomes, strict=True):
            if not isinstance(slot, SlotId):
                continue
            attributes: Attributes = (*who, At.TO_TOPIC, topic, At.DUE_MS, held.due_ms)
            context = context_of(held.record.headers)
            if context is not None:
                attributes += (At.TRACE, context.trace_id, At.PARENT, context.span_id)
            self._note(Kind.DELAY_SCHEDULED, TopicPartition(topic, slot.partition), slot.offset, attributes)

    def rescheduled(self, place: TopicPartition, slot: int, due_ms: int) -> None:
        """See `DelayObserver`."""
        if self._records(place.topic):
            self._note(Kind.DELAY_RESCHEDULED, place, slot, (At.TO_TOPIC, place.topic, At.DUE_MS, due_ms))

    def cancelled(self, place: TopicPartition, slot: int) -> None:
        """See `DelayObserver`."""
        if self._records(place.topic):
            self._note(Kind.DELAY_CANCELLED, place, slot, (At.TO_TOPIC, place.topic))

    def fired(self, place: TopicPartition, slots: Sequence[int], first: int | None, now_ms: int) -> None:
        """See `DelayObserver`: noted of each slot, and of the place where the message lies from now on."""
        found = self._topics.find(place.topic)
        if not self._records(place.topic) or found is None:
            return
        for number, slot in enumerate(slots):
            target: Attributes = (At.TO_TOPIC, place.topic, At.TO_PARTITION, place.partition)
            if first is not None:
                target += (At.TO_OFFSET, first + number)
                source = (
                    At.FROM_TOPIC,
                    slots_topic(place.topic),
                    At.FROM_PARTITION,
                    place.partition,
                    At.FROM_OFFSET,
                    slot,
                )
                offset = first + number
                self._recorder.note(Kind.DELAY_READY, found.topic_id, place.partition, offset, offset, now_ms, source)
            self._note(Kind.DELAY_READY, place, slot, target, now_ms)

    def expired(self, place: TopicPartition, slots: Sequence[int], reason: str) -> None:
        """See `DelayObserver`."""
        if self._records(place.topic):
            for slot in slots:
                self._note(Kind.DELAY_EXPIRED, place, slot, (At.TO_TOPIC, place.topic, At.REASON, reason))

    def _records(self, topic: str) -> bool:
        """Whether the topic's messages have stories: their slots have what they have."""
        if not self._recorder.active:
            return False
        found = self._topics.find(topic)
        return found is not None and self._recorder.records(found.topic_id)

    def _note(
        self, kind: Kind, place: TopicPartition, slot: int, attributes: Attributes, now_ms: int | None = None
    ) -> None:
        found = self._topics.find(place.topic)
        if found is not None:
            at_ms = self._clock.now_ms() if now_ms is None else now_ms
            self._recorder.note(kind, slots_id(found.topic_id), place.partition, slot, slot, at_ms, attributes)
