"""The cluster: its nodes, what they lead, which partitions are in trouble, and what happened.

Heartbeats, joins, leaves and votes are no requests here: nodes keep sessions in the metadata store, which elects the
controller too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from goqueue.cluster.cluster_view import Lags, PartitionState
from goqueue.errors import InvalidRequest
from goqueue.records import TopicPartition
from goqueue.servers.http.bodies.times import format_time
from goqueue.servers.http.route import Answer, Call, Route
from goqueue.servers.http.types.common import Body, Reply
from goqueue.servers.services import Services


class NodeRow(Reply):
    """One node of the cluster. `status` is alive, failing (asked, and not ready), fenced or dead."""

    id: int
    kafka: str
    status: str
    version: str
    # No defaults from here on, but for the rack: what is zero is told as well.
    is_controller: bool
    broker_epoch: int
    leaders: int
    replicas: int
    in_sync: int
    # How far its clock is ahead of that of the node that was asked; null: not known.
    clock_skew_ms: int | None
    # Records that its copies are behind their leaders, as far as these answer; null: not known of one of them.
    lag: int | None
    addresses: dict[str, str]
    rack: str = ""


class Cluster(Reply):
    """The nodes, and the one that decides."""

    cluster_id: str
    controller: int
    nodes: list[NodeRow]


class ClusterState(Cluster):
    """The same with figures of the partitions."""

    controller_epoch: int
    version: int
    topics: int
    partitions: int
    under_replicated: int
    below_minimum: int
    offline: int


class PartitionRow(Reply):
    """One partition and its replicas."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    eligible: list[int]
    adding: list[int]
    removing: list[int]
    min_insync: int
    # Records that each replica is behind the leader, by node id; null: not known.
    lag: dict[str, int | None]


class PartitionRows(Reply):
    """Partitions of the cluster."""

    partitions: list[PartitionRow]
    count: int


class ClusterMetadata(Reply):
    """All that the metadata says of where partitions are."""

    cluster_id: str
    version: int
    controller: int
    nodes: list[NodeRow]
    partitions: list[PartitionRow]


class ClusterHealth(Reply):
    """Whether every partition can be written with acks=all. `degraded`: it can, with fewer copies than wanted.

    Or while the metadata store takes no changes.
    """

    status: Literal["healthy", "degraded", "unhealthy"]
    nodes_alive: int
    nodes_total: int
    controller: int
    under_replicated: int
    below_minimum: int
    offline: int
    # The largest difference between the clock of the node that was asked and that of another one.
    clock_skew_ms_max: int
    warnings: list[str]


class EventRow(Reply):
    """One thing that happened."""

    at: str
    event: str
    node: int | None = None
    topic: str | None = None
    partition: int | None = None
    detail: str = ""


class EventRows(Reply):
    """What happened, the newest first, as the node that was asked saw it since its start."""

    events: list[EventRow]
    count: int


class PartitionsQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which partitions: all, or those in trouble of one kind."""

    state: Literal["all", "under_replicated", "below_minimum", "offline", "moving"] = "all"
    topic: Annotated[str, Meta(max_length=249)] | None = None


class EventsQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How many events, and of which kind. `scope` leaves out those of partitions, or of nodes and the controller."""

    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    scope: Literal["all", "nodes", "partitions"] = "all"
    event: Annotated[str, Meta(max_length=40)] | None = None


class ElectBody(Body):
    """Which partition gets a leader: its first replica, or with `unclean` any that lives, at the risk of loss."""

    topic: Annotated[str, Meta(min_length=1, max_length=249)]
    partition: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    unclean: bool = False
    # Says that acknowledged messages may be lost by it.
    accept_data_loss: bool = False


_CHOICES: Mapping[str, Callable[[PartitionState], bool]] = {
    "all": lambda _: True,
    "under_replicated": lambda one: one.is_under_replicated,
    "below_minimum": lambda one: one.is_below_minimum,
    "offline": lambda one: one.is_offline,
    "moving": lambda one: bool(one.assignment.adding or one.assignment.removing),
}


