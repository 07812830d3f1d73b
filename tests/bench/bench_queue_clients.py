"""`make bench-queue-clients`: the Python client of queues beside redis-py and nats-py, in turns.

    python -m tests.bench.bench_queue_clients [--quick] [--only batches ones]

`batches`: receive 100 messages of 100 B and acknowledge them in one call, beside Redis Streams. `ones`: 16 consumers of
one program receive a message, acknowledge it and ask for the next, beside NATS JetStream. Every message must arrive and
be acknowledged, and the checksum of all values must be right, or there is no figure. A peer that is not installed
(`make peers-install`) is left out.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.command import command, finish, run
from tests.bench.measure import Bar, at_least, told
from tests.bench.peers.calls import caller, same
from tests.bench.peers.common import expected_checksum
from tests.bench.peers.peer_goqueue import GoQueueHttp
from tests.bench.peers.peer_nats import NatsJetStream
from tests.bench.peers.peer_redis import RedisStreams
from tests.bench.peers.servers import Peer, Server

SIZE = 100
CONSUMERS = 16
ROUNDS = 7
# The peer, the function of the client scripts, its arguments, and how many messages.
BENCHES: dict[str, tuple[type[Peer], str, dict[str, int], int]] = {
    "batches": (RedisStreams, "queue", {"batch": 100}, 60_000),
    "ones": (NatsJetStream, "queue_ones", {"consumers": CONSUMERS}, 20_000),
}


def bench(name: str, *, quick: bool) -> list[Bar]:
    """The rates of both clients, and the median of the ratios of the rounds."""
    kind, function, arguments, count = BENCHES[name]
    rounds, count = (1, 1_000) if quick else (ROUNDS, count)
    peers: list[Peer] = [GoQueueHttp()]
    other = kind()
    if (reason := other.missing()) is None:
        peers.append(other)
    else:
        print(f"{other.name} is left out: {reason}", file=sys.stderr)
    rates: list[list[float]] = [[] for _ in peers]
    with ExitStack() as stack:
        servers = [stack.enter_context(_started(stack, peer)) for peer in peers]
        for number in range(rounds + 1):
            order = range(len(peers)) if number % 2 else reversed(range(len(peers)))
            for at in order:
                rate = _rate(peers[at], servers[at], f"bench-{number}", function, arguments, count)
                # The first round warms up.
                if number:
                    rates[at].append(rate)
    rows = [told(f"{name}: {peer.name}, msg/s", median(one), digits=0) for peer, one in zip(peers, rates, strict=True)]
    if len(peers) > 1:
        ratios = [ours / theirs for ours, theirs in zip(*rates, strict=True)]
        what = f"{name}: times {other.name} ({min(ratios):.2f} to {max(ratios):.2f})"
        rows.append(at_least(what, median(ratios), 1.0))
    return rows


def _rate(peer: Peer, server: Server, topic: str, function: str, arguments: dict[str, Any], count: int) -> float:
    call = caller(peer, server, topic)
    call("create", partitions=1, durable=False)
    call("produce", partitions=1, size=SIZE, count=count, durable=False)
    result = call(function, count=count, **arguments)
    same(result["checksum"], expected_checksum(SIZE, count), "checksum")
    same(result["left"], 0, "messages without an acknowledgement")
    call("delete")
    return float(count / result["seconds"])


def _started(stack: ExitStack, peer: Peer) -> Any:
    home = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
    return peer.start(Path(home), durable=False)


def main() -> int:
    """Both, one after the other."""
    options = command(__doc__, only=list(BENCHES)).parse_args()
    return finish(run(options.only, lambda name: bench(name, quick=options.quick)), quick=options.quick)


if __name__ == "__main__":
    sys.exit(main())
