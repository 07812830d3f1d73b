"""Redis Streams with its append-only file: synced every second, or before every answer."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from tests.bench.peers.servers import INSTALL, Server, exchange, free_port, program, running


class RedisStreams:
    """See `servers.Peer`."""

    name = "Redis Streams"
    load = "load_redis"
    pace = 60_000
    durability = "appendfsync always"
    offers = frozenset({"latency", "durable", "queue", "fan-out"})

    def missing(self) -> str | None:
        if program("redis-server") is None:
            return "needs redis-server: apt-get install redis-server"
        return None if find_spec("redis") else f"needs the package redis: {INSTALL}"

    def version(self) -> str:
        said = subprocess.run([program("redis-server") or "", "--version"], capture_output=True, text=True, check=True)
        return said.stdout.split("v=")[1].split()[0]

    @contextmanager
    def start(self, home: Path, *, durable: bool) -> Iterator[Server]:
        port = free_port()
        sync = "always" if durable else "everysec"
        options = ["--appendonly", "yes", "--appendfsync", sync, "--save", "", "--bind", "127.0.0.1"]
        command = [program("redis-server") or "", "--port", str(port), "--dir", str(home), *options]
        with running(command, home, f"127.0.0.1:{port}", lambda at: exchange(at, b"PING\r\n", b"+PONG")) as server:
            yield server
