"""The schema registry, put together: what the composition root calls."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from goqueue.broker.partitions import Partitions
from goqueue.broker.topics import TopicService
from goqueue.clock import Clock
from goqueue.config import SchemasConfig
from goqueue.coordinator.runtime import Coordinator, OnFailure
from goqueue.coordinator.topic import CoordinatorTopic
from goqueue.ports import Files, Offload
from goqueue.schemas.machine import RegistryMachine
from goqueue.schemas.service import SCHEMAS, SchemaService
from goqueue.schemas.workers import WorkerProcess

# Small segments: only sealed ones are compacted, and replay reads what is not.
_TOPIC_CONFIG: Mapping[str, str] = MappingProxyType(
    {"cleanup.policy": "compact", "segment.bytes": str(16 * 1024 * 1024)}
)


def feature(
    *,
    config: SchemasConfig,
    topics: TopicService,
    partitions: Partitions,
    files: Files,
    offload: Offload,
    clock: Clock,
    on_failure: OnFailure | None = None,
) -> SchemaService:
    """The schema service over `__schemas`, which has one partition: ids are unique over all subjects."""
    topic = CoordinatorTopic(topics, partitions, SCHEMAS, partition_count=1, config=_TOPIC_CONFIG)
    coordinator = Coordinator(
        SCHEMAS,
        1,
        lambda: RegistryMachine(config.schemas_max),
        open_partition=topic,
        files=files,
        offload=offload,
        clock=clock,
        on_failure=on_failure,
    )
    checker = WorkerProcess(
        seconds_max=config.worker_ms_max / 1000,
        memory_bytes_max=config.worker_memory_bytes_max,
        cache_size=config.cache_size,
    )
    return SchemaService(coordinator, topics, checker, config=config)
