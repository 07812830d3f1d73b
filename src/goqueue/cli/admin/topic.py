"""The commands `goqueue topic list|create|describe|alter|delete`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from goqueue.cli.output import Format, show, tell
from goqueue.cli.session import USAGE, ContextName, Output, Server, TopicName, confirmed, fail, with_client
from goqueue.client import Client
from goqueue.client.transport import quoted

app = typer.Typer(help="Create, describe, change and delete topics.", no_args_is_help=True)

Settings = Annotated[
    list[str] | None, typer.Option("--config", help="A setting as name=value; may be repeated.", show_default=False)
]


@app.command("list")
def list_topics(
    internal: Annotated[bool, typer.Option("--internal", help="Show the broker's own topics too.")] = False,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """List topics."""
    rows = with_client(lambda client: client.topics(internal=internal), server, context)
    show(rows, output, ["name", "partitions", "internal"])


@app.command()
def create(
    name: str,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", help="Partitions. [default: the broker's setting, 3]")
    ] = None,
    replication_factor: Annotated[
        int | None, typer.Option("--replication-factor", help="Copies. [default: 3 in a cluster, else 1]")
    ] = None,
    retention: Annotated[int | None, typer.Option("--retention", "-r", help="Hours that messages are kept.")] = None,
    config: Settings = None,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Create a topic."""
    settings = parse_settings(config)
    if retention is not None:
        settings["retention.ms"] = str(retention * 3_600_000)
    reply = with_client(
        lambda client: client.create_topic(
            name, partitions=partitions, replication_factor=replication_factor, config=settings
        ),
        server,
        context,
    )
    if output is Format.table:
        typer.echo(f"created topic {reply['name']} with {reply['partitions']} partitions")
    else:
        show(reply, output)


@app.command()
def describe(
    name: TopicName, output: Output = Format.table, server: Server = None, context: ContextName = None
) -> None:
    """Show a topic's settings, sizes and offsets."""

    async def look(client: Client) -> tuple[dict[str, Any], dict[str, Any]]:
        return await client.topic(name), await client.get(f"/topics/{quoted(name)}/partitions")

    topic, partitions = with_client(look, server, context)
    if output is not Format.table:
        show({**topic, "partition_details": partitions["partitions"]}, output)
        return
    show(
        {
            key: topic[key]
            for key in (
                "name",
                "topic_id",
                "partitions",
                "replication_factor",
                "total_messages",
                "total_size_bytes",
                "overrides",
            )
        },
        output,
    )
    typer.echo()
    show(
        partitions["partitions"], output, ["partition", "leader", "replicas", "isr", "earliest", "latest", "size_bytes"]
    )


@app.command()
def alter(
    name: TopicName,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", help="New number of partitions; it can only grow.")
    ] = None,
    config: Settings = None,
    unset: Annotated[list[str] | None, typer.Option("--unset", help="A setting to return to its default.")] = None,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Change settings or add partitions."""
    changes: dict[str, str | None] = {**parse_settings(config), **dict.fromkeys(unset or ())}
    if not changes and partitions is None:
        raise fail("nothing to change: give --config, --unset or --partitions", USAGE)
    reply = with_client(lambda client: client.alter_topic(name, partitions=partitions, config=changes), server, context)
    if output is Format.table:
        typer.echo(f"changed topic {name}")
    else:
        show(reply, output)


@app.command()
def delete(
    name: TopicName,
    force: Annotated[bool, typer.Option("--force", "-f", help="Do not ask.")] = False,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Delete a topic and all its messages."""
    confirmed(f"Delete topic {name} and everything in it?", force=force)
    with_client(lambda client: client.delete_topic(name), server, context)
    tell(f"deleted topic {name}", {"deleted": True, "name": name}, output)


def parse_settings(pairs: list[str] | None) -> dict[str, str]:
    """`name=value` pairs as a mapping."""
    settings = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise fail(f"--config {pair!r} is not of the form name=value", USAGE)
        settings[name] = value
    return settings
