"""`make bench-consume`: reading from GoQueue, Apache Kafka and the null broker, in turns within one client.

    python -m tests.bench.bench_consume [--quick] [--only 100 1000 10000]

In `make bench-peers` every turn is a process of its own, and how the system spreads its threads over two cores decides
more than the broker does: rates of one broker differ by a factor of two. Here one process of confluent-kafka reads the
same messages from each broker, a third of a second at a time, so that whatever happens falls on all of them. Every
turn's messages are counted and their checksums compared. Without Apache Kafka (`make peers-install`) it is left out.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from tests.bench.command import command, finish, run
from tests.bench.measure import Bar, at_least, told
from tests.bench.peers import common
from tests.bench.peers.peer_goqueue import GoQueueKafka
from tests.bench.peers.peer_kafka import ApacheKafka
from tests.bench.peers.peer_null import TOPIC, NullBroker
from tests.bench.peers.servers import Peer

PARTITIONS = 3
# A third of a second each, about.
MESSAGES = {100: 400_000, 1000: 200_000, 10_000: 30_000}
TURNS = 25


def bench(size: int, *, quick: bool) -> list[Bar]:
    """Rates of all brokers for one size, and the ratios that are promised."""
    count, turns = (common.DISTINCT * PARTITIONS, 2) if quick else (MESSAGES[size], TURNS)
    peers: list[Peer] = [GoQueueKafka(), NullBroker(size)]
    kafka = ApacheKafka()
    if (reason := kafka.missing()) is None:
        peers.append(kafka)
    else:
        print(f"Apache Kafka is left out: {reason}", file=sys.stderr)
    with ExitStack() as stack:
        addresses = [stack.enter_context(_filled(peer, size, count)) for peer in peers]
        places = [[address, TOPIC] for address in addresses]
        read = common.run(
            "load_kafka", "consume_in_turns", places=places, partitions=PARTITIONS, count=count, turns=turns
        )
    for peer, sums in zip(peers, read["checksums"], strict=True):
        if not isinstance(peer, NullBroker) and sums != [common.expected_checksum(size, count)]:
            raise common.Wrong(f"{peer.name} gave other messages than it was sent")
    ours, *others = read["seconds"]
    rows = [
        told(f"{size} B: {peer.name}, messages/s", count / median(one), digits=0)
        for peer, one in zip(peers, read["seconds"], strict=True)
    ]
    bars = {NullBroker.name: 0.85, ApacheKafka.name: 1.0}
    for peer, theirs in zip(peers[1:], others, strict=True):
        rows.append(at_least(f"{size} B: {_told(peer, ours, theirs)}", _ratio(ours, theirs), bars[peer.name]))
    return rows


def _ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    return median(their / our for our, their in zip(ours, theirs, strict=True))


def _told(peer: Peer, ours: Sequence[float], theirs: Sequence[float]) -> str:
    """The middle half of the turns beside the name: what is left of the noise."""
    ratios = sorted(their / our for our, their in zip(ours, theirs, strict=True))
    quarter = len(ratios) // 4
    return f"share of {peer.name} (half of the turns: {ratios[quarter]:.2f} to {ratios[-1 - quarter]:.2f})"


@contextmanager
def _filled(peer: Peer, size: int, count: int) -> Iterator[str]:
    """The address of a broker that has the messages."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home,
        peer.start(Path(home), durable=False) as server,
    ):
        place = {"address": server.address, "topic": TOPIC, "partitions": PARTITIONS}
        if not isinstance(peer, NullBroker):
            common.run(peer.load, "create", **place, durable=False)
            common.run(peer.load, "produce", **place, size=size, count=count, durable=False)
        yield server.address


def main() -> int:
    """All sizes, one after the other."""
    options = command(__doc__, only=[str(size) for size in MESSAGES]).parse_args()
    return finish(run(options.only, lambda size: bench(int(size), quick=options.quick)), quick=options.quick)


if __name__ == "__main__":
    sys.exit(main())
