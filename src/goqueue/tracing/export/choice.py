"""The choice: whose spans are exported. Runs in a thread, one flush at a time.

Head-based: the trace id decides, so that all events of a message are exported or none. A message whose own trace id
is not known without opening it is chosen by the id that follows from its place, and then opened. What the broker
publishes itself (dead letters, delayed and redriven messages) began elsewhere: its first place is looked for.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from goqueue.codec.batch import parse_batch_header
from goqueue.codec.batch_decode import decode_records
from goqueue.errors import GoQueueError
from goqueue.log.partition_log import PartitionLog
from goqueue.tracing.context import Places, TraceContext, context_of
from goqueue.tracing.events import At, Happened, Kind, Noted, Subject
from goqueue.tracing.reader import Spot
from goqueue.tracing.sampling import Sampler
from goqueue.tracing.slots import topic_of_slots
from goqueue.tracing.spans import Span, span_of
from goqueue.tracing.story import line_of

# Processor time for one flush, of the 100 ms between two.
_BUDGET_SECONDS = 0.003
_STRIDE_BITS_MAX = 16
_KNOWN_MAX = 10_000
_OPENED_MAX = 64
_FAILURES = frozenset({Kind.CONSUME_REJECTED, Kind.DLQ_ROUTED, Kind.DELAY_EXPIRED})


class Chosen(NamedTuple):
    """The trace of a message that is exported."""

    trace_id: str
    producer_span_id: str | None


class Picked(NamedTuple):
    """What one flush leads to."""

    spans: list[Span]
    # Messages whose first place must be looked for.
    to_walk: list[tuple[Noted, Spot]]
    # Messages that are not sampled, and have settled in a way that may make them worth exporting.
    settled: list[tuple[Noted, Spot]]
    passed_over: int


class Choice:
    """Remembers what was decided, as far as it does not follow from the place."""

    def __init__(self, sampler: Sampler, places: Places, *, spans_max: int, failed: bool, slow_ms: int) -> None:
        """`spans_max` of one flush."""
        self._spans_max = spans_max
        self.sampler = sampler
        self.stride_bits = 0
        self._places = places
        self._failed = failed
        self._slow_ms = slow_ms
        self._known: OrderedDict[tuple[UUID, int, int], Chosen | None] = OrderedDict()
        # By partition and first offset of a batch: its last offset, and the contexts in it.
        self._opened: OrderedDict[tuple[Subject, int], tuple[int, dict[int, TraceContext]]] = OrderedDict()

    def pick(self, events: Sequence[Noted], places: Mapping[Subject, tuple[str, PartitionLog]]) -> Picked:
        """The spans of one flush, as many as there is time for."""
        picked = Picked([], [], [], 0)
        passed_over = 0
        started = time.thread_time()
        stride = 1 << self.stride_bits
        for event in events:
            place = places.get(Subject(event.topic_id, event.partition))
            if place is None or event.kind is Kind.NOT_KEPT:
                continue
            is_settled = self._settles(event)
            if self.sampler.rate_for(event.topic_id) <= 0 and not is_settled:
                continue
            first = -(-event.first // stride) * stride
            looked = range(first, event.last + 1, stride)
            passed_over += event.last - event.first + 1 - len(looked)
            for offset in looked:
                if len(picked.spans) >= self._spans_max or time.thread_time() - started > 2 * _BUDGET_SECONDS:
                    passed_over += (event.last - offset) // stride + 1
                    break
                self._look(event, Spot(event.topic_id, place[0], event.partition, offset), place[1], picked, is_settled)
        self._adapt(time.thread_time() - started, len(picked.spans))
        return picked._replace(passed_over=passed_over)

    def walked(self, event: Noted, spot: Spot, trace_id: str, producer_span_id: str | None) -> list[Span]:
        """The first place of a message was found: decide, and remember it for its later events."""
        takes = self.sampler.takes(spot.topic_id, trace_id)
        chosen = Chosen(trace_id, producer_span_id) if takes else None
        self._remember((spot.topic_id, spot.partition, spot.offset), chosen)
        return [] if chosen is None else [_span(event, spot, chosen)]

    def is_worth(self, event: Noted, stored_ms: int) -> bool:
        """Whether a message that was not chosen is exported all the same."""
        return event.kind in _FAILURES or (stored_ms >= 0 and event.at_ms - stored_ms > self._slow_ms)

    def _settles(self, event: Noted) -> bool:
        if event.kind in _FAILURES:
            return self._failed
        return self._slow_ms > 0 and event.kind is Kind.CONSUME_ACKED

    def _look(self, event: Noted, spot: Spot, log: PartitionLog, picked: Picked, is_settled: bool) -> None:  # noqa: FBT001
        key = (spot.topic_id, spot.partition, spot.offset)
        if key in self._known:
            chosen = self._known[key]
        elif (noted := _noted(event)) is not None:
            chosen = noted if self.sampler.takes(spot.topic_id, noted.trace_id) else None
            self._remember(key, chosen)
        elif event.kind is Kind.PUBLISH_RECEIVED and "internal" in event.attributes:
            picked.to_walk.append((event, spot))
            return
        else:
            derived = self._places.trace_id(*key)
            chosen = None
            if self.sampler.takes(spot.topic_id, derived):
                context = None if topic_of_slots(spot.topic) is not None else self._context(spot, log)
                chosen = Chosen(derived, None) if context is None else Chosen(context.trace_id, context.span_id)
        if chosen is not None:
            picked.spans.append(_span(event, spot, chosen))
        elif is_settled:
            picked.settled.append((event, spot))

    def _context(self, spot: Spot, log: PartitionLog) -> TraceContext | None:
        """What the record's own header says; its batch is opened once for all of its records."""
        subject = Subject(spot.topic_id, spot.partition)
        for (of, first), (last, contexts) in self._opened.items():
            if of == subject and first <= spot.offset <= last:
                return contexts.get(spot.offset)
        try:
            batch = log.read_batches(spot.offset, max_bytes=1, upper=log.end_offset).batches[0]
            header = parse_batch_header(batch)
            contexts = {
                one.offset: context
                for one in decode_records(batch)
                if one.headers and (context := context_of(one.headers)) is not None
            }
        except (GoQueueError, OSError, IndexError):
            return None
        self._opened[subject, header.base_offset] = header.last_offset, contexts
        if len(self._opened) > _OPENED_MAX:
            self._opened.popitem(last=False)
        return contexts.get(spot.offset)

    def _remember(self, key: tuple[UUID, int, int], chosen: Chosen | None) -> None:
        self._known[key] = chosen
        if len(self._known) > _KNOWN_MAX:
            self._known.popitem(last=False)

    def _adapt(self, seconds: float, spans: int) -> None:
        if seconds > _BUDGET_SECONDS or spans >= self._spans_max:
            self.stride_bits = min(self.stride_bits + 1, _STRIDE_BITS_MAX)
        elif seconds < _BUDGET_SECONDS / 4 and spans < self._spans_max / 4 and self.stride_bits:
            self.stride_bits -= 1


def _span(event: Noted, spot: Spot, chosen: Chosen) -> Span:
    happened = Happened(event.at_ms, event.kind, event.first, event.last, event.attributes)
    line = line_of(happened, spot.topic, spot.partition, spot.offset)
    return span_of(line, chosen.trace_id, chosen.producer_span_id)


def _noted(event: Noted) -> Chosen | None:
    attributes = event.attributes
    if At.TRACE not in attributes[::2]:
        return None
    pairs = {attributes[at]: attributes[at + 1] for at in range(0, len(attributes), 2)}
    return Chosen(str(pairs[At.TRACE]), str(pairs[At.PARENT]))
