"""The commands `goqueue cluster info|health|nodes` and `goqueue health`."""

from __future__ import annotations

from typing import Any

import typer

from goqueue.cli.output import Format, show
from goqueue.cli.session import REFUSED, ContextName, Output, Server, with_client
from goqueue.client import Client, RequestRefused

_NODE_COLUMNS = (
    "id",
    "status",
    "is_controller",
    "kafka",
    "leaders",
    "replicas",
    "in_sync",
    "lag",
    "clock_skew_ms",
    "broker_epoch",
    "rack",
    "version",
    "addresses",
)


def info(output: Output = Format.table, server: Server = None, context: ContextName = None) -> None:
    """Show the cluster's id, controller, nodes, version and sizes."""

    async def look(client: Client) -> dict[str, Any]:
        version, stats, cluster = await client.get("/version"), await client.get("/stats"), await client.get("/cluster")
        return {
            "cluster_id": cluster["cluster_id"],
            "controller": cluster["controller"],
            "nodes": len(cluster["nodes"]),
            "version": version["version"],
            "topics": stats["topics"],
            "total_size_bytes": stats["total_size_bytes"],
            "uptime_seconds": stats["uptime_seconds"],
        }

    show(with_client(look, server, context), output)


def nodes(output: Output = Format.table, server: Server = None, context: ContextName = None) -> None:
    """List the nodes."""
    cluster = with_client(lambda client: client.get("/cluster"), server, context)
    show(cluster["nodes"], output, _NODE_COLUMNS)


def cluster_health(output: Output = Format.table, server: Server = None, context: ContextName = None) -> None:
    """Show whether the cluster takes writes that last, and the checks of the node that was asked."""

    async def look(client: Client) -> dict[str, Any]:
        return {"cluster": await _verdict(client, "/cluster/health"), "node": await _verdict(client, "/readyz")}

    found = with_client(look, server, context)
    if output is Format.table:
        show({name: value for name, value in found["cluster"].items() if name != "warnings"}, output)
        for warning in found["cluster"].get("warnings", ()):
            typer.echo(f"warning: {warning}")
        typer.echo(f"node that was asked: {found['node']['status']}")
        show(found["node"].get("checks", []), output, ["name", "ok", "problem", "warning"])
    else:
        show(found, output)
    if found["cluster"]["status"] in {"unhealthy", "unavailable"} or found["node"]["status"] == "unavailable":
        raise typer.Exit(REFUSED)


def health(output: Output = Format.table, server: Server = None, context: ContextName = None) -> None:
    """Ask whether the broker can serve; exit code 0 when it can, for containers and scripts."""
    found = with_client(lambda client: _verdict(client, "/readyz"), server, context)
    if output is Format.table:
        typer.echo(f"status: {found['status']}")
        show(found.get("checks", []), output, ["name", "ok", "problem", "warning"])
    else:
        show(found, output)
    if found["status"] == "unavailable":
        raise typer.Exit(REFUSED)


async def _verdict(client: Client, path: str) -> dict[str, Any]:
    """What such a route says, whether or not all is well."""
    try:
        return await client.get(path)
    except RequestRefused as refused:
        if isinstance(refused.answer, dict) and "status" in refused.answer:
            return refused.answer
        return {"status": "unavailable", "checks": [{"name": path, "ok": False, "problem": str(refused)}]}
