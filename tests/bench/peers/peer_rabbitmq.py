"""RabbitMQ, as a quorum queue and as a stream: one node, without plugins, on ports of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from tests.bench.peers.servers import INSTALL, Server, exchange, free_port, running

# Debian's wrapper in /usr/sbin changes the user; what it wraps does not.
SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")


class _RabbitMq:
    load = "load_rabbitmq"
    pace = 8_000
    kind = ""

    def missing(self) -> str | None:
        if not SERVER.exists():
            return "needs rabbitmq-server: apt-get install rabbitmq-server"
        return None if find_spec("pika") else f"needs the package pika: {INSTALL}"

    def version(self) -> str:
        found = sorted(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*"))
        return found[-1].name.partition("-")[2] if found else "unknown"

    @contextmanager
    def start(self, home: Path, *, durable: bool) -> Iterator[Server]:
        address, epmd = f"127.0.0.1:{free_port()}", str(free_port())
        config = home / "rabbitmq.conf"
        config.write_text(f"listeners.tcp.1 = {address}\n")
        (home / "plugins").write_text("[].\n")
        environment = os.environ | {
            "HOME": str(home),
            "ERL_EPMD_PORT": epmd,
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"bench{address.rpartition(':')[2]}@localhost",
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(home / "data"),
            "RABBITMQ_LOG_BASE": str(home / "logs"),
            "RABBITMQ_CONFIG_FILE": str(config),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
        }
        try:
            with running([str(SERVER)], home, address, _speaks_amqp, environment) as server:
                yield replace(server, address=f"{address}/{self.kind}")
        finally:
            # The port mapper that Erlang starts beside the server is nobody's child.
            subprocess.run(["epmd", "-port", epmd, "-kill"], capture_output=True, check=False, env=environment)


class RabbitQuorum(_RabbitMq):
    """See `servers.Peer`."""

    name = "RabbitMQ, quorum queue"
    durability = "always synced before the confirmation"
    kind = "quorum"
    offers = frozenset({"latency", "durable", "queue", "delay"})


class RabbitStream(_RabbitMq):
    """See `servers.Peer`."""

    name = "RabbitMQ, stream"
    durability = "cannot sync before the confirmation"
    kind = "stream"
    offers = frozenset({"latency", "fan-out"})


def _speaks_amqp(address: str) -> bool:
    return exchange(address, b"AMQP\x00\x00\x09\x01", b"RabbitMQ")
