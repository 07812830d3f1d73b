"""The one thing a broker says when it serves: who it is, where it is, what to do next."""

from __future__ import annotations

from typing import TextIO

from goqueue.build_info import BuildInfo
from goqueue.node.config.addresses import Address
from goqueue.node.node import Running


def show_banner(running: Running, out: TextIO) -> None:
    """Write the banner; with colour only on a terminal."""
    lines = banner_lines(running)
    if not out.isatty():
        out.write("\n".join(f"{name:<7}{text}" for name, text in lines) + "\n")
        out.flush()
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for position, (name, text) in enumerate(lines):
        table.add_row(Text(name, style="dim"), Text(text, style="bold" if position == 0 else ""))
    Console(file=out, highlight=False).print(table)


def banner_lines(running: Running) -> list[tuple[str, str]]:
    """Name and text of every line."""
    identity = running.services.identity
    build = BuildInfo(identity.version, identity.commit, identity.built)
    return [
        ("GoQueue", f" {identity.version} is ready (node {identity.node_id})"),
        *([("Build", build.origin)] if build.origin else []),
        ("Kafka", str(running.kafka)),
        ("HTTP", running.http_url),
        *([("gRPC", str(running.grpc))] if running.grpc is not None else []),
        *(
            (name, f"{address}{' (TLS)' if name in running.tls else ''}")
            for name, address in running.listeners.items()
            if name not in {"kafka", "http", "grpc"}
        ),
        ("Data", running.data_dir),
        ("Next", _next_step(running)),
        ("Stop", "Ctrl-C or SIGTERM"),
    ]


def _next_step(running: Running) -> str:
    """A command that works against this broker as it is, with an address that can be connected to."""
    if running.security is None and any(running.listeners[name] == running.kafka for name in running.tls):
        # kcat would need the certificate.
        return f"goqueue health --server {running.http_url}"
    if running.security is None:
        kafka = _reachable(running, running.kafka)
        return f"echo hello | kcat -P -b {kafka} -t first, then kcat -C -b {kafka} -t first -e"
    scheme, _, _ = running.http_url.partition("://")
    # `security init` and `cluster init` sign clients and servers by one authority.
    authority = f" GOQUEUE_CA={running.client_ca}" if scheme == "https" and running.client_ca else ""
    server = f"{scheme}://{_reachable(running, running.http)}"
    return f"GOQUEUE_SERVER={server} GOQUEUE_API_KEY=your-key{authority} goqueue security whoami"


def _reachable(running: Running, address: Address) -> Address:
    """The address; where it means all interfaces, the host that Kafka clients are told."""
    return Address(running.services.identity.kafka_host, address.port) if address.is_everywhere else address
