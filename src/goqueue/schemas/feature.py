"""The schema registry, put together: what the composition root calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from goqueue.broker.arrivals.append_anywhere import AppendAnywhere
from goqueue.broker.replicas.partitions import Partitions
from goqueue.broker.topics import TopicService
from goqueue.clock import Clock
from goqueue.config import SchemasConfig
from goqueue.coordinator.runtime import Coordinator, OnFailure
from goqueue.coordinator.topic import CoordinatorTopic
from goqueue.errors import GoQueueError, InvalidValue
from goqueue.ports import Files, Offload
from goqueue.records import NewRecord, TopicPartition
from goqueue.schemas.following.changes import RegistryChanges
from goqueue.schemas.following.mirror import AskChanges, RegistryMirror
from goqueue.schemas.machine import RegistryMachine
from goqueue.schemas.service import SCHEMAS, SchemaService
from goqueue.schemas.validation.checker import SchemaChecker
from goqueue.schemas.validation.quarantine import OnMoved, Quarantine
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
    view: RegistryView
    changes: RegistryChanges

    async def refusals(self, at: TopicPartition, records: Sequence[NewRecord]) -> Mapping[int, GoQueueError]:
        """Which records a topic would refuse, for those who hold them back in a partition that this node leads."""
        place = self.partitions.leader(*at)
        if not self.step.is_needed(place):
            return {}
        return {at: InvalidValue(reason) for at, reason in (await self.checker.check(place, records)).items()}

    def follow(
        self,
        ask: AskChanges,
        catch_up_metadata: Callable[[], Awaitable[None]],
        topics: TopicService,
        clock: Clock,
        *,
        age_ms_max: int,
    ) -> None:
        """In a cluster: have a copy of the registry here as long as another node coordinates it."""
        self.view.mirror = RegistryMirror(
            ask,
            lambda: topics.find(SCHEMAS) is not None,
            lambda: self.partitions.is_led(SCHEMAS, 0),
            catch_up_metadata,
            clock,
            age_ms_max=age_ms_max,
            on_switched=lambda: _forget_steps(self.partitions),
        )
        self.service.copy = self.view.mirror
        self.view.mirror.start()

    async def close(self) -> None:
        """Answer what is outstanding and stop."""
        if self.view.mirror is not None:
            await self.view.mirror.close()
        await self.quarantine.close()
        await self.service.close()
        await self.worker.close()


async def feature(
    *,
    config: SchemasConfig,
    topics: TopicService,
    partitions: Partitions,
    append_own: AppendAnywhere,
    history_prefix: str,
    files: Files,
    offload: Offload,
    clock: Clock,
    on_failure: OnFailure[int] | None = None,
    on_quarantined: OnMoved | None = None,
) -> Schemas:
    """The schema service over `__schemas`, which has one partition: ids are unique over all subjects."""
    topic = CoordinatorTopic(topics, partitions, SCHEMAS, partition_count=1, config=_TOPIC_CONFIG)
    view = RegistryView(lambda: topics.find(SCHEMAS) is not None, lambda: _forget_steps(partitions))

    def failed(partition: int, reason: BaseException) -> None:
        view.hide()
        changes.wake()
        if on_failure is not None:
            on_failure(partition, reason)

    coordinator = Coordinator(
        SCHEMAS,
        1,
        lambda: RegistryMachine(config.schemas_max, lambda: _forget_steps(partitions), changes.wake),
        open_partition=topic,
        files=files,
        offload=offload,
        clock=clock,
        on_failure=failed,
        on_loaded=view.show,
        refusal=topic.refusal,
    )
    changes = RegistryChanges(coordinator, topic, offload)
    # Another node leads the registry from now on: what this one knows of it would grow old.
    topic.follow_roles(coordinator)
    service = SchemaService(coordinator, topics, _worker(config), config=config)
    # Values have a worker of their own: a slow registration must not hold up messages.
    worker = _worker(config)
    checker = SchemaChecker(view, worker)
    quarantine = Quarantine(topics, append_own, history_prefix=history_prefix, on_moved=on_quarantined)
    await service.start()
    return Schemas(service, CheckSchemas(checker, quarantine), checker, quarantine, worker, partitions, view, changes)


def _forget_steps(partitions: Partitions) -> None:
    """Which steps the batches of a partition pass depends on the switches of subjects."""
    for place in partitions.all_open():
        place.steps.clear()


def _worker(config: SchemasConfig) -> WorkerProcess:
    return WorkerProcess(
        seconds_max=config.worker_ms_max / 1000,
        memory_bytes_max=config.worker_memory_bytes_max,
        cache_size=config.cache_size,
    )
