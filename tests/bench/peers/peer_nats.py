"""NATS JetStream on files: synced every two minutes, as it comes, or before every answer."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from tests.bench.peers.servers import INSTALL, Server, exchange, free_port, program, running


class NatsJetStream:
    """See `servers.Peer`."""

    name = "NATS JetStream"
    load = "load_nats"
    pace = 8_000
    durability = "sync_interval: always"
    offers = frozenset({"latency", "durable", "queue", "fan-out"})

    def missing(self) -> str | None:
        if program("nats-server") is None:
            return f"needs nats-server: {INSTALL}, or apt-get install nats-server"
        return None if find_spec("nats") else f"needs the package nats-py: {INSTALL}"

    def version(self) -> str:
        said = subprocess.run([program("nats-server") or "", "--version"], capture_output=True, text=True, check=True)
        return said.stdout.split()[-1].lstrip("v")

    @contextmanager
    def start(self, home: Path, *, durable: bool) -> Iterator[Server]:
        address = f"127.0.0.1:{free_port()}"
        sync = "sync_interval: always" if durable else ""
        config = home / "nats.conf"
        config.write_text(f'listen: "{address}"\njetstream {{ store_dir: "{home / "data"}"\n{sync} }}\n')
        command = [program("nats-server") or "", "-c", str(config)]
        with running(command, home, address, lambda at: exchange(at, b"", b"INFO")) as server:
            yield server
