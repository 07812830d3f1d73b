"""What is measured. Nothing unverified counts.

A figure is only noted after the stored count and the checksum of all that was read have been
compared with what was sent.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from tests.bench.kafka_rebalance import HEARTBEAT_MS, MEMBERS, QUICK_MEMBERS, let_one_more_join
from tests.bench.kafka_rebalance import TOPIC as REBALANCED
from tests.bench.peers import common
from tests.bench.peers.common import Wrong, expected_checksum
from tests.bench.peers.peer_null import TOPIC as NULL_TOPIC
from tests.bench.peers.peer_null import NullBroker
from tests.bench.peers.servers import Peer, Server
from tests.bench.peers.turns import SMOKE, Run, Sample, Scale

PARTITIONS = 3
GROUPS = 5


def throughput(run: Run, size: int) -> None:
    """Produce into an empty topic, count, read it all back, compare checksums."""
    count = run.scale.messages[size]
    with ExitStack() as stack:
        servers = run.servers([peer for peer in run.peers if "ceiling" not in peer.offers])
        # The null broker serves messages of one size, so there is one for each.
        ceilings = [NullBroker(size) for _ in run.offering("ceiling")]
        servers += [(one, stack.enter_context(run.server(one))) for one in ceilings]
        run.take_turns(
            f"{size} B", servers, lambda peer, server: _there_and_back(run, peer, server, size, count, PARTITIONS)
        )


def durable(run: Run) -> None:
    """Nothing is acknowledged before it is on the disk. 1 KB, one client, pipelined."""
    size, count = 1000, run.scale.slow_messages

    def work(peer: Peer, server: Server) -> dict[str, float]:
        topic = run.topic()
        call = _caller(peer, server, topic)
        call("create", partitions=PARTITIONS, durable=True)
        result = call("produce", partitions=PARTITIONS, size=size, count=count, durable=True)
        _same(call("stored", partitions=PARTITIONS)["count"], count, "stored messages")
        call("delete")
        return {"produce_per_s": count / result["seconds"]}

    run.take_turns("durable", run.servers(run.offering("durable"), durable=True), work)


def latency(run: Run, rate: int) -> None:
    """From when a message was due to be sent until it was read, at a fixed rate, 100 B."""
    size, seconds = 100, run.scale.latency_seconds

    def work(peer: Peer, server: Server) -> dict[str, float]:
        call = _caller(peer, server, run.topic())
        call("create", partitions=PARTITIONS, durable=False)
        result = call("latency", partitions=PARTITIONS, size=size, rate=rate, seconds=seconds)
        _same(result["count"], int(rate * seconds), "messages")
        call("delete")
        return {name: result[name] for name in ("rate", "p50_ms", "p99_ms", "p999_ms", "max_ms")}

    run.take_turns(f"latency at {rate}/s", run.servers(run.offering("latency")), work)


def queue(run: Run) -> None:
    """Receive up to 500 at a time and acknowledge each; 100 B, one consumer."""
    size, count = 100, run.scale.slow_messages

    def work(peer: Peer, server: Server) -> dict[str, float]:
        call = _caller(peer, server, run.topic())
        call("create", partitions=PARTITIONS, durable=False)
        call("produce", partitions=PARTITIONS, size=size, count=count, durable=False)
        result = call("queue", count=count)
        _same(result["checksum"], expected_checksum(size, count), "checksum")
        _same(result["left"], 0, "messages without an acknowledgement")
        call("delete")
        return {"receive_ack_per_s": count / result["seconds"]}

    run.take_turns("receive and ack", run.servers(run.offering("queue")), work)


def delays(run: Run) -> None:
    """Messages that are due at a steady rate: how long after its time each can be read."""
    count, seconds = (200, 1.0) if run.scale is SMOKE else (5_000, 5.0)

    def work(peer: Peer, server: Server) -> dict[str, float]:
        call = _caller(peer, server, run.topic())
        call("create", partitions=1, durable=False)
        result = call("delay", count=count, seconds=seconds)
        _same(result["count"], count, "messages")
        call("delete")
        return {name: result[name] for name in ("p50_ms", "p99_ms", "p999_ms", "max_ms")}

    run.take_turns("lateness of delayed messages", run.servers(run.offering("delay")), work, warm_up=False)


def priorities(run: Run) -> None:
    """Every lane has more than is taken: do the shares follow the weights?"""
    count = 1_000 if run.scale is SMOKE else 35_000

    def work(peer: Peer, server: Server) -> dict[str, float]:
        call = _caller(peer, server, run.topic())
        call("create", partitions=1, durable=False)
        result = call("priorities", count=count)
        call("delete")
        return {"share_points_off": result["share_points_off"]}

    run.take_turns("priority shares", run.servers(run.offering("priorities")), work, warm_up=False)


def fan_out(run: Run) -> None:
    """Five groups read the same messages at the same time; 1 KB."""
    size, count = 1000, run.scale.messages.get(1000, 10_000) // 5 // 1000 * 1000

    def work(peer: Peer, server: Server) -> dict[str, float]:
        topic = run.topic()
        call = _caller(peer, server, topic)
        call("create", partitions=PARTITIONS, durable=False)
        call("produce", partitions=PARTITIONS, size=size, count=count, durable=False)
        arguments = {"address": server.address, "topic": topic, "partitions": PARTITIONS, "count": count}
        results = [
            common.finish(one) for one in [common.start(peer.load, "consume", **arguments) for _ in range(GROUPS)]
        ]
        for result in results:
            _same(result["checksum"], expected_checksum(size, count), "checksum")
        call("delete")
        seconds = max(one["ended"] for one in results) - min(one["started"] for one in results)
        return {"consume_per_s": GROUPS * count / seconds}

    run.take_turns(f"fan-out to {GROUPS} groups", run.servers(run.offering("fan-out")), work)


def rebalance(run: Run) -> None:
    """One more consumer joins a group by `cooperative-sticky`, heartbeats of 200 ms: until it has its share."""
    members = QUICK_MEMBERS if run.scale is SMOKE else MEMBERS

    def work(peer: Peer, server: Server) -> dict[str, float]:
        joined = let_one_more_join(server.address, "cooperative-sticky", HEARTBEAT_MS, members, server.cpu_seconds)
        _same(joined.paused, 0, "partitions paused though they did not move")
        _caller(peer, server, REBALANCED)("delete")
        return {"rebalance_s": joined.seconds, "cpu_ms": joined.cpu_ms}

    run.take_turns("rebalance", run.servers(run.offering("rebalance")), work)


def start_up(run: Run) -> None:
    """From the start of the process to its first answer, on an empty directory."""
    for number in range(run.scale.rounds):
        for peer in run.peers:
            with run.server(peer) as server:
                figures = {"start_s": server.start_seconds, "rss_mib": server.rss_mib()}
            run.samples.append(Sample("start-up", peer.name, number, figures))


def partitions(run: Run, count_of_partitions: int) -> None:
    """The same work, spread over more partitions; 1 KB."""
    size, count = 1000, run.scale.messages.get(1000, 2_000)
    count = max(count, count_of_partitions * 1000)

    run.take_turns(
        f"{count_of_partitions} partitions",
        run.servers(run.offering("partitions")),
        lambda peer, server: _there_and_back(run, peer, server, size, count, count_of_partitions),
    )


def log_size(run: Run, gib: int) -> None:
    """The same work on a topic that holds so much already; 1 KB behind records of 10 KB."""
    size, count = 1000, run.scale.messages.get(1000, 3_000)
    filler = gib * 2**30 // 10_000 // (1000 * PARTITIONS) * (1000 * PARTITIONS)

    def filled(peer: Peer, server: Server) -> Callable[[], dict[str, float]]:
        call = _caller(peer, server, f"filled-{gib}")
        call("create", partitions=PARTITIONS, durable=False)
        run.on_step(f"{gib} GiB: filling {peer.name}")
        call("produce", partitions=PARTITIONS, size=10_000, count=filler, durable=False)
        _same(call("stored", partitions=PARTITIONS)["count"], filler, "stored messages")
        there = filler

        def work() -> dict[str, float]:
            nonlocal there
            before = server.cpu_seconds()
            produced = call("produce", partitions=PARTITIONS, size=size, count=count, durable=False)
            read = call("consume", partitions=PARTITIONS, count=count, skip=there // PARTITIONS)
            cpu = server.cpu_seconds() - before
            _same(read["checksum"], expected_checksum(size, count), "checksum")
            there += count
            return _rates(count, produced["seconds"], read["seconds"], cpu)

        return work

    count -= count % (1000 * PARTITIONS)
    for peer in run.offering("partitions"):
        # One at a time: the disk need not hold it twice.
        with run.server(peer) as server:
            work = filled(peer, server)
            run.take_turns(f"{gib} GiB in the log", [(peer, server)], lambda _peer, _server, work=work: work())


def _there_and_back(
    run: Run, peer: Peer, server: Server, size: int, count: int, count_of_partitions: int
) -> dict[str, float]:
    is_real = "ceiling" not in peer.offers
    topic = run.topic() if is_real else NULL_TOPIC
    call = _caller(peer, server, topic)
    if is_real:
        call("create", partitions=count_of_partitions, durable=False)
    before = server.cpu_seconds()
    produced = call("produce", partitions=count_of_partitions, size=size, count=count, durable=False)
    between = server.cpu_seconds()
    if is_real:
        _same(call("stored", partitions=count_of_partitions)["count"], count, "stored messages")
    middle = server.cpu_seconds()
    read = call("consume", partitions=count_of_partitions, count=count)
    after = server.cpu_seconds()
    if is_real:
        _same(read["count"], count, "messages read")
        _same(read["checksum"], expected_checksum(size, count), "checksum")
        call("delete")
    figures = _rates(count, produced["seconds"], read["seconds"], between - before + after - middle)
    figures["produce_cpu_s_per_million"] = (between - before) / count * 1e6
    figures["consume_cpu_s_per_million"] = (after - middle) / count * 1e6
    figures["rss_mib"] = server.rss_mib()
    return figures


def _rates(count: int, produce_s: float, consume_s: float, cpu_s: float) -> dict[str, float]:
    return {
        "produce_per_s": count / produce_s,
        "consume_per_s": count / consume_s,
        "cpu_s_per_million": cpu_s / count * 1e6,
    }


def _caller(peer: Peer, server: Server, topic: str) -> Callable[..., dict[str, Any]]:
    def call(function: str, **arguments: Any) -> dict[str, Any]:
        return common.run(peer.load, function, address=server.address, topic=topic, **arguments)

    return call


def _same(found: float, wanted: float, what: str) -> None:
    if found != wanted:
        raise Wrong(f"{what}: {found} instead of {wanted}")


def plan(scale: Scale) -> dict[str, Callable[[Run], None]]:
    """All workloads of a scale, by the name that `--only` knows."""
    return {
        "start-up": start_up,
        **{f"{size}B": lambda run, size=size: throughput(run, size) for size in scale.messages},
        **{f"latency-{rate}": lambda run, rate=rate: latency(run, rate) for rate in scale.rates},
        "durable": durable,
        "queue": queue,
        "delay": delays,
        "priorities": priorities,
        "fan-out": fan_out,
        "rebalance": rebalance,
        **{f"partitions-{many}": lambda run, many=many: partitions(run, many) for many in scale.partitions},
        **{f"log-{gib}GiB": lambda run, gib=gib: log_size(run, gib) for gib in scale.log_gib},
    }
