"""Series of the cluster: nodes, leaders, in-sync replicas, and how often they changed. All from the metadata."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import Metric

from goqueue.cluster.cluster_view import ClusterView
from goqueue.node.metrics.series import Series

_NODE = ("node_id",)

NODES = Series("cluster_nodes_total", "Nodes that registered.")
NODES_HEALTHY = Series("cluster_nodes_healthy", "Nodes that have a session.")
NODE_STATE = Series("cluster_node_state", "1 for the state that a node is in.", ("node_id", "state"))
IS_CONTROLLER = Series("cluster_is_controller", "1 on the node that decides who leads.")
CONTROLLER_SECONDS = Series("cluster_controller_age_seconds", "Seconds since the controller changed, as seen here.")
CONTROLLER_ELECTIONS = Series("cluster_controller_elections", "Changes of the controller, as seen here.")
PARTITIONS = Series("cluster_partition_count", "Partitions of all topics.")
LEADERS = Series("cluster_leaders_per_node", "Partitions that a node leads.", _NODE)
FOLLOWERS = Series("cluster_followers_per_node", "Partitions that a node has a copy of and does not lead.", _NODE)
ISR_SIZE = Series("cluster_isr_size", "The fewest in-sync replicas that a partition of the topic has.", ("topic",))
UNDER_REPLICATED = Series("cluster_under_replicated_partitions", "Partitions with a replica that is not in sync.")
BELOW_MINIMUM = Series("cluster_below_minimum_partitions", "Partitions that take no acks=all: too few in sync.")
OFFLINE = Series("cluster_offline_partitions", "Partitions that nobody leads.")
IMBALANCE = Series("cluster_preferred_leader_imbalance", "Partitions that another than their first replica leads.")
ISR_SHRINKS = Series("cluster_isr_shrinks", "Replicas that fell out of sync, as seen here.")
ISR_EXPANDS = Series("cluster_isr_expands", "Replicas that came into sync, as seen here.")
ELECTIONS = Series(
    "cluster_leader_elections", "Leaders that were elected, as seen here: clean or unclean.", ("topic", "election_type")
)
UNCLEAN = Series("cluster_unclean_leader_elections", "Leaders that may lack acknowledged records.")
FAILURES = Series("cluster_failure_detections", "Sessions that ended without a clean stop, as seen here.")
EVENTS = Series("cluster_events", "What happened in the cluster, as seen here, by kind of event.", ("event",))
ELECTION_SECONDS = Series("cluster_leader_election_latency_seconds", "From the loss of a leader to the next one.")


def cluster_metrics(view: ClusterView, node_id: int, now_ms: int) -> Iterator[Metric]:
    """Every series of the cluster."""
    nodes, partitions, counts = view.nodes(), list(view.partitions()), view.event_counts()
    assignments = [one.assignment for one in partitions]
    leads = Counter(one.leader for one in assignments)
    holds = Counter(node for one in assignments for node in one.replicas)
    yield NODES.gauge([((), len(nodes))])
    yield NODES_HEALTHY.gauge([((), sum(view.is_alive(node) for node in nodes))])
    states = {
        node: "fenced" if one.fenced and view.is_alive(node) else "alive" if view.is_alive(node) else "dead"
        for node, one in nodes.items()
    }
    yield NODE_STATE.gauge([((str(node), state), 1) for node, state in states.items()])
    yield IS_CONTROLLER.gauge([((), int(view.controller() == node_id))])
    yield CONTROLLER_SECONDS.gauge([((), max(0, now_ms - view.controller_since_ms()) / 1000)])
    yield CONTROLLER_ELECTIONS.counter([((), counts["ControllerChanged"])])
    yield PARTITIONS.gauge([((), len(partitions))])
    yield LEADERS.gauge([((str(node),), leads[node]) for node in nodes])
    yield FOLLOWERS.gauge([((str(node),), holds[node] - leads[node]) for node in nodes])
    fewest: dict[str, int] = {}
    for one in partitions:
        fewest[one.place.topic] = min(fewest.get(one.place.topic, len(one.assignment.isr)), len(one.assignment.isr))
    yield ISR_SIZE.gauge([((topic,), count) for topic, count in fewest.items()])
    yield UNDER_REPLICATED.gauge([((), sum(one.is_under_replicated for one in partitions))])
    yield BELOW_MINIMUM.gauge([((), sum(one.is_below_minimum for one in partitions))])
    yield OFFLINE.gauge([((), sum(one.is_offline for one in partitions))])
    yield IMBALANCE.gauge([((), sum(one.leader not in (one.replicas[0], -1) for one in assignments))])
    yield ISR_SHRINKS.counter([((), counts["IsrShrunk"])])
    yield ISR_EXPANDS.counter([((), counts["IsrExpanded"])])
    yield ELECTIONS.counter(
        ((topic, kind), count)
        for topic, clean, unclean in view.elections()
        for kind, count in (("clean", clean), ("unclean", unclean))
    )
    yield UNCLEAN.counter([((), counts["UncleanLeaderElected"])])
    yield FAILURES.counter([((), counts["NodeDied"])])
    yield EVENTS.counter(((kind,), count) for kind, count in sorted(counts.items()))
    yield ELECTION_SECONDS.histogram([((), view.election_seconds())])
