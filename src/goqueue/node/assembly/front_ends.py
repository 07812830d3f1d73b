"""Front-ends: the services that clients reach, and the servers in front of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from goqueue.anywhere.asking import Asking
from goqueue.broker.broker_defaults import BrokerDefaults
from goqueue.build_info import build_info
from goqueue.cluster.administration import ReplicaAdministration
from goqueue.cluster.cluster_events import ClusterEvents
from goqueue.cluster.cluster_view import ClusterView, KafkaNode
from goqueue.delay.recurring.schedule_homes import ScheduleHomes
from goqueue.delay.recurring.schedules import ScheduleService
from goqueue.groups.classic.eager import EagerGroups
from goqueue.groups.offsets.progress import GroupProgress
from goqueue.groups.polls import GroupPolls
from goqueue.groups.queue.settings import Sharing
from goqueue.node.assembly.features import Features
from goqueue.node.assembly.paths import Paths
from goqueue.node.assembly.peer_watch import cluster_checks, watch_session
from goqueue.node.assembly.storage import Storage
from goqueue.node.assembly.tools import Tools
from goqueue.node.config.addresses import Address
from goqueue.node.disk.housekeeping import Housekeeping
from goqueue.node.health import HealthChecks
from goqueue.node.listeners.doors import open_doors
from goqueue.node.listeners.listening import CannotListen
from goqueue.node.metrics.metrics_page import CopySources, DiskSources, MetricsPage
from goqueue.node.reports import report_cluster_event
from goqueue.node.serving import Serving
from goqueue.node.stories.wiring import Stories
from goqueue.servers.http.server import HttpServer
from goqueue.servers.kafka.server import KafkaServer
from goqueue.servers.operations import Route
from goqueue.servers.request_times import RequestTimes
from goqueue.servers.services import NodeIdentity, Services

if TYPE_CHECKING:
    from goqueue.anywhere.queues.memberships import MembersAnywhere
    from goqueue.cluster.peer_watch import PeerWatch
    from goqueue.groups.service import GroupService
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
    tools: Tools,
    storage: Storage,
    paths: Paths,
    features: Features,
    stories: Stories,
    serving: Serving,
    watch: PeerWatch | None,
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
    metadata = storage.metadata
    cluster = ClusterView(_here(tools), lambda: metadata.image, _events(tools, storage), watch=watch)
    watch_session(tools, storage.cluster, metadata)
    metrics = MetricsPage(
        cluster=cluster,
        replication=_copies(storage),
        node_id=config.broker.node_id,
        clock=clock,
        topics=topics,
        partitions=partitions,
        groups=features.groups,
        transactions=features.transactions,
        delivery=features.delivery,
        delay=features.delay,
        tracing=stories.tracing,
        schemas=features.schemas,
        storage=DiskSources(topics, partitions, storage.flusher.stats, housekeeping.stats, files.free_bytes, failures),
        request_times=request_times,
        connections=serving.connections,
        certificate_days=serving.certificate_days,
        security=lambda: serving.security,
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
        cluster=cluster,
        replicas=ReplicaAdministration(storage.metadata),
        queries=paths.queries,
        partitions=paths.facts,
        reads=paths.reads,
        lane_reads=paths.lane_reads,
        producer_ids=storage.producer_ids,
        transactions=features.transactions,
        delay=features.delay,
        staging=features.staging,
        schedules=ScheduleService(
            features.delay, topics, ScheduleHomes(storage.metadata), config=config.delay, clock=clock
        ),
        groups=features.groups,
        delivery=features.delivery,
        redrives=features.redrives,
        eager_groups=EagerGroups(features.groups, topics),
        group_polls=GroupPolls(features.groups, topics, paths.facts, paths.reads, clock),
        group_progress=GroupProgress(features.groups, topics, paths.facts, paths.reads, clock),
        schemas=features.schemas.service,
        tracing=stories.tracing,
        use_shared=partial(_members(features).ensure_queue, sharing=Sharing.SHARED),
        checks=HealthChecks(
            files,
            storage.metadata,
            partitions,
            config.durability,
            failures,
            features.delay,
            serving,
            cluster_checks(storage.cluster, metadata, config.broker.node_id, watch),
        ),
        metrics=metrics,
        request_times=request_times,
    )


async def secure(
    tools: Tools, storage: Storage, services: Services, asking: Asking | None
) -> tuple[Services, Security | None]:
    """With security on, the services behind a doorkeeper that authorises."""
    config = tools.config.security
    if not config.enabled:
        return services, None
    # Not above: a broker without security does not wait for what it does not use.
    from goqueue.node.security.parts import open_security, secured

    security = await open_security(
        config,
        metadata=storage.metadata,
        topics=storage.topics,
        partitions=storage.partitions,
        offload=tools.work_offload,
        clock=tools.clock,
        stack=tools.stack,
        node_id=tools.config.broker.node_id,
        asking=asking,
    )
    return secured(services, security), security


async def serve(
    tools: Tools,
    services: Services,
    anywhere: Services,
    routes: Sequence[Route],
    serving: Serving,
    security: Security | None,
) -> None:
    """Accept clients, now that everything behind the front-ends is there.

    Kafka's clients find leaders by themselves and get what this node has; all others get `anywhere`.
    """
    world, stack = tools.world, tools.stack
    serving.security = security
    if world.listeners is not None:
        doors = open_doors(tools.config, world.listeners, tools.clock, stack, serving)
        kafka = KafkaServer(services, doors["kafka"], security=security)
        http = HttpServer(anywhere, doors["http"], routes, security=security)
        servers: list[tuple[Server, Address | None]] = [(kafka, world.kafka), (http, world.http)]
        if doors["grpc"]:
            # Imported only now: grpcio would double the time that a start takes.
            from goqueue.servers.grpc.server import GrpcServer

            servers.append((GrpcServer(anywhere, doors["grpc"], routes, security=security), world.grpc))
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


def _events(tools: Tools, storage: Storage) -> ClusterEvents:
    """What happened: in a cluster from before this node registered, on a node of its own from now on."""
    if storage.cluster is not None:
        return storage.cluster.events
    events = ClusterEvents(tools.config.broker.node_id, storage.metadata.image, tools.clock, report_cluster_event)
    storage.metadata.subscribe(events.on_delta)
    return events


def _copies(storage: Storage) -> CopySources | None:
    """What counts on the way from and to other nodes; None on a node of its own."""
    if storage.cluster is None or storage.replicas is None:
        return None
    return CopySources(storage.replicas.terms, storage.replicas.replication.counts, storage.cluster.traffic)


def _members(features: Features) -> GroupService | MembersAnywhere:
    """Groups as those who read in their name need them: of every node, where there are several."""
    queues = features.queues
    return features.groups if queues is None or queues.members is None else queues.members


def _here(tools: Tools) -> KafkaNode:
    advertised = tools.world.advertised
    return KafkaNode(tools.config.broker.node_id, advertised.host, advertised.port, tools.config.cluster.rack or None)


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
