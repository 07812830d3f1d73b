"""What is measured. Nothing unverified counts.

A figure is only noted after the stored count and the checksum of all that was read have been
compared with what was sent. Messages there and back, by size and by partitions: `throughput.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.bench.kafka_rebalance import HEARTBEAT_MS, MEMBERS, QUICK_MEMBERS, let_one_more_join
from tests.bench.kafka_rebalance import TOPIC as REBALANCED
from tests.bench.peers import common, log_growth
from tests.bench.peers.calls import PARTITIONS, caller, same
from tests.bench.peers.common import expected_checksum
from tests.bench.peers.findings import Sample
from tests.bench.peers.scale import Scale
from tests.bench.peers.servers import Peer, Server
from tests.bench.peers.throughput import partitions, throughput
from tests.bench.peers.turns import Run

GROUPS = 5


def durable(run: Run) -> None:
    """Nothing is acknowledged before it is on the disk. 1 KB, one client, pipelined."""
    size = 1000

    def work(peer: Peer, server: Server) -> dict[str, float]:
        count = run.count(peer, size, run.scale.single_messages)
        call = caller(peer, server, run.topic())
        call("create", partitions=PARTITIONS, durable=True)
        result = call("produce", partitions=PARTITIONS, size=size, count=count, durable=True)
        same(call("stored", partitions=PARTITIONS)["count"], count, "stored messages")
        call("delete")
        return {"messages": count, "produce_per_s": count / result["seconds"]}

    run.take_turns("durable", run.servers(run.offering("durable"), durable=True), work, kind="durable")


def latency(run: Run, rate: int) -> None:
    """From when a message was due to be sent until it was read, at a fixed rate, 100 B."""
    size, seconds = 100, run.scale.latency_seconds

    def work(peer: Peer, server: Server) -> dict[str, float]:
        call = caller(peer, server, run.topic())
        call("create", partitions=PARTITIONS, durable=False)
        result = call("latency", partitions=PARTITIONS, size=size, rate=rate, seconds=seconds)
        same(result["count"], int(rate * seconds), "messages")
        call("delete")
        return {
            "messages": result["count"],
            **{name: result[name] for name in ("rate", "p50_ms", "p99_ms", "p999_ms", "max_ms")},
        }

    run.take_turns(f"latency at {rate}/s", run.servers(run.offering("latency")), work, kind="latency")


def queue(run: Run) -> None:
    """Receive up to 500 at a time and acknowledge each; 100 B, one consumer."""
    size = 100

    def work(peer: Peer, server: Server) -> dict[str, float]:
        count = run.count(peer, size, run.scale.single_messages)
        call = caller(peer, server, run.topic())
        call("create", partitions=PARTITIONS, durable=False)
        call("produce", partitions=PARTITIONS, size=size, count=count, durable=False)
        result = call("queue", count=count)
        same(result["checksum"], expected_checksum(size, count), "checksum")
        same(result["left"], 0, "messages without an acknowledgement")
        call("delete")
        return {"messages": count, "receive_ack_per_s": count / result["seconds"]}

    rounds = range(run.scale.throughput_rounds)
    run.take_turns("receive and ack", run.servers(run.offering("queue")), work, kind="queue", rounds=rounds)


def delays(run: Run) -> None:
    """Messages that are due at a steady rate: how long after its time each can be read."""
    count, seconds = (200, 1.0) if run.scale.name == "smoke" else (5_000, 5.0)

    def work(peer: Peer, server: Server) -> dict[str, float]:
        call = caller(peer, server, run.topic())
        call("create", partitions=1, durable=False)
        result = call("delay", count=count, seconds=seconds)
        same(result["count"], count, "messages")
        call("delete")
        return {"messages": count, **{name: result[name] for name in ("p50_ms", "p99_ms", "p999_ms", "max_ms")}}

    run.take_turns("lateness of delayed messages", run.servers(run.offering("delay")), work)


def priorities(run: Run) -> None:
    """Every lane has more than is taken: do the shares follow the weights?"""
    count = 1_000 if run.scale.name == "smoke" else 35_000

    def work(peer: Peer, server: Server) -> dict[str, float]:
        call = caller(peer, server, run.topic())
        call("create", partitions=1, durable=False)
        result = call("priorities", count=count)
        call("delete")
        return {"messages": result["count"], "share_points_off": result["share_points_off"]}

    run.take_turns("priority shares", run.servers(run.offering("priorities")), work)


def fan_out(run: Run) -> None:
    """Five groups read the same messages at the same time; 1 KB."""
    size, most = 1000, run.scale.messages.get(1000, 10_000) // GROUPS

    def work(peer: Peer, server: Server) -> dict[str, float]:
        topic, count = run.topic(), run.count(peer, size, most)
        call = caller(peer, server, topic)
        call("create", partitions=PARTITIONS, durable=False)
        call("produce", partitions=PARTITIONS, size=size, count=count, durable=False)
        arguments = {"address": server.address, "topic": topic, "partitions": PARTITIONS, "count": count}
        readers = [common.start(peer.load, "consume", **arguments) for _ in range(GROUPS)]
        try:
            results = [common.finish(one) for one in readers]
        finally:
            for reader in readers:
                reader.kill()
        for result in results:
            same(result["checksum"], expected_checksum(size, count), "checksum")
        call("delete")
        seconds = max(one["ended"] for one in results) - min(one["started"] for one in results)
        return {"messages": GROUPS * count, "consume_per_s": GROUPS * count / seconds}

    run.take_turns(f"fan-out to {GROUPS} groups", run.servers(run.offering("fan-out")), work, kind="fan-out")


def rebalance(run: Run) -> None:
    """One more consumer joins a group by `cooperative-sticky`, heartbeats of 200 ms: until it has its share."""
    members = QUICK_MEMBERS if run.scale.name == "smoke" else MEMBERS

    def work(peer: Peer, server: Server) -> dict[str, float]:
        joined = let_one_more_join(server.address, "cooperative-sticky", HEARTBEAT_MS, members, server.cpu_seconds)
        same(joined.paused, 0, "partitions paused though they did not move")
        caller(peer, server, REBALANCED)("delete")
        return {"rebalance_s": joined.seconds, "cpu_ms": joined.cpu_ms}

    run.take_turns("rebalance", run.servers(run.offering("rebalance")), work, kind="rebalance")


def start_up(run: Run) -> None:
    """From an empty directory to the first answer, and how much of that the server itself takes."""

    def start(peer: Peer) -> dict[str, float]:
        with run.server(peer) as server:
            return {
                "first_answer_s": server.prepare_seconds + server.start_seconds,
                "start_s": server.start_seconds,
                "rss_mib": server.rss_mib(),
            }

    for number in range(run.scale.rounds):
        for peer in run.peers:
            figures = None if run.is_out(peer) else run.attempt(peer, lambda peer=peer: start(peer))
            if figures is not None:
                run.samples.append(Sample("start-up", peer.name, number, figures))


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
        **({"log": log_growth.log_sizes} if scale.log_gib else {}),
    }
