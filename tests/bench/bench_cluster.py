"""`make bench-cluster`: three nodes on this machine, acks=all with three copies, GoQueue beside Apache Kafka.

    python -m tests.bench.bench_cluster [--quick] [--only PART ...] [--minutes 30] [--restarts 20] [--partitions 3000]

`synced`: acks=all means on the disk of every in-sync replica, for Apache Kafka with `flush.messages=1`. `written`: in
the page cache of every in-sync replica (`durability.acks_all = "written"`, and Apache Kafka's default). Both: messages
of 1,000 B produced and consumed in turns, processor time of all nodes, and the latency from end to end at 5,000
messages/s. The first round is thrown away: a virtual machine is still compiling, so a `--quick` run compares nothing.

`failover`: time from a fault until the next write of the same partition is acknowledged. A broker alone is
killed as a crash does it, a node with all its processes as a power cut does it; a node is frozen; and a node is cut off
from the network, for which the nodes get network namespaces (root).

`partitions`: time from kill -9 of a broker until every one of 3,000 partitions has acknowledged a write.

`restarts`: clean restarts of one node after the other while a producer writes and a group reads: errors that reach
the application, and the longest pause of a partition.

`steady`: 30 minutes of full load: changes of etcd's leader, and sessions that were lost.

`single`: a node on its own against the commit before there were clusters, as `make bench-before` does it.

Without Apache Kafka (`make peers-install`) it is left out. Clients run on the same cores as all nodes.
"""

from __future__ import annotations

import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from tests.bench.bench_before import compare
from tests.bench.cluster_failover import restarts, seconds_until_all_write, seconds_without_writes
from tests.bench.cluster_peers import ClusterPeer, RunningCluster, cluster_peers
from tests.bench.cluster_steady import steady_load
from tests.bench.cluster_throughput import COPIES, PARTITIONS, SIZE, latency, throughput
from tests.bench.command import command, finish, run
from tests.bench.measure import Bar, at_most, told
from tests.bench.peers import common
from tests.e2e.cluster.network import can_have_namespaces

KILLS = 3
WRITE_SECONDS_MAX = 1.5
ALL_WRITE_SECONDS_MAX = 5.0
SINGLE_RATIO_MIN = 0.98
# The last commit without clusters.
BEFORE_CLUSTERS = "00b8b70^"
PARTS = ("synced", "written", "failover", "partitions", "restarts", "steady", "single")


def bench(part: str, options: Namespace) -> list[Bar]:
    """The rows of one part."""
    if part == "single":
        return compare(BEFORE_CLUSTERS, quick=options.quick, ratio_min=SINGLE_RATIO_MIN)
    peers, missing = cluster_peers(synced=part != "written")
    if missing is not None and part != "steady":
        print(f"Apache Kafka is left out: {missing}", file=sys.stderr)
    if part == "failover":
        return _failover(peers, kills=1 if options.quick else KILLS)
    if part == "partitions":
        return _all_partitions(peers, 60 if options.quick else options.partitions)
    if part == "restarts":
        return _restarts(peers, 3 if options.quick else options.restarts)
    if part == "steady":
        return _steady(peers[0], 5.0 if options.quick else options.minutes * 60)
    with ExitStack() as stack:
        clusters = [_started(stack, peer) for peer in peers]
        return [
            *throughput(part, peers, clusters, quick=options.quick),
            *latency(part, peers, clusters, quick=options.quick),
        ]


Fault = Callable[[RunningCluster], Callable[[int], None]]
_FAULTS: dict[str, Fault] = {
    "kill -9 of a leading broker": lambda cluster: cluster.kill_broker,
    "kill -9 of a leading node": lambda cluster: cluster.kill_node,
    "freeze of a leading node": lambda cluster: cluster.freeze,
    "isolation of a leading node": lambda cluster: cluster.isolate,
}


def _failover(peers: Sequence[ClusterPeer], *, kills: int) -> list[Bar]:
    """A new cluster for every fault: how it recovers from two faults in a row is a matter of the tests."""
    rows = []
    for name, fault_of in _FAULTS.items():
        is_isolated = name.startswith("isolation")
        if is_isolated and not can_have_namespaces():
            print(f"{name} is left out: it needs root, ip and tc", file=sys.stderr)
            continue
        found = []
        for peer in peers:
            seconds = []
            for number in range(kills):
                with ExitStack() as stack:
                    cluster = _started(stack, peer, namespaces=is_isolated)
                    topic = f"failover-{number}"
                    _create(peer, cluster, topic, 1)
                    cluster.wait_in_sync(topic)
                    seconds.append(seconds_without_writes(cluster.address, topic, fault_of(cluster)))
                    print(f"  {name}, {peer.name}: {seconds[-1]:.2f} s", file=sys.stderr, flush=True)
            found.append(median(seconds))
        rows += _beside(f"failover: {name}, next write after", peers, found, _bar_of(name))
    return rows


