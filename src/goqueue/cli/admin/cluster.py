"""The commands `goqueue cluster info|health|nodes` and `goqueue health`."""

from __future__ import annotations

from typing import Any

import typer

from goqueue.cli.output import Format, show
from goqueue.cli.session import REFUSED, ContextName, Output, Server, with_client
from goqueue.client import Client, RequestRefused

app = typer.Typer(help="Describe the nodes.", no_args_is_help=True)


@app.command()
def info(output: Output = Format.table, server: Server = None, context: ContextName = None) -> None:
    """Show what the broker is and holds."""

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


@app.command()
def nodes(output: Output = Format.table, server: Server = None, context: ContextName = None) -> None:
    """List the nodes."""
    cluster = with_client(lambda client: client.get("/cluster"), server, context)
    show(cluster["nodes"], output)


@app.command("health")
def cluster_health(output: Output = Format.table, server: Server = None, context: ContextName = None) -> None:
    """Show whether the broker can serve, check by check."""
    health(output, server, context)


def health(output: Output = Format.table, server: Server = None, context: ContextName = None) -> None:
    """Ask whether the broker can serve; exit code 0 when it can, for containers and scripts."""

    async def look(client: Client) -> dict[str, Any]:
        try:
            return await client.get("/readyz")
        except RequestRefused as refused:
            if isinstance(refused.answer, dict) and "status" in refused.answer:
                return refused.answer
            return {"status": "unavailable", "checks": [{"name": "readyz", "ok": False, "problem": str(refused)}]}

    found = with_client(look, server, context)
    if output is Format.table:
        typer.echo(f"status: {found['status']}")
        show(found.get("checks", []), output, ["name", "ok", "problem", "warning"])
    else:
        show(found, output)
    if found["status"] == "unavailable":
        raise typer.Exit(REFUSED)
