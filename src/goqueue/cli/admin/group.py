"""The commands `goqueue group list|describe|offsets|reset-offsets|evict|delete`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from goqueue.cli.output import Format, show, tell
from goqueue.cli.session import USAGE, ContextName, Output, Server, confirmed, fail, with_client
from goqueue.cli.times import time_ms

app = typer.Typer(help="Describe consumer groups and their lag, reset offsets, evict members.", no_args_is_help=True)

_OFFSET_COLUMNS = ["topic", "partition", "committed", "end", "lag", "lag_seconds"]


@app.command("list")
def list_groups(
    internal: Annotated[bool, typer.Option("--internal", help="Show the broker's own groups too.")] = False,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """List groups."""
    rows = with_client(lambda client: client.groups(internal=internal), server, context)
    show(rows, output, ["id", "mode", "state", "protocol", "members", "generation", "topics"])


@app.command()
def describe(group: str, output: Output = Format.table, server: Server = None, context: ContextName = None) -> None:
    """Show a group's members, assignments, offsets and lag."""
    found = with_client(lambda client: client.group(group), server, context)
    if output is not Format.table:
        show(found, output)
        return
    show(
        {key: found.get(key) for key in ("id", "mode", "sharing", "state", "protocol", "generation", "topics")}, output
    )
    typer.echo("\nmembers")
    members = [
        {
            "id": member["id"],
            "client_id": member.get("client_id"),
            "host": member.get("tags", {}).get("host") or member.get("host"),
            "process": member.get("tags", {}).get("pid"),
            "client": member.get("tags", {}).get("client"),
            "partitions": [f"{p['topic']}-{p['partition']}" for p in member.get("assigned_partitions", ())],
        }
        for member in found["members"]
    ]
    show(members, output)
    typer.echo("\noffsets")
    show(found.get("offsets", []), output, _OFFSET_COLUMNS)


@app.command()
def offsets(group: str, output: Output = Format.table, server: Server = None, context: ContextName = None) -> None:
    """Show a group's committed offsets and lag, in messages and in seconds."""
    found = with_client(lambda client: client.group_offsets(group), server, context)
    if output is not Format.table:
        show(found, output)
        return
    rows = [
        {
            "topic": topic,
            "partition": int(partition),
            "committed": row["offset"],
            "end": row.get("end"),
            "lag": row["lag"],
            "lag_seconds": row.get("lag_seconds"),
        }
        for topic, partitions in found["topics"].items()
        for partition, row in partitions.items()
    ]
    show(rows, output, _OFFSET_COLUMNS)


@app.command("reset-offsets")
def reset_offsets(
    group: str,
    topic: Annotated[str, typer.Option("--topic", "-t", help="The topic to reset.")],
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", help="Only this partition; may be repeated.")
    ] = None,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the oldest message.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end.")] = False,
    to_timestamp: Annotated[
        str | None, typer.Option("--to-timestamp", help="To a time: ISO 8601 or milliseconds.")
    ] = None,
    to_offset: Annotated[int | None, typer.Option("--to-offset", help="To an offset.")] = None,
    shift_by: Annotated[int | None, typer.Option("--shift-by", help="By a number of messages, such as -10.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Reset the offsets of a group that has no active members."""
    targets: list[Any] = [
        *(["earliest"] if to_earliest else []),
        *(["latest"] if to_latest else []),
        *([{"timestamp": time_ms(to_timestamp, "--to-timestamp")}] if to_timestamp is not None else []),
        *([{"offset": to_offset}] if to_offset is not None else []),
        *([{"shift": shift_by}] if shift_by is not None else []),
    ]
    if len(targets) != 1:
        raise fail("give exactly one of --to-earliest, --to-latest, --to-timestamp, --to-offset, --shift-by", USAGE)
    request: dict[str, Any] = {"topic": topic, "to": targets[0], "dry_run": dry_run}
    if partition:
        request["partitions"] = partition
    reply = with_client(lambda client: client.reset_offsets(group, **request), server, context)
    show(reply["changes"] if output is Format.table else reply, output)
    if dry_run and output is Format.table:
        typer.echo("nothing was changed: this was a dry run")


@app.command()
def evict(
    group: str,
    member: Annotated[str, typer.Argument(help="The member's id, as `group describe` shows it.")],
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Remove a member from its group at once. A member that is still running joins again."""
    with_client(lambda client: client.evict(group, member), server, context)
    tell(f"evicted {member} from group {group}", {"evicted": True, "group": group, "member": member}, output)


@app.command()
def delete(
    group: str,
    force: Annotated[bool, typer.Option("--force", "-f", help="Do not ask.")] = False,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Delete a group and its offsets."""
    confirmed(f"Delete group {group} and its offsets?", force=force)
    with_client(lambda client: client.delete_group(group), server, context)
    tell(f"deleted group {group}", {"deleted": True, "group": group}, output)
