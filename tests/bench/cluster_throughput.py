"""Produce, consume and end-to-end latency of clusters, in turns within one run."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from tests.bench.cluster_peers import ClusterPeer, RunningCluster
from tests.bench.measure import Bar, at_least, told
from tests.bench.peers import common

PARTITIONS = 6
COPIES = 3
SIZE = 1000
MESSAGES = 300_000
ROUNDS = 5
# Of a third of a second each, in one process: see `bench_consume`.
READ_TURNS = 25
LATENCY_RATE = 5_000
LATENCY_SECONDS = 20.0
LATENCY_ROUNDS = 3
SHARE_MIN = 1.0
# Up to here it need not be as good as Apache Kafka's.
P99_MS_FREE = 20.0


def throughput(
    part: str, peers: Sequence[ClusterPeer], clusters: Sequence[RunningCluster], *, quick: bool
) -> list[Bar]:
    """Messages per second, produced and consumed, and processor time.

    Consuming is timed in turns within one process: how the system spreads the threads of a new process over two cores
    decides more than the broker does.
    """
    count, rounds, thrown_away = (6 * common.DISTINCT, 1, 0) if quick else (MESSAGES, ROUNDS + 1, 1)
    produced: list[list[float]] = [[] for _ in peers]
    used: list[list[float]] = [[] for _ in peers]
    for number in range(rounds):
        # Who begins changes from round to round.
        for at in range(len(peers)) if number % 2 == 0 else reversed(range(len(peers))):
            cluster, topic = clusters[at], f"round-{number}"
            place = {"address": cluster.address, "topic": topic, "partitions": PARTITIONS}
            common.run("load_kafka", "create", **place, durable=peers[at].synced, copies=COPIES)
            before = cluster.cpu_seconds()
            # `durable` is acks=all of the client; what the brokers make of it is a matter of their settings.
            written = common.run("load_kafka", "produce", **place, size=SIZE, count=count, durable=True)
            read = common.run("load_kafka", "consume", **place, count=count)
            if read["checksum"] != common.expected_checksum(SIZE, count):
                raise common.Wrong(f"{peers[at].name} gave other messages than it was sent")
            if number >= thrown_away:
                produced[at].append(written["seconds"])
                used[at].append(cluster.cpu_seconds() - before)
            # The topic of the last round is read in turns.
            if number + 1 < rounds:
                common.run("load_kafka", "delete", address=cluster.address, topic=topic)
    consumed = _consumed(peers, clusters, f"round-{rounds - 1}", count, turns=2 if quick else READ_TURNS)
    rows = []
    for at, peer in enumerate(peers):
        rows.append(told(f"{part}: {peer.name}, produce, messages/s", count / median(produced[at]), digits=0))
        rows.append(told(f"{part}: {peer.name}, consume, messages/s", count / median(consumed[at]), digits=0))
        processor = median(used[at]) / count * 1e6
        rows.append(told(f"{part}: {peer.name}, processor time of all nodes per million", processor, unit=" s"))
    if len(peers) > 1:
        for what, (ours, theirs) in (("produce", produced), ("consume", consumed)):
            ratio = median(their / our for our, their in zip(ours, theirs, strict=True))
            rows.append(at_least(f"{part}: {what}, share of Apache Kafka", ratio, SHARE_MIN))
    return rows


def _consumed(
    peers: Sequence[ClusterPeer], clusters: Sequence[RunningCluster], topic: str, count: int, *, turns: int
) -> list[list[float]]:
    """Seconds of each turn of each cluster, for all messages of the topic, which is then deleted."""
    places = [[cluster.address, topic] for cluster in clusters]
    read = common.run("load_kafka", "consume_in_turns", places=places, partitions=PARTITIONS, count=count, turns=turns)
    for peer, cluster, sums in zip(peers, clusters, read["checksums"], strict=True):
        if sums != [common.expected_checksum(SIZE, count)]:
            raise common.Wrong(f"{peer.name} gave other messages than it was sent")
        common.run("load_kafka", "delete", address=cluster.address, topic=topic)
    seconds: list[list[float]] = read["seconds"]
    return seconds


def latency(part: str, peers: Sequence[ClusterPeer], clusters: Sequence[RunningCluster], *, quick: bool) -> list[Bar]:
    """From end to end at a steady rate; the median of the rounds."""
    rate, seconds, rounds = (500, 1.0, 1) if quick else (LATENCY_RATE, LATENCY_SECONDS, LATENCY_ROUNDS)
    found: list[list[dict[str, float]]] = [[] for _ in peers]
    for number in range(rounds):
        for at in range(len(peers)) if number % 2 == 0 else reversed(range(len(peers))):
            place = {"address": clusters[at].address, "topic": f"late-{number}", "partitions": PARTITIONS}
            common.run("load_kafka", "create", **place, durable=peers[at].synced, copies=COPIES)
            clusters[at].wait_in_sync(f"late-{number}")
            load = {"size": SIZE, "rate": rate, "seconds": seconds, "acks": "all"}
            found[at].append(common.run("load_kafka", "latency", **place, **load))
            common.run("load_kafka", "delete", address=clusters[at].address, topic=f"late-{number}")
    rows, p99s = [], []
    for peer, measured in zip(peers, found, strict=True):
        for which in ("p50", "p99", "p999"):
            figure = median(one[f"{which}_ms"] for one in measured)
            rows.append(told(f"{part}: {peer.name}, end to end at {rate:,}/s, {which}", figure, unit=" ms"))
            if which == "p99":
                p99s.append(figure)
    if len(p99s) > 1:
        ours, theirs = p99s
        is_met = ours <= theirs or ours < P99_MS_FREE
        bar = f"≤ {theirs:.2f} ms or < {P99_MS_FREE:g} ms"
        rows.append(Bar(f"{part}: end to end at {rate:,}/s, p99 of GoQueue", f"{ours:.2f} ms", bar, is_met))
    return rows
