"""Migration: the steps that bring a data directory to the present layout, in their order."""

from __future__ import annotations

from goqueue.node.assembly.storage import Storage
from goqueue.node.assembly.tools import Tools
from goqueue.node.migration.delays import DelaysStep
from goqueue.node.migration.driver import Migration, Step
from goqueue.node.migration.queues import QueuesStep


async def migrate(tools: Tools, storage: Storage) -> None:
    """Take over what earlier versions wrote, before anything is served."""
    files, metadata, partitions = tools.world.files, storage.metadata, storage.partitions
    offload, clock = tools.work_offload, tools.clock
    queues = QueuesStep(files=files, metadata=metadata, partitions=partitions, offload=offload, clock=clock)
    delays = DelaysStep(files=files, metadata=metadata, partitions=partitions, offload=offload, clock=clock)
    steps: list[Step] = [queues, delays]
    migration = Migration(steps, files=files, metadata=metadata, partitions=partitions, offload=offload, clock=clock)
    await migration.run()
