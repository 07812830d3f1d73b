"""`make bench-cluster`: three nodes on this machine, acks=all with three copies, GoQueue beside Apache Kafka.

    python -m tests.bench.bench_cluster [--quick] [--only synced written failover]

`synced`: acks=all means on the disk of every in-sync replica, for Apache Kafka with `flush.messages=1`. `written`: in
the page cache of every in-sync replica (`durability.acks_all = "written"`, and Apache Kafka's default). Both: messages
of 1,000 B produced and consumed in turns, processor time of all nodes, and the latency from end to end at 5,000
messages/s. The first round is thrown away: a virtual machine is still compiling, so a `--quick` run compares nothing.

`failover`: time from kill -9 until the next write of the same partition is acknowledged. A broker alone is
killed as a crash does it; a node with all its processes as a power cut does it. Without Apache Kafka
(`make peers-install`) it is left out. Clients run on the same cores as all nodes.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from tests.bench.cluster_failover import seconds_without_writes
from tests.bench.cluster_peers import ClusterPeer, RunningCluster, cluster_peers
from tests.bench.command import command, finish, run
from tests.bench.measure import Bar, told
from tests.bench.peers import common

PARTITIONS = 6
COPIES = 3
SIZE = 1000
MESSAGES = 300_000
ROUNDS = 5
LATENCY_RATE = 5_000
LATENCY_SECONDS = 20.0
KILLS = 3
PARTS = ("synced", "written", "failover")


def bench(part: str, *, quick: bool) -> list[Bar]:
    """The rows of one part."""
    peers, missing = cluster_peers(synced=part != "written")
    if missing is not None:
        print(f"Apache Kafka is left out: {missing}", file=sys.stderr)
    if part == "failover":
        return [row for peer in peers for row in _failover(peer, kills=1 if quick else KILLS)]
    with ExitStack() as stack:
        clusters = [_started(stack, peer) for peer in peers]
        rows = _throughput(part, peers, clusters, quick=quick)
        for peer, cluster in zip(peers, clusters, strict=True):
            rows += _latency(part, peer, cluster, quick=quick)
    return rows


def _throughput(
    part: str, peers: Sequence[ClusterPeer], clusters: Sequence[RunningCluster], *, quick: bool
) -> list[Bar]:
    count, rounds, thrown_away = (6 * common.DISTINCT, 1, 0) if quick else (MESSAGES, ROUNDS + 1, 1)
    produced: list[list[float]] = [[] for _ in peers]
    consumed: list[list[float]] = [[] for _ in peers]
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
                consumed[at].append(read["seconds"])
                used[at].append(cluster.cpu_seconds() - before)
            common.run("load_kafka", "delete", address=cluster.address, topic=topic)
    rows = []
    for at, peer in enumerate(peers):
        rows.append(told(f"{part}: {peer.name}, produce, messages/s", count / median(produced[at]), digits=0))
        rows.append(told(f"{part}: {peer.name}, consume, messages/s", count / median(consumed[at]), digits=0))
        processor = median(used[at]) / count * 1e6
        rows.append(told(f"{part}: {peer.name}, processor time of all nodes per million", processor, unit=" s"))
    if len(peers) > 1:
        for what, (ours, theirs) in (("produce", produced), ("consume", consumed)):
            ratio = median(their / our for our, their in zip(ours, theirs, strict=True))
            rows.append(told(f"{part}: {what}, share of Apache Kafka", ratio))
    return rows


def _latency(part: str, peer: ClusterPeer, cluster: RunningCluster, *, quick: bool) -> list[Bar]:
    place = {"address": cluster.address, "topic": "late", "partitions": PARTITIONS}
    common.run("load_kafka", "create", **place, durable=peer.synced, copies=COPIES)
    rate, seconds = (500, 1.0) if quick else (LATENCY_RATE, LATENCY_SECONDS)
    found = common.run("load_kafka", "latency", **place, size=SIZE, rate=rate, seconds=seconds, acks="all")
    name = f"{part}: {peer.name}, end to end at {rate:,}/s"
    return [told(f"{name}, {which}", found[f"{which}_ms"], unit=" ms") for which in ("p50", "p99", "p999")]


def _failover(peer: ClusterPeer, *, kills: int) -> list[Bar]:
    """A new cluster for every kill: how it recovers from two faults in a row is a matter of the tests."""
    faults: dict[str, Callable[[RunningCluster], Callable[[int], None]]] = {
        "broker": lambda cluster: cluster.kill_broker,
        "node": lambda cluster: cluster.kill_node,
    }
    if not peer.has_supervisor:
        del faults["broker"]
    rows = []
    for name, fault_of in faults.items():
        seconds = []
        for number in range(kills):
            with ExitStack() as stack:
                cluster = _started(stack, peer)
                topic = f"failover-{number}"
                place = {"address": cluster.address, "topic": topic, "partitions": 1}
                common.run("load_kafka", "create", **place, durable=peer.synced, copies=COPIES)
                seconds.append(seconds_without_writes(cluster.address, topic, fault_of(cluster)))
        rows.append(
            told(f"failover: {peer.name}, kill -9 of a leading {name}, next write after", median(seconds), unit=" s")
        )
    return rows


def _started(stack: ExitStack, peer: ClusterPeer) -> RunningCluster:
    home = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
    return stack.enter_context(peer.start(Path(home)))


def main() -> int:
    """All parts, one after the other."""
    options = command(__doc__, only=PARTS).parse_args()
    return finish(run(options.only, lambda part: bench(part, quick=options.quick)), quick=options.quick)


if __name__ == "__main__":
    sys.exit(main())
