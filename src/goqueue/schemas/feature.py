"""The schema registry, put together: what the composition root calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from goqueue.broker.partitions import Partitions
from goqueue.broker.publish import PublishService
from goqueue.broker.topics import TopicService
from goqueue.clock import Clock
from goqueue.config import SchemasConfig
from goqueue.coordinator.runtime import Coordinator, OnFailure
from goqueue.coordinator.topic import CoordinatorTopic
from goqueue.errors import GoQueueError, InvalidValue
from goqueue.ports import Files, Offload
from goqueue.records import NewRecord
from goqueue.schemas.machine import RegistryMachine
from goqueue.schemas.service import SCHEMAS, SchemaService
from goqueue.schemas.validation.checker import SchemaChecker
from goqueue.schemas.validation.quarantine import Quarantine
from goqueue.schemas.validation.step import CheckSchemas
from goqueue.schemas.view import RegistryView
from goqueue.schemas.workers import WorkerProcess

# Small segments: only sealed ones are compacted, and replay reads what is not.
_TOPIC_CONFIG: Mapping[str, str] = MappingProxyType(
    {"cleanup.policy": "compact", "segment.bytes": str(16 * 1024 * 1024)}
)


class Schemas(NamedTuple):
    """The registry, and the step that checks messages against it."""

    service: SchemaService
    step: CheckSchemas
    checker: SchemaChecker
    quarantine: Quarantine
    worker: WorkerProcess
    partitions: Partitions

    async def refusals(self, topic: str, records: Sequence[NewRecord]) -> Mapping[int, GoQueueError]:
        """Which records a topic would refuse, for those who hold records back until later."""
        place = self.partitions.leader(topic, 0)
        if not self.step.is_needed(place):
            return {}
        return {at: InvalidValue(reason) for at, reason in (await self.checker.check(place, records)).items()}

    async def close(self) -> None:
        """Answer what is outstanding and stop."""
        await self.service.close()
        await self.worker.close()


async def feature(
    *,
    config: SchemasConfig,
    topics: TopicService,
    partitions: Partitions,
    own_batches: PublishService,
    history_prefix: str,
    files: Files,
    offload: Offload,
    clock: Clock,
    on_failure: OnFailure | None = None,
) -> Schemas:
    """The schema service over `__schemas`, which has one partition: ids are unique over all subjects."""
    topic = CoordinatorTopic(topics, partitions, SCHEMAS, partition_count=1, config=_TOPIC_CONFIG)
    view = RegistryView(lambda: topics.find(SCHEMAS) is not None)

    def forget_steps() -> None:
        for place in partitions.all_open():
            place.steps.clear()

    def failed(partition: int, reason: BaseException) -> None:
        view.hide()
        if on_failure is not None:
            on_failure(partition, reason)

    coordinator = Coordinator(
        SCHEMAS,
        1,
        lambda: RegistryMachine(config.schemas_max, forget_steps),
        open_partition=topic,
        files=files,
        offload=offload,
        clock=clock,
        on_failure=failed,
        on_loaded=view.show,
    )
    service = SchemaService(coordinator, topics, _worker(config), config=config)
    # Values have a worker of their own: a slow registration must not hold up messages.
    worker = _worker(config)
    checker = SchemaChecker(view, worker)
    quarantine = Quarantine(topics, own_batches, history_prefix=history_prefix)
    await service.start()
    return Schemas(service, CheckSchemas(checker, quarantine), checker, quarantine, worker, partitions)


def _worker(config: SchemasConfig) -> WorkerProcess:
    return WorkerProcess(
        seconds_max=config.worker_ms_max / 1000,
        memory_bytes_max=config.worker_memory_bytes_max,
        cache_size=config.cache_size,
    )
