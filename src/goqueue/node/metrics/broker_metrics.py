"""The metrics page: every series with its help, filled from the parts that count.

A series exists only if something feeds it. What can be asked for is asked for when the page
is read; nothing on the way of a message does more than add to an integer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from goqueue.broker.replicas.partitions import Partitions
from goqueue.broker.topics import TopicService
from goqueue.clock import Clock
from goqueue.cluster.cluster_view import ClusterView
from goqueue.delay.service import DelayService
from goqueue.delivery.service import DeliveryService
from goqueue.errors import GroupNotFound, NotLeader, PartitionNotFound, TopicNotFound
from goqueue.groups.descriptions import ClassicDescription
from goqueue.groups.service import GroupService
from goqueue.groups.statistics import DURATION_BUCKETS_MS
from goqueue.histogram import BUCKETS_SECONDS
from goqueue.node.metrics.cluster_metrics import cluster_metrics
from goqueue.node.metrics.delivery_metrics import delivery_metrics
from goqueue.node.metrics.metrics_page import CopySources, DiskSources
from goqueue.node.metrics.replication_metrics import replication_metrics
from goqueue.node.metrics.schema_metrics import schema_metrics
from goqueue.node.metrics.security_metrics import security_metrics
from goqueue.node.metrics.series import PREFIX, Series, buckets
from goqueue.node.metrics.storage_metrics import storage_metrics
from goqueue.node.metrics.tracing_metrics import tracing_metrics
from goqueue.records import Priority
from goqueue.schemas.feature import Schemas
from goqueue.security.service import Security
from goqueue.servers.request_times import RequestTimes
from goqueue.tracing.feature import TracingService
from goqueue.transactions.service import TransactionService
from goqueue.transactions.statistics import END_BUCKETS_SECONDS

_TOPIC = ("topic",)
_GROUP = ("consumer_group",)
_POSITION = ("topic", "partition", "consumer_group")

PUBLISHED = Series("broker_messages_published", "Messages stored.", _TOPIC)
PUBLISHED_BY_PRIORITY = Series("broker_priority_messages_published", "Messages stored, by lane.", ("topic", "priority"))
BYTES_PUBLISHED = Series("broker_bytes_published", "Bytes of the batches stored.", _TOPIC)
CONSUMED = Series("broker_messages_consumed", "Messages given to readers.", _TOPIC)
BYTES_CONSUMED = Series("broker_bytes_consumed", "Bytes of the batches given to readers.", _TOPIC)
FAILED = Series("broker_messages_failed", "Batches refused, by the code of the error.", ("topic", "error_type"))
TOPICS = Series("broker_topic_count", "Topics, the broker's own included.")
TOPIC_PARTITIONS = Series("broker_topic_partitions", "Partitions of a topic.", _TOPIC)
REQUEST_SECONDS = Series("broker_request_latency_seconds", "From a request to its answer.", ("server", "api"))
CONNECTIONS = Series("broker_active_connections", "Open connections of Kafka clients.")
CERTIFICATE_DAYS = Series("tls_certificate_days_left", "Days until the first certificate of this node expires.")
DELAYED_SCHEDULED = Series("broker_delayed_messages_scheduled", "Messages held back.", _TOPIC)
DELAYED_FIRED = Series("broker_delayed_messages_fired", "Held back messages that entered their topic.", _TOPIC)
DELAYED_CANCELLED = Series("broker_delayed_messages_canceled", "Held back messages that were cancelled.", _TOPIC)
DELAYED_PENDING = Series("broker_delayed_messages_pending", "Messages that wait until they are due.", _TOPIC)
DELAYED_EXPIRED = Series("broker_delayed_messages_expired", "Due messages that their topic did not take.", _TOPIC)
COMMITTED = Series("consumer_committed_offset", "Offset that a group has committed.", _POSITION)
LAG = Series("consumer_lag", "Messages between a group's commit and the end.", _POSITION)
MEMBERS = Series("consumer_group_members", "Members of a group.", _GROUP)
GENERATION = Series("consumer_group_generation", "Generation or epoch of a group.", _GROUP)
STATE = Series("consumer_group_state", "1 for the state that a group is in.", ("consumer_group", "state"))
REBALANCES = Series("consumer_rebalances", "Rebalances, by what set them off.", ("trigger",))
MOVED = Series("consumer_partitions_moved", "Partitions given to another member.")
REVOCATION_TIMEOUTS = Series("consumer_revocation_timeouts", "Members fenced for not giving partitions up in time.")
REBALANCE_SECONDS = Series("consumer_rebalance_latency_seconds", "How long rebalances took.")
TRANSACTIONAL_IDS = Series("transactions_ids", "Transactional ids, by the state of their last transaction.", ("state",))
PARTICIPANTS = Series("transactions_prepared_participants", "Tasks that stage records for an external coordinator.")
TRANSACTIONS_BEGUN = Series("transactions_begun", "Transactions begun.")
TRANSACTIONS_ENDED = Series("transactions_ended", "Transactions ended in all their partitions.", ("outcome",))
TRANSACTIONS_TIMED_OUT = Series("transactions_timed_out", "Transactions aborted because they timed out.")
MARKERS = Series("transactions_markers_written", "Partitions told how a transaction ended.")
MARKER_RETRIES = Series("transactions_marker_retries", "Attempts to tell a partition that failed.")
TRANSACTION_END_SECONDS = Series("transactions_end_seconds", "From a decision to its last marker.")


class Metrics:
    """Collects every series of the node when asked."""

    def __init__(
        self,
        *,
        topics: TopicService,
        partitions: Partitions,
        groups: GroupService,
        transactions: TransactionService,
        delivery: DeliveryService,
        delay: DelayService,
        tracing: TracingService,
        schemas: Schemas,
        storage: DiskSources,
        request_times: RequestTimes,
        connections: Callable[[], int],
        cluster: ClusterView,
        replication: CopySources | None,
        node_id: int,
        clock: Clock,
        certificate_days: Callable[[], float | None] = lambda: None,
        security: Callable[[], Security | None] = lambda: None,
    ) -> None:
        self._cluster = cluster
        self._replication = replication
        self._node_id = node_id
        self._clock = clock
        self._topics = topics
        self._partitions = partitions
        self._groups = groups
        self._transactions = transactions
        self._delivery = delivery
        self._delay = delay
        self._tracing = tracing
        self._schemas = schemas
        self._security = security
        self._storage = storage
        self._request_times = request_times
        self._connections = connections
        self._certificate_days = certificate_days

    async def __call__(self) -> bytes:
        """The page, in Prometheus' text format."""
        waited = [*await self._consumers(), *await self._ended(), *await delivery_metrics(self._delivery)]
        told = [*tracing_metrics(self._tracing), *schema_metrics(self._schemas)]
        security = self._security()
        if security is not None:
            told += security_metrics(security)
        nodes = [
            *cluster_metrics(self._cluster, self._node_id, self._clock.now_ms()),
            *replication_metrics(self._cluster, self._replication),
        ]
        return page([*self._broker(), *self._delayed(), *storage_metrics(self._storage), *nodes, *told, *waited])

    def _delayed(self) -> Iterator[Metric]:
        stats = self._delay.stats()
        yield DELAYED_SCHEDULED.counter(((topic,), count) for topic, count in sorted(stats.scheduled.items()))
        yield DELAYED_FIRED.counter(((topic,), count) for topic, count in sorted(stats.delivered.items()))
        yield DELAYED_CANCELLED.counter(((topic,), count) for topic, count in sorted(stats.cancelled.items()))
        yield DELAYED_PENDING.gauge(((topic,), count) for topic, count in sorted(stats.pending.items()))
        yield DELAYED_EXPIRED.gauge(((topic,), count) for topic, count in sorted(stats.expired.items()))

    def _broker(self) -> Iterator[Metric]:
        traffic = self._partitions.traffic.items()
        yield PUBLISHED.counter(((topic,), one.messages_in) for topic, one in traffic)
        yield BYTES_PUBLISHED.counter(((topic,), one.bytes_in) for topic, one in traffic)
        yield CONSUMED.counter(((topic,), one.messages_out) for topic, one in traffic)
        yield BYTES_CONSUMED.counter(((topic,), one.bytes_out) for topic, one in traffic)
        # Only lanes that were ever used: most topics use one.
        yield PUBLISHED_BY_PRIORITY.counter(
            ((topic, lane.name.lower()), one.lanes_in[lane])
            for topic, one in traffic
            for lane in Priority
            if one.lanes_in[lane]
        )
        yield FAILED.counter(
            ((topic, code), count) for topic, one in traffic for code, count in sorted(one.failures.items())
        )
        topics = self._topics.list()
        yield TOPICS.gauge([((), len(topics))])
        yield TOPIC_PARTITIONS.gauge(((topic.name,), topic.partition_count) for topic in topics)
        yield CONNECTIONS.gauge([((), self._connections())])
        days = self._certificate_days()
        yield CERTIFICATE_DAYS.gauge([] if days is None else [((), days)])
        family = HistogramMetricFamily(
            PREFIX + REQUEST_SECONDS.name, REQUEST_SECONDS.help, labels=REQUEST_SECONDS.labels
        )
        for labels, histogram in self._request_times.items():
            family.add_metric(labels, buckets(BUCKETS_SECONDS, histogram.counts), histogram.seconds)
        yield family

    async def _ended(self) -> list[Metric]:
        counted = self._transactions.statistics
        states = Counter(one.state.kafka_name for one in await self._transactions.list())
        staging = sum(len(one.participants) for one in await self._transactions.list_writers())
        seconds = HistogramMetricFamily(PREFIX + TRANSACTION_END_SECONDS.name, TRANSACTION_END_SECONDS.help, labels=())
        seconds.add_metric((), buckets(END_BUCKETS_SECONDS, counted.end_counts), counted.end_seconds)
        return [
            TRANSACTIONAL_IDS.gauge(((state,), count) for state, count in sorted(states.items())),
            PARTICIPANTS.gauge([((), staging)]),
            TRANSACTIONS_BEGUN.counter([((), counted.begun)]),
            TRANSACTIONS_ENDED.counter([(("commit",), counted.committed), (("abort",), counted.aborted)]),
            TRANSACTIONS_TIMED_OUT.counter([((), counted.timed_out)]),
            MARKERS.counter([((), counted.markers_written)]),
            MARKER_RETRIES.counter([((), counted.marker_retries)]),
            seconds,
        ]

    async def _consumers(self) -> list[Metric]:
        members, generations, states = [], [], []
        committed, lags = [], []
        for listed in await self._groups.list():
            try:
                described = await self._groups.describe(listed.group)
            except GroupNotFound:
                continue
            generation = described.generation if isinstance(described, ClassicDescription) else described.epoch
            members.append(((listed.group,), len(described.members)))
            generations.append(((listed.group,), generation))
            states.append(((listed.group, str(described.state)), 1))
            for at, one in sorted((await self._groups.fetch_offsets(listed.group)).items()):
                labels = (at.topic, str(at.partition), listed.group)
                committed.append((labels, one.offset))
                try:
                    end = (await self._partitions.open_leader(at.topic, at.partition)).log.last_stable_offset
                except (TopicNotFound, PartitionNotFound, NotLeader):
                    continue
                lags.append((labels, max(0, end - one.offset)))
        rebalances = self._groups.rebalance_statistics()
        durations = HistogramMetricFamily(PREFIX + REBALANCE_SECONDS.name, REBALANCE_SECONDS.help, labels=())
        bounds = [bound / 1000 for bound in DURATION_BUCKETS_MS]
        durations.add_metric((), buckets(bounds, rebalances.durations), rebalances.duration_ms_total / 1000)
        return [
            COMMITTED.gauge(committed),
            LAG.gauge(lags),
            MEMBERS.gauge(members),
            GENERATION.gauge(generations),
            STATE.gauge(states),
            REBALANCES.counter(((str(reason),), count) for reason, count in sorted(rebalances.by_reason.items())),
            MOVED.counter([((), rebalances.partitions_moved)]),
            REVOCATION_TIMEOUTS.counter([((), rebalances.revocation_timeouts)]),
            durations,
        ]


def page(families: list[Metric]) -> bytes:
    """Metric families as Prometheus reads them."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(families))
    return generate_latest(registry)


class _Collected(Collector):
    """Families that are there already, for a library that wants to ask for them."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> list[Metric]:
        return self._families
