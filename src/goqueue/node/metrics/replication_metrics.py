"""Series of what nodes of a cluster send each other: copies, lag, round trips, clocks. Empty on a node of its own."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from goqueue.cluster.cluster_view import ClusterView
from goqueue.cluster.replication.counts import high_watermarks
from goqueue.node.metrics.metrics_page import CopySources
from goqueue.node.metrics.series import Series

_NODE, _TOPIC = ("node_id",), ("topic",)

LAG = Series(
    "cluster_replication_lag",
    "Records that the furthest replica on that node is behind, of partitions of the topic that this node leads.",
    ("topic", "node_id"),
)
HIGH_WATERMARK = Series("cluster_high_watermark", "High watermarks of led partitions of the topic, summed.", _TOPIC)
BYTES_COPIED = Series("cluster_bytes_replicated", "Bytes of the topic that this node copied from leaders.", _TOPIC)
CUT = Series(
    "cluster_truncated_records", "Records that this node cut off its copies: the leader did not have them.", _TOPIC
)
LOST = Series(
    "cluster_lost_records",
    "Records of partitions led here that unclean elections lost, counted when a replica comes back that had them.",
    _TOPIC,
)
ROUNDS = Series("cluster_fetch_requests", "Rounds of replication that this node took from that leader.", _NODE)
ROUND_SECONDS = Series("cluster_fetch_latency_seconds", "From the arrival of a round until it was written here.", _NODE)
BYTES_IN = Series("cluster_inter_broker_network_in_bytes", "Bytes that other nodes sent to this one.")
BYTES_OUT = Series("cluster_inter_broker_network_out_bytes", "Bytes that this node sent to others.")
ROUND_TRIP = Series(
    "cluster_inter_broker_latency_seconds", "Round trip to another node and back, asked every 5 s.", ("target_node_id",)
)
RECEIVED = Series("cluster_heartbeats_received", "Questions of other nodes for a sign of life that were answered.")
MISSED = Series("cluster_heartbeats_missed", "Questions to a node with a session that it did not answer.", _NODE)
SKEW = Series("cluster_clock_skew_seconds", "How far a node's clock is ahead of this node's.", _NODE)


def replication_metrics(view: ClusterView, sources: CopySources | None) -> Iterator[Metric]:
    """Every series of replication and of the peers."""
    watch = view.watch
    if sources is not None:
        copied = sources.counts
        yield HIGH_WATERMARK.gauge(((topic,), end) for topic, end in sorted(high_watermarks(sources.terms).items()))
        yield BYTES_COPIED.counter(((topic,), size) for topic, size in sorted(copied.bytes_by_topic.items()))
        yield CUT.counter(((topic,), count) for topic, count in sorted(copied.cut_by_topic().items()))
        yield LOST.counter(((topic,), count) for topic, count in sorted(copied.lost_by_topic().items()))
        yield ROUNDS.counter(((str(node),), sum(one.counts)) for node, one in sorted(copied.seconds_by_leader.items()))
        yield ROUND_SECONDS.histogram(((str(node),), one) for node, one in sorted(copied.seconds_by_leader.items()))
        yield BYTES_IN.counter([((), sources.traffic.bytes_in)])
        yield BYTES_OUT.counter([((), sources.traffic.bytes_out)])
    if watch is None:
        return
    furthest: dict[tuple[str, str], int] = {}
    for state in view.partitions():
        if state.assignment.leader == view.node_id:
            for node in state.assignment.replicas:
                if node != view.node_id:
                    furthest[state.place.topic, str(node)] = 0
    for lag in watch.local_lags():
        if lag.records >= 0:
            key = lag.topic, str(lag.node_id)
            furthest[key] = max(furthest.get(key, 0), lag.records)
    yield LAG.gauge(sorted(furthest.items()))
    yield ROUND_TRIP.histogram(((str(node),), one) for node, one in sorted(watch.round_trips.items()))
    yield RECEIVED.counter([((), watch.received)])
    yield MISSED.counter(((str(node),), watch.missed[node]) for node in sorted(view.nodes()) if node != view.node_id)
    skews = {node: view.clock_skew_ms(node) for node in sorted(view.nodes())}
    yield SKEW.gauge(((str(node),), skew / 1000) for node, skew in skews.items() if skew is not None)
