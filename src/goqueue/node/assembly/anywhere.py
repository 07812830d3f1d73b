"""Anywhere: what the parts of a node in a cluster ask of the other nodes. A node on its own has none of it."""

from __future__ import annotations

from typing import NamedTuple, cast

from msgspec import structs

from goqueue.anywhere.asking import Asking
from goqueue.anywhere.homes import Homes
from goqueue.anywhere.queues.assignments import PollsAnywhere
from goqueue.anywhere.queues.delivery import DeliveryAnywhere
from goqueue.anywhere.queues.group_settings import GroupSettingsAnywhere
from goqueue.anywhere.queues.memberships import MembersAnywhere
from goqueue.anywhere.queues.queue_positions import PositionsAnywhere, ReleasesAnywhere
from goqueue.anywhere.reading.facts import FactsAnywhere
from goqueue.anywhere.reading.reads import ReadsAnywhere
from goqueue.anywhere.transactions.group_commits import GroupsAnywhere
from goqueue.anywhere.writing.appends import AppendsAnywhere
from goqueue.anywhere.writing.delaying import DelayAnywhere
from goqueue.anywhere.writing.publishing import PublishAnywhere, StagingAnywhere
from goqueue.anywhere.writing.scheduling import SchedulesAnywhere
from goqueue.broker.arrivals.append_anywhere import AppendAnywhere, LocalAppends
from goqueue.broker.arrivals.publish import PublishService
from goqueue.broker.reading.record_reads import RecordReader
from goqueue.broker.replicas.partition_facts import LocalFacts
from goqueue.broker.replicas.partitions import Partitions
from goqueue.cluster.calls import PeerCalls
from goqueue.cluster.network import CALLS
from goqueue.cluster.peer_listener import PeerListener
from goqueue.cluster.replication.repairs import Repairs
from goqueue.cluster.replication.verification import Verification
from goqueue.delay.holding.staging import Staging
from goqueue.delay.recurring.schedules import ScheduleService
from goqueue.delay.service import DelayService
from goqueue.delivery.service import DeliveryService
from goqueue.groups.polls import GroupPolls
from goqueue.groups.service import GroupService
from goqueue.node.assembly.replication import Replicas
from goqueue.node.assembly.storage import Storage
from goqueue.node.assembly.tools import Tools
from goqueue.servers.homes.forwarding import Forwarding
from goqueue.servers.homes.table import HOMES
from goqueue.servers.http.app import ROUTES
from goqueue.servers.operations import Route
from goqueue.servers.services import Services

# Between two readings of everything.
VERIFY_PAUSE_S = 60.0


class QueuesAnywhere(NamedTuple):
    """Queues of all nodes, as groups, redrives and front-ends see them."""

    delivery: DeliveryAnywhere
    positions: PositionsAnywhere
    releases: ReleasesAnywhere
    # Set once groups, which need the others, are there.
    members: MembersAnywhere | None = None


async def open_asking(tools: Tools, storage: Storage) -> Asking | None:
    """How this node asks its peers, and will answer them; None on a node of its own."""
    node_id, metadata, cluster = tools.config.broker.node_id, storage.metadata, storage.cluster
    network = tools.network if cluster is None else cluster.network
    if network is None:
        return None
    calls = PeerCalls(network, node_id)
    tools.stack.push_async_callback(calls.close)
    if cluster is None:
        listener = PeerListener(network)
        listener.serve(CALLS, calls.accept)
        await listener.start()
    else:
        cluster.listener.serve(CALLS, calls.accept)
        if storage.replicas is not None:
            _start_repairs(tools, storage, storage.replicas, calls)
    return Asking(calls, Homes(node_id, lambda: metadata.image), metadata.catch_up)


def _start_repairs(tools: Tools, storage: Storage, replicas: Replicas, calls: PeerCalls) -> None:
    repairs = Repairs(
        node_id=tools.config.broker.node_id,
        partitions=storage.partitions,
        terms=replicas.terms,
        metadata=storage.metadata,
        calls=calls,
        syncer=storage.flusher,
        offload=tools.work_offload,
        clock=tools.clock,
        resubscribe=replicas.replication.resubscribe,
    )
    repairs.start()
    tools.stack.push_async_callback(repairs.close)
    verification = Verification(
        storage.partitions,
        tools.work_offload,
        bytes_per_s_max=tools.config.cluster.verify_bytes_per_s_max,
        pause_s=VERIFY_PAUSE_S,
    )
    verification.start()
    tools.stack.push_async_callback(verification.close)


def queues_anywhere(
    asking: Asking,
    delivery: DeliveryService,
    settings: GroupSettingsAnywhere,
    tools: Tools,
    storage: Storage,
) -> QueuesAnywhere:
    """The queues that this node leads, and those that it asks others for."""
    positions = PositionsAnywhere(delivery.positions, asking)
    problem = (lambda: None) if storage.cluster is None else storage.cluster.problem
    anywhere = DeliveryAnywhere(delivery, asking, positions, settings.forget, problem)
    storage.metadata.subscribe(anywhere.on_delta)
    tools.stack.push_async_callback(anywhere.close)
    return QueuesAnywhere(anywhere, positions, ReleasesAnywhere(delivery, asking))


def services_anywhere(
    services: Services, asking: Asking, partitions: Partitions, queues: QueuesAnywhere
) -> tuple[Services, tuple[Route, ...]]:
    """The services and operations as HTTP and gRPC get them."""
    members = cast("GroupService", queues.members)
    polls = GroupPolls(members, services.topics, services.partitions, services.reads, services.clock)
    publish = PublishAnywhere(services.publish, partitions, services.staging, asking)
    anywhere = structs.replace(
        services,
        publish=cast("PublishService", publish),
        staging=cast("Staging", StagingAnywhere(services.staging, asking)),
        delay=cast("DelayService", DelayAnywhere(services.delay, asking)),
        schedules=cast("ScheduleService", SchedulesAnywhere(services.schedules, asking)),
        groups=cast("GroupService", GroupsAnywhere(members, asking)),
        delivery=cast("DeliveryService", queues.delivery),
        group_polls=cast("GroupPolls", PollsAnywhere(services.group_polls, polls, asking)),
    )
    return anywhere, Forwarding(asking, ROUTES, HOMES, lambda: anywhere).routes()


def reading_anywhere(
    asking: Asking | None, facts: LocalFacts, reads: RecordReader
) -> tuple[LocalFacts | FactsAnywhere, RecordReader | ReadsAnywhere]:
    """Facts about partitions and records of them, of all nodes or of the only one."""
    if asking is None:
        return facts, reads
    return FactsAnywhere(facts, asking), ReadsAnywhere(reads, asking)


def appends_anywhere(name: str, local: LocalAppends, asking: Asking | None, tools: Tools) -> AppendAnywhere:
    """How the broker itself appends to partitions, whoever leads them."""
    return tools.appends(local if asking is None else AppendsAnywhere(name, local, asking))
