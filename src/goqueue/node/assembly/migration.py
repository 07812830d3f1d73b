"""Migration: the steps that bring a data directory to the present layout, in their order."""

from __future__ import annotations

from goqueue.errors import ConfigError
from goqueue.node.assembly.storage import Storage
from goqueue.node.assembly.tools import Tools
from goqueue.node.migration.delays import DelaysStep
from goqueue.node.migration.driver import Migration, Step
from goqueue.node.migration.layout import former_topics
from goqueue.node.migration.queues import QueuesStep


async def migrate(tools: Tools, storage: Storage) -> None:
    """Take over what earlier versions wrote, before anything is served."""
    files, metadata, partitions = tools.world.files, storage.metadata, storage.partitions
    if storage.cluster is not None:
        # Every node sees the former topics, and one alone has them: others would take over nothing, and delete them.
        if found := " and ".join(former_topics(metadata.image)):
            raise ConfigError([f"the cluster has {found} of an earlier version, which no cluster takes over"])
        return
    offload, clock = tools.work_offload, tools.clock
    queues = QueuesStep(files=files, metadata=metadata, partitions=partitions, offload=offload, clock=clock)
    delays = DelaysStep(files=files, metadata=metadata, partitions=partitions, offload=offload, clock=clock)
    steps: list[Step] = [queues, delays]
    migration = Migration(steps, files=files, metadata=metadata, partitions=partitions, offload=offload, clock=clock)
    await migration.run()
