"""`make bench-share`: consumers of one share group against GoQueue and Apache Kafka, in turns.

    python -m tests.bench.bench_share_consumers [--quick] [--only implicit release ...]

Two partitions, eight consumers of confluent-kafka, messages of 100 B. Time runs from the first message that a consumer
gets until every message is accepted: how long a new group takes to begin is another question (Apache Kafka lets up to
five seconds pass). Without Apache Kafka (`make peers-install`) it is left out.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from tests.bench.command import command, finish, run
from tests.bench.measure import Bar, at_most, told
from tests.bench.peers.peer_goqueue import GoQueueKafka
from tests.bench.peers.peer_kafka import ApacheKafka
from tests.bench.peers.servers import Peer, Server
from tests.bench.share_load import ShareLoad, run_share_load

LOADS = {
    "implicit": ShareLoad(100_000),
    "explicit": ShareLoad(100_000, explicit=True),
    "commit-each": ShareLoad(4_000, explicit=True, commit_every=1),
    "release": ShareLoad(100_000, explicit=True, release_every=10),
    "release-zstd": ShareLoad(100_000, explicit=True, release_every=10, codec="zstd"),
    "few-per-poll": ShareLoad(50_000, poll_records=10),
    "with-producer": ShareLoad(100_000, with_producer=True),
}
ROUNDS = 3
TIMES_KAFKA_MAX = 1.5


def bench(name: str, *, quick: bool) -> list[Bar]:
    """Seconds and processor time of each broker, and the ratio of the seconds."""
    load = LOADS[name]
    load, rounds = (load.of(load.messages // 50), 1) if quick else (load, ROUNDS)
    peers: list[Peer] = [GoQueueKafka()]
    kafka = ApacheKafka()
    if (reason := kafka.missing()) is None:
        peers.append(kafka)
    else:
        print(f"Apache Kafka is left out: {reason}", file=sys.stderr)
    seconds: list[list[float]] = [[] for _ in peers]
    processor: list[list[float]] = [[] for _ in peers]
    with ExitStack() as stack:
        servers = [stack.enter_context(_started(stack, peer)) for peer in peers]
        for number in range(rounds):
            for at, server in enumerate(servers):
                before = server.cpu_seconds()
                seconds[at].append(run_share_load(server.address, f"{name}-{number}", load).seconds)
                processor[at].append(server.cpu_seconds() - before)
    rows = []
    for peer, wall, used in zip(peers, seconds, processor, strict=True):
        rows.append(told(f"{name}: {peer.name}", median(wall), unit=" s"))
        rows.append(told(f"{name}: {peer.name}, processor time", median(used), unit=" s"))
    if len(peers) > 1:
        ratio = median(ours / theirs for ours, theirs in zip(*seconds, strict=True))
        rows.append(at_most(f"{name}: times Apache Kafka's", ratio, TIMES_KAFKA_MAX))
    return rows


def _started(stack: ExitStack, peer: Peer) -> Server:
    home = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
    return peer.start(Path(home), durable=False)  # type: ignore[no-any-return]


def main() -> int:
    """All loads, one after the other."""
    options = command(__doc__, only=list(LOADS)).parse_args()
    return finish(run(options.only, lambda name: bench(name, quick=options.quick)), quick=options.quick)


if __name__ == "__main__":
    sys.exit(main())
