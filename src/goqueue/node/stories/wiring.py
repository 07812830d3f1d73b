"""The tracer and all that the features' hooks call, put together."""

from __future__ import annotations

from typing import NamedTuple

from goqueue.build_info import build_info
from goqueue.ids import REDRIVE_GROUP
from goqueue.node.assembly.storage import Storage
from goqueue.node.assembly.tools import Tools
from goqueue.node.reports import report_exporter, report_stories
from goqueue.node.stories.delays import DelayStories
from goqueue.node.stories.exporters import make_exporters
from goqueue.node.stories.hooks import Hooks
from goqueue.node.stories.queues import QueueStories, origin_of
from goqueue.tracing.feature import TracingService, feature
from goqueue.tracing.store import INDEX_DIRECTORY


class Stories(NamedTuple):
    """The tracer, and whom the features tell."""

    tracing: TracingService
    hooks: Hooks
    queues: QueueStories
    delays: DelayStories


def open_stories(tools: Tools, storage: Storage) -> Stories:
    """The tracer of this node; stories that are stored already are opened in the background."""
    config, world, clock = tools.config, tools.world, tools.clock
    topics, partitions = storage.topics, storage.partitions
    tracing = feature(
        config=config.tracing,
        log_config=config.log,
        topics=topics,
        partitions=partitions,
        cluster_id=storage.metadata.cluster_id,
        subscribe=storage.metadata.subscribe,
        index_directory=None if world.index_root is None else f"{world.index_root}/{INDEX_DIRECTORY}",
        exporters=make_exporters(config, directory=f"{world.data_dir}/traces", version=build_info().version),
        origin_of=origin_of,
        internal_groups=(REDRIVE_GROUP,),
        clock=clock,
        offload=tools.work_offload,
        on_trouble=report_stories,
        on_export_failure=report_exporter,
    )
    tools.stack.push_async_callback(tracing.close)
    hooks = Hooks(tracing.recorder, partitions, clock)
    storage.flusher.on_synced = hooks.synced
    queues = QueueStories(tracing.recorder, topics, clock)
    return Stories(tracing, hooks, queues, DelayStories(tracing.recorder, hooks, topics, clock))
