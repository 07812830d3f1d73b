"""Messages there and back, as fast as the client can: by size, and by number of partitions.

Before each timed piece of work its server does a tenth of it that is not timed (see `turns.py` on waking): in a
topic of its own, whose messages are read back, compared and deleted. Null brokers do that too, as far as they
have topics; the one that stores deletes its files like everybody.
"""

from __future__ import annotations

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
# The client whose brokers are compared closely.
CLOSE_LOAD = "load_kafka"


def throughput(run: Run, size: int) -> None:
    """Produce into an empty topic, count, read it all back, compare checksums."""
    most = run.scale.messages[size]
    with ExitStack() as stack:
        servers = run.servers([peer for peer in run.peers if "ceiling" not in peer.offers])
        # A null broker serves messages of one size, so there is one for each.
        for ceiling in (type(peer)(size) for peer in run.peers if isinstance(peer, NullBroker)):
            server = run.attempt(ceiling, lambda one=ceiling: stack.enter_context(run.server(one)))
            servers += [(ceiling, server)] if server else []
        rounds, more = run.scale.throughput_rounds, run.scale.close_rounds
        alike = [(peer, server) for peer, server in servers if peer.load == CLOSE_LOAD]
        for taking_part, numbers in ((servers, range(rounds)), (alike, range(rounds, rounds + more))):
            run.take_turns(
                f"{size} B",
                taking_part,
                lambda peer, server: _there_and_back(run, peer, server, size, most, PARTITIONS),
                kind=KIND,
                waking=lambda peer, server: _wake(run, peer, server, size, most, PARTITIONS),
                rounds=numbers,
            )


def partitions(run: Run, count_of_partitions: int) -> None:
    """The same work, spread over more partitions; 1 KB. Making their files is no part: each has messages already.

    What is promised here is processor time, which needs fewer rounds than rates.
    """
    size, most = 1000, max(run.scale.messages.get(1000, 2_000), count_of_partitions * 1000)
    run.take_turns(
        f"{count_of_partitions} partitions",
        run.servers(run.offering("partitions")),
        lambda peer, server: _there_and_back(run, peer, server, size, most, count_of_partitions, first=DISTINCT),
        kind=KIND,
        waking=lambda peer, server: _wake(run, peer, server, size, most, count_of_partitions),
    )


def waking_count(count: int) -> int:
    """How many messages wake a server whose timed piece of work has `count`."""
    return max(DISTINCT, count // WAKING_SHARE // DISTINCT * DISTINCT)


def _wake(run: Run, peer: Peer, server: Server, size: int, most: int, count_of_partitions: int) -> dict[str, float]:
    is_real, count = "ceiling" not in peer.offers, waking_count(run.count(peer, size, most))
    call = caller(peer, server, run.topic() if is_real else NULL_TOPIC)
    if is_real:
        call("create", partitions=count_of_partitions, durable=False)
    call("produce", partitions=count_of_partitions, size=size, count=count, durable=False)
    read = call("consume", partitions=count_of_partitions, count=count)
    if is_real:
        same(read["checksum"], expected_checksum(size, count), "checksum")
    call("delete")
    return {}


def _there_and_back(
    run: Run, peer: Peer, server: Server, size: int, most: int, count_of_partitions: int, *, first: int = 0
) -> dict[str, float]:
    is_real, count = "ceiling" not in peer.offers, run.count(peer, size, most)
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