async def nodes(services: Services, _call: Call) -> Cluster:
    """The nodes of the cluster."""
    return Cluster(
        cluster_id=services.identity.cluster_id, controller=services.cluster.controller(), nodes=await _nodes(services)
    )


async def state(services: Services, _call: Call) -> ClusterState:
    """A snapshot of the cluster."""
    partitions = list(services.cluster.partitions())
    return ClusterState(
        cluster_id=services.identity.cluster_id,
        controller=services.cluster.controller(),
        controller_epoch=services.cluster.controller_epoch(),
        version=services.cluster.revision(),
        nodes=await _nodes(services),
        topics=len({one.place.topic for one in partitions}),
        partitions=len(partitions),
        under_replicated=sum(one.is_under_replicated for one in partitions),
        below_minimum=sum(one.is_below_minimum for one in partitions),
        offline=sum(one.is_offline for one in partitions),
    )


async def metadata(services: Services, _call: Call) -> ClusterMetadata:
    """Nodes, and every partition with its replicas."""
    lags = await services.cluster.lags()
    return ClusterMetadata(
        cluster_id=services.identity.cluster_id,
        version=services.cluster.revision(),
        controller=services.cluster.controller(),
        nodes=await _nodes(services),
        partitions=[_row(one, lags) for one in services.cluster.partitions()],
    )


async def health(services: Services, _call: Call) -> Answer:
    """Whether the cluster can take writes that last; 503 if some partition cannot."""
    partitions = list(services.cluster.partitions())
    known = services.cluster.nodes()
    alive = sum(services.cluster.is_alive(node) for node in known)
    under = sum(one.is_under_replicated for one in partitions)
    below, offline = sum(one.is_below_minimum for one in partitions), sum(one.is_offline for one in partitions)
    # Without a session nobody tells this node what happens: what it knows may be long over.
    problems = {check.name: check.problem for check in services.checks()}
    session, metadata = problems.get("session"), problems.get("metadata")
    is_broken = bool(below or offline or session) or services.cluster.controller() < 0
    is_degraded = bool(under or metadata) or alive < len(known)
    clocks = None if services.cluster.watch is None else services.cluster.watch.warning()
    reply = ClusterHealth(
        status="unhealthy" if is_broken else "degraded" if is_degraded else "healthy",
        nodes_alive=alive,
        nodes_total=len(known),
        controller=services.cluster.controller(),
        under_replicated=under,
        below_minimum=below,
        offline=offline,
        clock_skew_ms_max=services.cluster.clock_skew_ms_max(),
        warnings=[one for one in (session, metadata, clocks) if one is not None],
    )
    return Answer(503 if is_broken else 200, reply)


async def partitions(services: Services, call: Call) -> PartitionRows:
    """Partitions with their replicas: all, or those in trouble."""
    query: PartitionsQuery = call.query
    is_wanted = _CHOICES[query.state]
    lags = await services.cluster.lags()
    rows = [
        _row(one, lags)
        for one in services.cluster.partitions()
        if is_wanted(one) and query.topic in {None, one.place.topic}
    ]
    return PartitionRows(partitions=rows, count=len(rows))


async def events(services: Services, call: Call) -> EventRows:
    """What happened to nodes, leaders and replicas."""
    query: EventsQuery = call.query
    found = [
        one
        for one in services.cluster.events()
        if query.event in {None, one.kind} and query.scope in {"all", "partitions" if one.topic else "nodes"}
    ][: query.limit]
    rows = [
        EventRow(
            at=format_time(one.at_ms),
            event=one.kind,
            node=None if one.node_id < 0 else one.node_id,
            topic=one.topic or None,
            partition=None if one.partition < 0 else one.partition,
            detail=one.detail,
        )
        for one in found
    ]
    return EventRows(events=rows, count=len(rows))


