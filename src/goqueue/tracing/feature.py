"""Tracing, put together: what the composition root calls, and what front-ends get."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

import msgspec

from goqueue.broker.replicas.partitions import Partitions
from goqueue.broker.topics import TopicService
from goqueue.clock import Clock
from goqueue.config import LogConfig, TracingConfig
from goqueue.metadata.events import Delta, Topic, TopicConfigChanged, TopicCreated, TopicDeleted
from goqueue.ports import Offload
from goqueue.tracing.context import Places
from goqueue.tracing.export.choice import Choice
from goqueue.tracing.export.feed import Feed
from goqueue.tracing.export.lanes import Exporter, Lane, OnFailure
from goqueue.tracing.reader import OriginOf, Reader
from goqueue.tracing.recorder import FLUSH_MS, Recorder, Ring
from goqueue.tracing.sampling import Sampler
from goqueue.tracing.store import OnTrouble, Store
from goqueue.tracing.traces import Traces


class LaneStats(msgspec.Struct, frozen=True):
    """One exporter since the start."""

    name: str
    exported: int
    dropped: int
    failures: int
    waiting: int


class TracingStats(msgspec.Struct, frozen=True):
    """What the tracer did since the start, and what it holds."""

    enabled: bool
    spans_in_buffer: int
    buffer_capacity: int
    events: int
    events_waiting: int
    events_dropped: int
    write_failures: int
    log_bytes: int
    index_bytes: int
    sampling_rate: float
    messages_passed_over: int
    # The exporters look at one offset in so many, as far as load allows.
    export_stride: int
    exporters: tuple[LaneStats, ...]


class TracingService:
    """Everything about stories that a front-end may call, and the recorder for the node's hooks."""

    def __init__(
        self,
        recorder: Recorder,
        ring: Ring,
        store: Store,
        reader: Reader,
        traces: Traces,
        feed: Feed | None,
        sampler: Sampler,
        *,
        enabled: bool,
    ) -> None:
        self.recorder = recorder
        self.ring = ring
        self.store = store
        self.reader = reader
        self.traces = traces
        self.feed = feed
        self._sampler = sampler
        self._enabled = enabled

    def stats(self) -> TracingStats:
        """Numbers for the operator."""
        recorded, feed = self.recorder.stats, self.feed
        lanes = () if feed is None else feed.lanes
        return TracingStats(
            enabled=self._enabled,
            spans_in_buffer=self.ring.count(),
            buffer_capacity=self.ring.capacity,
            events=recorded.events,
            events_waiting=self.recorder.waiting,
            events_dropped=recorded.dropped,
            write_failures=recorded.failures,
            log_bytes=self.store.log_bytes,
            index_bytes=self.store.index_bytes(),
            sampling_rate=self._sampler.rate,
            messages_passed_over=0 if feed is None else feed.passed_over,
            export_stride=1 if feed is None else 1 << feed.choice.stride_bits,
            exporters=tuple(LaneStats(one.name, one.exported, one.dropped, one.failures, one.waiting) for one in lanes),
        )

    async def close(self) -> None:
        """Write the last events and leave the index complete."""
        self.recorder.close()
        if self.feed is not None:
            await self.feed.close()
        await self.store.close()


def feature(
    *,
    config: TracingConfig,
    log_config: LogConfig,
    topics: TopicService,
    partitions: Partitions,
    cluster_id: str,
    subscribe: Callable[[Callable[[Delta], None]], object],
    index_directory: str | None,
    exporters: Sequence[Exporter],
    origin_of: OriginOf,
    internal_groups: Sequence[str],
    clock: Clock,
    offload: Offload,
    on_trouble: OnTrouble,
    on_export_failure: OnFailure,
) -> TracingService:
    """The tracing service over `__traces`; what an earlier life stored is opened in the background."""
    recorder = Recorder(clock, pending_max=config.pending_max, is_on=config.enabled)
    ring = Ring(config.ring_spans)
    store = Store(
        topics,
        partitions,
        config=config,
        log_config=log_config,
        index_directory=index_directory,
        clock=clock,
        offload=offload,
        on_trouble=on_trouble,
    )
    places = Places(cluster_id)
    reader = Reader(
        recorder,
        store,
        places,
        topics=topics,
        partitions=partitions,
        offload=offload,
        origin_of=origin_of,
        internal_groups=internal_groups,
    )
    traces = Traces(ring, reader, topics=topics, partitions=partitions, offload=offload)
    switches = _Switches(recorder, partitions)
    for topic in topics.list():
        switches.set(topic)
    subscribe(switches.on_delta)
    sampler = Sampler(config.sample_rate, switches.rates.get)
    recorder.add_sink(store.write)
    recorder.add_sink(ring.push)
    feed = None
    if exporters:
        lanes = [Lane(one, queue_max=config.export_queue_max, on_failure=on_export_failure) for one in exporters]
        choice = Choice(
            sampler,
            places,
            spans_max=config.export_rate_max * FLUSH_MS // 1000,
            failed=config.export_failed,
            slow_ms=config.export_slow_ms,
        )
        feed = Feed(lanes, choice, reader, topics=topics, partitions=partitions, offload=offload)
        recorder.add_sink(feed.sink)
    store.start()
    return TracingService(recorder, ring, store, reader, traces, feed, sampler, enabled=config.enabled)


class _Switches:
    """Keeps the recorder and the sampler informed of what topics want otherwise than the node."""

    def __init__(self, recorder: Recorder, partitions: Partitions) -> None:
        self.rates: dict[UUID, float] = {}
        self._recorder = recorder
        self._partitions = partitions

    def on_delta(self, delta: Delta) -> None:
        """Topics came, went, or have other settings."""
        for event in delta.events:
            if isinstance(event, TopicCreated):
                self.set(event.topic)
            elif isinstance(event, TopicConfigChanged):
                self.set(self._partitions.topic(event.name))
            elif isinstance(event, TopicDeleted):
                self._recorder.set_topic(event.topic_id, is_on=None)
                self.rates.pop(event.topic_id, None)

    def set(self, topic: Topic) -> None:
        """Obey a topic's settings from now on."""
        if not any(name.startswith("trace.") for name in topic.config):
            # Most topics: their settings need not be parsed.
            self._recorder.set_topic(topic.topic_id, is_on=None)
            self.rates.pop(topic.topic_id, None)
            return
        config = self._partitions.config(topic)
        self._recorder.set_topic(topic.topic_id, is_on=config.trace_enabled)
        if config.trace_sample_rate is None:
            self.rates.pop(topic.topic_id, None)
        else:
            self.rates[topic.topic_id] = config.trace_sample_rate
