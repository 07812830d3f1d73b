"""The bundle that front-ends get. What is not in here, a front-end cannot do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from goqueue.caller import ANONYMOUS, Caller
from goqueue.servers.access.guard import EVERYTHING, Everything
from goqueue.servers.callers import BindCaller, Doorkeeper
from goqueue.servers.request_times import RequestTimes

if TYPE_CHECKING:
    from goqueue.broker.arrivals.producer_ids import ProducerIds
    from goqueue.broker.arrivals.publish import PublishService
    from goqueue.broker.broker_defaults import BrokerDefaults
    from goqueue.broker.reading.answer_budget import AnswerBudget
    from goqueue.broker.reading.fetch import FetchService
    from goqueue.broker.reading.queries import PartitionQueries
    from goqueue.broker.reading.record_reads import ReadsRecords
    from goqueue.broker.replicas.partition_facts import PartitionFacts
    from goqueue.broker.topics import TopicService
    from goqueue.clock import Clock
    from goqueue.cluster.administration import ReplicaAdministration
    from goqueue.cluster.cluster_view import ClusterView
    from goqueue.config import Config
    from goqueue.delay.holding.staging import Staging
    from goqueue.delay.recurring.schedules import ScheduleService
    from goqueue.delay.service import DelayService
    from goqueue.delivery.dead_letters.redrive import Redrives
    from goqueue.delivery.lanes.lane_reads import LaneReader
    from goqueue.delivery.service import DeliveryService
    from goqueue.groups.classic.eager import EagerGroups
    from goqueue.groups.offsets.progress import GroupProgress
    from goqueue.groups.polls import GroupPolls
    from goqueue.groups.service import GroupService
    from goqueue.schemas.service import SchemaService
    from goqueue.security.admin import SecurityAdmin
    from goqueue.servers.access.guard import Guard
    from goqueue.tracing.feature import TracingService
    from goqueue.transactions.service import TransactionService


class NodeIdentity(msgspec.Struct, frozen=True):
    """Who answers, and the address that clients are told to come back to."""

    node_id: int
    cluster_id: str
    version: str
    kafka_host: str
    kafka_port: int
    started_ms: int
    # Empty where the build did not know them.
    commit: str = ""
    built: str = ""


class Check(msgspec.Struct, frozen=True):
    """One thing the node must have in order to serve; `problem` is None while it has it.

    A `warning` is for the operator: the node serves, though not all that it should.
    """

    name: str
    problem: str | None = None
    warning: str | None = None


class Services(msgspec.Struct, frozen=True):
    """Everything a front-end may call."""

    identity: NodeIdentity
    config: Config
    clock: Clock
    topics: TopicService
    defaults: BrokerDefaults
    publish: PublishService
    fetch: FetchService
    answers: AnswerBudget
    cluster: ClusterView
    replicas: ReplicaAdministration
    # Of the partitions that this node leads; `partitions` and `reads` are of all.
    queries: PartitionQueries
    partitions: PartitionFacts
    reads: ReadsRecords
    lane_reads: LaneReader
    producer_ids: ProducerIds
    transactions: TransactionService
    delay: DelayService
    staging: Staging
    schedules: ScheduleService
    groups: GroupService
    delivery: DeliveryService
    redrives: Redrives
    eager_groups: EagerGroups
    group_polls: GroupPolls
    group_progress: GroupProgress
    tracing: TracingService
    schemas: SchemaService
    # Makes a share group of a group that is new, at whichever node coordinates it. Who calls has checked permissions.
    use_shared: Callable[[str], Awaitable[object]]
    # Whether the node can serve, asked anew each time.
    checks: Callable[[], Sequence[Check]] = tuple
    # The metrics page, made anew each time.
    metrics: Callable[[], Awaitable[bytes]] | None = None
    request_times: RequestTimes = msgspec.field(default_factory=RequestTimes)
    # Users, keys, roles and rules; there with security.
    security: SecurityAdmin | None = None
    # What the caller may do; without security, everything.
    access: Guard | Everything = EVERYTHING
    # In whose name these services work.
    caller: Caller = ANONYMOUS
    doorkeeper: Doorkeeper = msgspec.field(default_factory=BindCaller)

    def for_caller(self, caller: Caller) -> Services:
        """The same services, as this caller may use them."""
        return self.doorkeeper.admit(self, caller)