async def elect(services: Services, call: Call) -> PartitionRow:
    """Let the first replica of a partition lead it, or any that lives."""
    body: ElectBody = call.body
    if body.unclean and not body.accept_data_loss:
        raise InvalidRequest(
            "an unclean election may lose acknowledged messages",
            field="accept_data_loss",
            hint="send accept_data_loss: true if no in-sync replica will come back",
        )
    place = TopicPartition(body.topic, body.partition)
    changed = await services.replicas.elect(place, unclean=body.unclean)
    return _row(services.cluster.state(place, changed), await services.cluster.lags())


async def _nodes(services: Services) -> list[NodeRow]:
    cluster = services.cluster
    lags = await cluster.lags()
    behind: dict[int, int | None] = {}
    for one in cluster.partitions():
        for node_id, records in lags.of(one.place, one.assignment).items():
            before = behind.get(node_id, 0)
            behind[node_id] = None if records is None or before is None else before + records
    partitions = [one.assignment for one in cluster.partitions()]
    leads = Counter(one.leader for one in partitions)
    holds = Counter(node for one in partitions for node in one.replicas)
    in_sync = Counter(node for one in partitions for node in one.isr)
    rows = []
    for node_id, node in sorted(cluster.nodes().items()):
        address = cluster.broker(node_id)
        rows.append(
            NodeRow(
                id=node_id,
                kafka="" if address is None else f"{address.host}:{address.port}",
                status=_status(services, node_id, is_fenced=node.fenced),
                version=node.version,
                is_controller=cluster.controller() == node_id,
                rack=node.rack,
                broker_epoch=cluster.epoch_of(node_id),
                leaders=leads[node_id],
                replicas=holds[node_id],
                in_sync=in_sync[node_id],
                clock_skew_ms=cluster.clock_skew_ms(node_id),
                lag=behind.get(node_id, 0),
                addresses=dict(node.addresses),
            )
        )
    return rows


def _status(services: Services, node_id: int, *, is_fenced: bool) -> str:
    if not services.cluster.is_alive(node_id):
        return "dead"
    if is_fenced:
        return "fenced"
    if node_id == services.identity.node_id and any(check.problem is not None for check in services.checks()):
        return "failing"
    return "alive"


def _row(one: PartitionState, lags: Lags) -> PartitionRow:
    assignment = one.assignment
    return PartitionRow(
        topic=one.place.topic,
        partition=one.place.partition,
        leader=assignment.leader,
        leader_epoch=assignment.leader_epoch,
        replicas=list(assignment.replicas),
        isr=list(assignment.isr),
        eligible=list(assignment.eligible),
        adding=list(assignment.adding),
        removing=list(assignment.removing),
        min_insync=one.min_insync,
        lag={str(node_id): records for node_id, records in lags.of(one.place, assignment).items()},
    )


ROUTES = (
    Route("GET", "/cluster", nodes, "The nodes", {200: Cluster}),
    Route("GET", "/cluster/nodes", nodes, "The nodes", {200: Cluster}),
    Route("GET", "/cluster/state", state, "A snapshot of the cluster", {200: ClusterState}),
    Route("GET", "/cluster/metadata", metadata, "Nodes and all partitions", {200: ClusterMetadata}),
    Route(
        "GET",
        "/cluster/health",
        health,
        "Whether writes last",
        {200: ClusterHealth, 503: ClusterHealth},
    ),
    Route(
        "GET",
        "/cluster/partitions",
        partitions,
        "Partitions and their replicas",
        {200: PartitionRows},
        query=PartitionsQuery,
    ),
    Route("GET", "/cluster/events", events, "What happened in the cluster", {200: EventRows}, query=EventsQuery),
    Route(
        "POST",
        "/cluster/elections",
        elect,
        "Elect the leader of a partition",
        {200: PartitionRow},
        body=ElectBody,
        errors=(400, 403, 404, 409),
    ),
)
