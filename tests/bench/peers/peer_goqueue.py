"""GoQueue itself, over the Kafka wire and over HTTP: the same process, two ways in."""

from __future__ import annotations

import compileall
import functools
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench.peers.peer_kafka import knows_itself
from tests.bench.peers.servers import Server, exchange, free_port, running

import goqueue
from goqueue.build_info import build_info


class _GoQueue:
    durability = "acks=all: synced before the reply"

    def missing(self) -> str | None:
        return None

    def version(self) -> str:
        return build_info().version


class GoQueueKafka(_GoQueue):
    """See `servers.Peer`."""

    name = "GoQueue, Kafka wire"
    load = "load_kafka"
    pace = 1_000_000
    offers = frozenset({"latency", "durable", "fan-out", "partitions", "queue", "rebalance"})

    @contextmanager
    def start(self, home: Path, *, durable: bool) -> Iterator[Server]:
        kafka = f"127.0.0.1:{free_port()}"
        command = _command(home, kafka, "127.0.0.1:0")
        with running(command, home, kafka, knows_itself, _environment()) as server:
            yield server


class GoQueueHttp(_GoQueue):
    """See `servers.Peer`."""

    name = "GoQueue, HTTP"
    load = "load_http"
    pace = 60_000
    offers = frozenset({"latency", "durable", "queue", "delay", "priorities"})

    @contextmanager
    def start(self, home: Path, *, durable: bool) -> Iterator[Server]:
        http = f"127.0.0.1:{free_port()}"
        command = _command(home, "127.0.0.1:0", http)
        with running(command, home, http, _is_ready, _environment()) as server:
            yield server


def _command(home: Path, kafka: str, http: str) -> list[str]:
    _compile()
    program = str(Path(sys.executable).parent / "goqueue")
    return [program, "server", f"--data-dir={home / 'data'}", f"--kafka={kafka}", f"--http={http}"]


@functools.cache
def _compile() -> None:
    """As pip does for whoever installs the package: in a new checkout a start would compile all of it first."""
    compileall.compile_dir(str(Path(goqueue.__file__).parent), quiet=2)


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("GOQUEUE_")}


def _is_ready(address: str) -> bool:
    return exchange(address, b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", b"200 OK")
