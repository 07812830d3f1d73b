"""How a workload has a client script do something, and what it makes of the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.bench.peers import common
from tests.bench.peers.common import Wrong
from tests.bench.peers.servers import Peer, Server

PARTITIONS = 3


def caller(peer: Peer, server: Server, topic: str) -> Callable[..., dict[str, Any]]:
    """Calls functions of the peer's client script, each in a process of its own."""

    def call(function: str, **arguments: Any) -> dict[str, Any]:
        return common.run(peer.load, function, address=server.address, topic=topic, **arguments)

    return call


def same(found: float, wanted: float, what: str) -> None:
    """What must be true before a figure counts."""
    if found != wanted:
        raise Wrong(f"{what}: {found} instead of {wanted}")


def rates(count: int, produce_s: float, consume_s: float, cpu_s: float) -> dict[str, float]:
    """The figures of messages that went there and back."""
    return {
        "messages": count,
        "produce_per_s": count / produce_s,
        "consume_per_s": count / consume_s,
        "cpu_s_per_million": cpu_s / count * 1e6,
    }
