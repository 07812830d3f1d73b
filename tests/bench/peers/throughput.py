"""Messages there and back, as fast as the client can: by size, and by number of partitions.

The timed piece of work is limited by `Scale`. Before each, its server does a tenth of it that is not timed
(see `turns.py` on waking): in a topic of its own, checked, deleted and cleared up like the other. Null brokers
do all that too, the one that stores deletes its files like everybody.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from tests.bench.peers.calls import PARTITIONS, caller, rates, same
from tests.bench.peers.common import DISTINCT, expected_checksum
from tests.bench.peers.peer_null import TOPIC as NULL_TOPIC
from tests.bench.peers.peer_null import NullBroker
from tests.bench.peers.servers import Peer, Server
from tests.bench.peers.turns import Run

# All sizes and all numbers of partitions are the same kind of work.
KIND = "there and back"
WAKING_SHARE = 10


def throughput(run: Run, size: int) -> None:
    """Produce into an empty topic, count, read it all back, compare checksums."""
    with ExitStack() as stack:
        servers = run.servers([peer for peer in run.peers if "ceiling" not in peer.offers])
        # A null broker serves messages of one size, so there is one for each.
        for ceiling in (type(peer)(size) for peer in run.peers if isinstance(peer, NullBroker)):
            server = run.attempt(ceiling, lambda one=ceiling: stack.enter_context(run.server(one)))
            servers += [(ceiling, server)] if server else []
        _take_turns(run, f"{size} B", servers, size, run.scale.messages[size], PARTITIONS)


def partitions(run: Run, count_of_partitions: int) -> None:
    """The same work, spread over more partitions; 1 KB. Making their files is no part: each has messages already."""
    size, most = 1000, max(run.scale.messages.get(1000, 2_000), count_of_partitions * 1000)
    servers = run.servers(run.offering("partitions"))
    _take_turns(run, f"{count_of_partitions} partitions", servers, size, most, count_of_partitions, first=DISTINCT)


def waking_count(count: int) -> int:
    """How many messages wake a server whose timed piece of work has `count`."""
    return max(DISTINCT, count // WAKING_SHARE // DISTINCT * DISTINCT)


def _take_turns(
    run: Run,
    workload: str,
    servers: list[tuple[Peer, Server]],
    size: int,
    most: int,
    count_of_partitions: int,
    *,
    first: int = 0,
) -> None:
    def work(piece: Callable[[int], int]) -> Callable[[Peer, Server], dict[str, float]]:
        return lambda peer, server: _there_and_back(
            run, peer, server, size, piece(run.count(peer, size, most)), count_of_partitions, first=first
        )

    run.take_turns(
        workload,
        servers,
        work(lambda count: count),
        kind=KIND,
        waking=work(waking_count),
        rounds=run.scale.throughput_rounds,
    )


def _there_and_back(
    run: Run, peer: Peer, server: Server, size: int, count: int, count_of_partitions: int, *, first: int
) -> dict[str, float]:
    is_real = "ceiling" not in peer.offers
    topic = run.topic() if is_real else NULL_TOPIC
    call = caller(peer, server, topic)
    if is_real:
        call("create", partitions=count_of_partitions, durable=False)
    there = first * count_of_partitions
    if there:
        call("produce", partitions=count_of_partitions, size=size, count=there, durable=False)
    before = server.cpu_seconds()
    produced = call("produce", partitions=count_of_partitions, size=size, count=count, durable=False)
    between = server.cpu_seconds()
    if is_real:
        same(call("stored", partitions=count_of_partitions)["count"], there + count, "stored messages")
    middle = server.cpu_seconds()
    skipped = {"skip": first} if first else {}
    read = call("consume", partitions=count_of_partitions, count=count, **skipped)
    after = server.cpu_seconds()
    if is_real:
        same(read["count"], count, "messages read")
        same(read["checksum"], expected_checksum(size, count), "checksum")
    call("delete")
    figures = rates(count, produced["seconds"], read["seconds"], between - before + after - middle)
    figures["produce_cpu_s_per_million"] = (between - before) / count * 1e6
    figures["consume_cpu_s_per_million"] = (after - middle) / count * 1e6
    figures["rss_mib"] = server.rss_mib()
    return figures
