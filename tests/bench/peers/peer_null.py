"""The ceiling: a broker that answers Kafka clients and stores nothing (see `tests/bench/null_broker.py`)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench.peers.peer_kafka import knows_itself
from tests.bench.peers.servers import Server, free_port, running

ROOT = Path(__file__).parents[3]
# The one topic that it knows.
TOPIC = "bench"


class NullBroker:
    """See `servers.Peer`. What it serves is made up, so there is nothing to verify."""

    name = "null broker"
    load = "load_kafka"
    pace = 1_000_000
    durability = "none"
    offers = frozenset({"ceiling"})

    def __init__(self, size: int = 100) -> None:
        self._size = size

    def missing(self) -> str | None:
        return None

    def version(self) -> str:
        return "-"

    @contextmanager
    def start(self, home: Path, *, durable: bool) -> Iterator[Server]:
        port = free_port()
        records = max(1, min(10_000, 1_000_000 // self._size))
        options = ["--record-bytes", str(self._size), "--batch-records", str(records), "--port", str(port)]
        command = [sys.executable, str(ROOT / "tests" / "bench" / "null_broker.py"), *options, *self._more(home)]
        with running(command, home, f"127.0.0.1:{port}", knows_itself) as server:
            yield server

    def _more(self, home: Path) -> list[str]:
        return []


class StoringNullBroker(NullBroker):
    """See `servers.Peer`. Writes what it gets to files and does nothing else with it."""

    name = "null broker that stores"

    def _more(self, home: Path) -> list[str]:
        return ["--store", str(home)]
