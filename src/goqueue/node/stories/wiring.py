"""The tracer and all that the features' hooks call, put together."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import NamedTuple

from goqueue.broker.partitions import Partitions
from goqueue.broker.topics import TopicService
from goqueue.clock import Clock
from goqueue.config import Config
from goqueue.delay.service import DELAYED
from goqueue.ids import REDRIVE_GROUP
from goqueue.metadata.events import Delta
from goqueue.node.disk.flusher import Flusher
from goqueue.node.reports import report_exporter, report_stories
from goqueue.node.stories.delays import DelayStories
from goqueue.node.stories.exporters import make_exporters
from goqueue.node.stories.hooks import Hooks
from goqueue.node.stories.queues import QueueStories, origin_of
from goqueue.node.world import World
from goqueue.ports import Offload
from goqueue.tracing.feature import TracingService, feature
from goqueue.tracing.store import INDEX_DIRECTORY


class Stories(NamedTuple):
    """The tracer, and whom the features tell."""

    tracing: TracingService
    hooks: Hooks
    queues: QueueStories
    delays: DelayStories


def open_stories(
    config: Config,
    world: World,
    stack: AsyncExitStack,
    flusher: Flusher,
    *,
    topics: TopicService,
    partitions: Partitions,
    cluster_id: str,
    version: str,
    subscribe: Callable[[Callable[[Delta], None]], object],
    clock: Clock,
    offload: Offload,
) -> Stories:
    """The tracer of this node; stories that are stored already are opened in the background."""
    tracing = feature(
        config=config.tracing,
        log_config=config.log,
        topics=topics,
        partitions=partitions,
        cluster_id=cluster_id,
        subscribe=subscribe,
        index_directory=None if world.index_root is None else f"{world.index_root}/{INDEX_DIRECTORY}",
        exporters=make_exporters(config, directory=f"{world.data_dir}/traces", version=version),
        origin_of=origin_of,
        slots_topic=DELAYED,
        internal_groups=(REDRIVE_GROUP,),
        clock=clock,
        offload=offload,
        on_trouble=report_stories,
        on_export_failure=report_exporter,
    )
    stack.push_async_callback(tracing.close)
    hooks = Hooks(tracing.recorder, partitions, clock)
    flusher.on_synced = hooks.synced
    queues = QueueStories(tracing.recorder, topics, clock)
    return Stories(tracing, hooks, queues, DelayStories(tracing.recorder, hooks, topics, clock))