def _bar_of(name: str) -> float | None:
    return WRITE_SECONDS_MAX if "broker" in name else None


def _all_partitions(peers: Sequence[ClusterPeer], partitions: int) -> list[Bar]:
    found = []
    for peer in peers:
        with ExitStack() as stack:
            cluster = _started(stack, peer)
            _create(peer, cluster, "many", partitions)
            cluster.wait_in_sync("many")
            found.append(seconds_until_all_write(cluster.address, "many", partitions, cluster.kill_broker))
            print(f"  {partitions:,} partitions, {peer.name}: {found[-1]:.2f} s", file=sys.stderr, flush=True)
    what = f"partitions: kill -9 of a broker, all of {partitions:,} take acks=all again after"
    return _beside(what, peers, found, ALL_WRITE_SECONDS_MAX)


def _restarts(peers: Sequence[ClusterPeer], count: int) -> list[Bar]:
    rows, pauses = [], []
    for peer in peers:
        with ExitStack() as stack:
            cluster = _started(stack, peer)
            _create(peer, cluster, "restarted", PARTITIONS)
            cluster.wait_in_sync("restarted")

            def restart(number: int, cluster: RunningCluster = cluster) -> None:
                cluster.nodes[number].stop()
                cluster.nodes[number].start()
                cluster.wait_in_sync("restarted")

            found = restarts(cluster.address, "restarted", PARTITIONS, count, restart)
        what = f"restarts: {peer.name}, {count} clean restarts, errors in the application"
        is_ours = peer is peers[0]
        rows.append(
            at_most(what, len(found.errors), 0, digits=0) if is_ours else told(what, len(found.errors), digits=0)
        )
        if found.errors:
            print("\n".join(found.errors[:5]), file=sys.stderr)
        if found.missing > 0:
            raise common.Wrong(f"{found.missing} acknowledged messages of {peer.name} were not read")
        pauses.append(median(found.pauses))
        rows.append(told(f"restarts: {peer.name}, longest pause", max(found.pauses), unit=" s"))
    return [*rows, *_beside("restarts: pause of a partition, median of the restarts", peers, pauses)]


def _steady(peer: ClusterPeer, seconds: float) -> list[Bar]:
    with ExitStack() as stack:
        cluster = _started(stack, peer)
        found = steady_load(
            cluster.address, cluster.metrics, cluster.etcd_metrics, partitions=PARTITIONS, size=SIZE, seconds=seconds
        )
    what = f"steady: {seconds / 60:.1f} minutes of full load"
    return [
        told(f"{what}, messages/s", found.messages / found.seconds, digits=0),
        at_most(f"{what}, changes of etcd's leader", found.leader_changes, 0, digits=0),
        at_most(f"{what}, sessions lost", found.sessions_lost, 0, digits=0),
    ]


def _beside(what: str, peers: Sequence[ClusterPeer], found: Sequence[float], bar: float | None = None) -> list[Bar]:
    """Ours against the bar if there is one, else against Apache Kafka's in the same run."""
    ours, *others = found
    limit = bar if bar is not None else min(others, default=None)
    label = f"{what}, {peers[0].name}"
    rows = [told(label, ours, unit=" s") if limit is None else at_most(label, ours, round(limit, 2), unit=" s")]
    return rows + [
        told(f"{what}, {peer.name}", seconds, unit=" s") for peer, seconds in zip(peers[1:], others, strict=True)
    ]


def _create(peer: ClusterPeer, cluster: RunningCluster, topic: str, partitions: int) -> None:
    place = {"address": cluster.address, "topic": topic, "partitions": partitions}
    common.run("load_kafka", "create", **place, durable=peer.synced, copies=COPIES)


def _started(stack: ExitStack, peer: ClusterPeer, *, namespaces: bool = False) -> RunningCluster:
    home = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
    return stack.enter_context(peer.start(Path(home), namespaces))


def main() -> int:
    """All parts, one after the other."""
    parser = command(__doc__, only=PARTS)
    parser.add_argument("--minutes", type=float, default=30.0, help="how long `steady` writes")
    parser.add_argument("--restarts", type=int, default=20, help="how many `restarts` makes")
    parser.add_argument("--partitions", type=int, default=3_000, help="how many `partitions` writes")
    options = parser.parse_args()
    return finish(run(options.only, lambda part: bench(part, options)), quick=options.quick)


if __name__ == "__main__":
    sys.exit(main())
