"""Front-ends: the services that clients reach, and the servers in front of them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

from goqueue.broker.broker_defaults import BrokerDefaults
from goqueue.build_info import build_info
from goqueue.delay.schedules import ScheduleService
from goqueue.delivery.lane_reads import LaneReader
from goqueue.groups.classic.eager import EagerGroups
from goqueue.groups.offsets.progress import GroupProgress
from goqueue.groups.polls import GroupPolls
from goqueue.node.assembly.features import Features
from goqueue.node.assembly.paths import Paths
from goqueue.node.assembly.storage import Storage
from goqueue.node.assembly.tools import Tools
from goqueue.node.config.addresses import Address
from goqueue.node.disk.housekeeping import Housekeeping
from goqueue.node.doors import open_doors
from goqueue.node.health import HealthChecks
from goqueue.node.listening import CannotListen
from goqueue.node.metrics.metrics_page import DiskSources, MetricsPage
from goqueue.node.serving import Serving
from goqueue.node.stories.wiring import Stories
from goqueue.servers.http.app import ROUTES
from goqueue.servers.http.server import HttpServer
from goqueue.servers.kafka.server import KafkaServer
from goqueue.servers.request_times import RequestTimes
from goqueue.servers.services import NodeIdentity, Services

if TYPE_CHECKING:
    from goqueue.security.service import Security


class Server(Protocol):
    """A front-end on a socket that is bound already."""

    async def start(self) -> None:
        """Accept clients."""
        ...

    async def stop(self) -> None:
        """Let go of them."""
        ...


def make_services(
    tools: Tools, storage: Storage, paths: Paths, features: Features, stories: Stories, serving: Serving
) -> Services:
    """The one bundle that all front-ends get, with health and metrics of everything behind it."""
    config, clock, topics, partitions = tools.config, tools.clock, storage.topics, storage.partitions
    housekeeping = Housekeeping(
        partitions,
        clock=clock,
        offload=tools.work_offload,
        log=config.log,
        durability=config.durability,
        on_removed=stories.hooks.removed,
    )
    housekeeping.start()
    tools.stack.push_async_callback(housekeeping.close)
    request_times = RequestTimes()
    files, failures = tools.world.files, storage.write_failures
    metrics = MetricsPage(
        topics=topics,
        partitions=partitions,
        groups=features.groups,
        transactions=features.transactions,
        delivery=features.delivery,
        delay=features.delay,
        tracing=stories.tracing,
        storage=DiskSources(topics, partitions, storage.flusher.stats, housekeeping.stats, files.free_bytes, failures),
        request_times=request_times,
        connections=serving.connections,
        certificate_days=serving.certificate_days,
    )
    return Services(
        identity=_identity(tools, storage),
        config=config,
        clock=clock,
        topics=topics,
        defaults=BrokerDefaults(storage.metadata),
        publish=features.publish,
        fetch=paths.fetch,
        answers=paths.answers,
        queries=paths.queries,
        reads=paths.reads,
        lane_reads=LaneReader(paths.reads, partitions, offload=tools.work_offload, answers=paths.answers),
        producer_ids=storage.producer_ids,
        transactions=features.transactions,
        delay=features.delay,
        staging=features.staging,
        schedules=ScheduleService(features.delay, topics, config=config.delay, clock=clock),
        groups=features.groups,
        delivery=features.delivery,
        redrives=features.redrives,
        eager_groups=EagerGroups(features.groups, topics),
        group_polls=GroupPolls(features.groups, topics, paths.queries, paths.reads, clock),
        group_progress=GroupProgress(features.groups, topics, paths.queries, paths.reads, clock),
        schemas=features.schemas,
        tracing=stories.tracing,
        checks=HealthChecks(files, storage.metadata, partitions, config.durability, failures, features.delay, serving),
        metrics=metrics,
        request_times=request_times,
    )


async def secure(tools: Tools, storage: Storage, services: Services) -> tuple[Services, Security | None]:
    """With security on, the services behind a doorkeeper that authorises."""
    config = tools.config.security
    if not config.enabled:
        return services, None
    # Not above: a broker without security does not wait for what it does not use.
    from goqueue.node.security import open_security, secured

    security = await open_security(
        config,
        metadata=storage.metadata,
        topics=storage.topics,
        partitions=storage.partitions,
        offload=tools.work_offload,
        clock=tools.clock,
        stack=tools.stack,
    )
    return secured(services, security), security


async def serve(tools: Tools, services: Services, serving: Serving, security: Security | None) -> None:
    """Accept clients, now that everything behind the front-ends is there."""
    world, stack = tools.world, tools.stack
    if world.listeners is not None:
        doors = open_doors(tools.config, world.listeners, tools.clock, stack, serving)
        kafka = KafkaServer(services, doors["kafka"], security=security)
        http = HttpServer(services, doors["http"], security=security)
        servers: list[tuple[Server, Address | None]] = [(kafka, world.kafka), (http, world.http)]
        if doors["grpc"]:
            # Imported only now: grpcio would double the time that a start takes.
            from goqueue.servers.grpc.server import GrpcServer

            servers.append((GrpcServer(services, doors["grpc"], ROUTES, security=security), world.grpc))
        for server, address in servers:
            try:
                await server.start()
            except OSError as error:
                # Two processes may bind one address at the same moment; only one of them gets to listen.
                raise CannotListen(f"cannot listen on {address}: {os.strerror(error.errno or 0)}") from error
            stack.push_async_callback(server.stop)
        serving.count(lambda: kafka.connection_count)
    serving.begin()
    stack.callback(serving.end)


def _identity(tools: Tools, storage: Storage) -> NodeIdentity:
    build = build_info()
    return NodeIdentity(
        node_id=tools.config.broker.node_id,
        cluster_id=storage.metadata.cluster_id,
        version=build.version,
        commit=build.commit,
        built=build.built,
        kafka_host=tools.world.advertised.host,
        kafka_port=tools.world.advertised.port,
        started_ms=tools.clock.now_ms(),
    )
