"""The commands `goqueue queue receive|ack|nack|reject|extend|release|stats|policy`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer
from msgspec import to_builtins

from goqueue.cli.messages.consume import row_of, shown
from goqueue.cli.output import Format, show
from goqueue.cli.session import REFUSED, USAGE, ContextName, Output, Server, TopicName, fail, with_client
from goqueue.cli.times import duration
from goqueue.client import Client, QueueMessage, Settled
from goqueue.client.admin.stats import PriorityStats, QueueStats, ReliabilityStats
from goqueue.client.types import SettleProblem

app = typer.Typer(help="Receive messages with receipts, and settle them.", no_args_is_help=True)

Receipts = Annotated[list[str], typer.Argument(help="Receipts, as `queue receive` shows them.", show_default=False)]
Durable = Annotated[bool, typer.Option("--durable", help="Wait until it is on disk.")]
Group = Annotated[str, typer.Option("--group", "-g", help="The consumer group.")]


@app.command()
def receive(
    topic: TopicName,
    group: Group = "default",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of messages.")] = 1,
    wait: Annotated[
        str, typer.Option("--wait", help="How long to wait for the first, such as 20s.", callback=duration)
    ] = "0s",
    visibility: Annotated[
        str | None,
        typer.Option("--visibility", help="Time to settle them, such as 2m.", show_default=False, callback=duration),
    ] = None,
    ack: Annotated[bool, typer.Option("--ack", help="Ack them at once.")] = False,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Receive messages; one that is not settled before its visibility ends is redelivered."""

    async def work(client: Client) -> list[QueueMessage]:
        queue = client.queue(
            topic,
            group=group,
            client_id="goqueue-cli",
            visibility=visibility,
            auto_extend=False,
            reconnect_max=0,
        )
        async with queue:
            messages = await queue.receive(limit=limit, wait=wait)
            if ack and messages:
                await queue.ack(*messages)
        return messages

    messages = with_client(work, server, context)
    if output is not Format.table:
        show([_row(one) for one in messages], output)
        return
    for message in messages:
        again = "" if message.delivery_count == 1 else f" delivery {message.delivery_count}"
        key = "" if message.key is None else f"key={shown(message.key)} "
        place = f"{message.topic}/{message.partition}@{message.offset}"
        typer.echo(f"{place} {message.priority}{again} {key}{shown(message.value)}")
        if not ack:
            typer.echo(f"  receipt {message.receipt}")
    if not messages:
        typer.echo("no messages", err=True)


@app.command("ack")
def acknowledge(
    receipts: Receipts,
    durable: Durable = False,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Acknowledge messages."""
    _settle("ack", receipts, {"durable": durable}, output, server, context)


@app.command()
def nack(
    receipts: Receipts,
    delay: Annotated[
        str | None,
        typer.Option("--delay", "-d", help="Redeliver after this, such as 30s.", show_default=False, callback=duration),
    ] = None,
    error: Annotated[
        str, typer.Option("--error", "--reason", "-r", help="What went wrong; a dead letter shows it.")
    ] = "",
    durable: Durable = False,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Redeliver messages that could not be processed."""
    fields: dict[str, Any] = {"durable": durable, "error": error}
    if delay is not None:
        fields["delay"] = delay
    _settle("nack", receipts, fields, output, server, context)


@app.command()
def reject(
    receipts: Receipts,
    error: Annotated[str, typer.Option("--error", "--reason", "-r", help="What is wrong; the dead letter shows it.")],
    durable: Durable = False,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Send messages that can never be processed to the dead letters."""
    _settle("reject", receipts, {"durable": durable, "error": error}, output, server, context)


@app.command()
def extend(
    receipts: Receipts,
    by: Annotated[
        str, typer.Option("--by", "-b", help="How much more time from now on, such as 2m.", callback=duration)
    ] = "30s",
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Give messages more time before they are redelivered."""
    _settle("visibility", receipts, {"visibility": by}, output, server, context)


@app.command()
def release(
    receipts: Receipts,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Give messages back at once; this does not count as a failure."""
    _settle("visibility", receipts, {"extension_seconds": 0}, output, server, context)


@app.command()
def stats(
    topic: Annotated[str | None, typer.Argument(help="Only this topic.", show_default=False)] = None,
    priority: Annotated[bool, typer.Option("--priority", help="Show messages by priority lane.")] = False,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Show messages in flight, settled and dead-lettered, or by priority, of one topic or of all."""
    if not priority:
        found = with_client(lambda client: client.reliability_stats(topic), server, context)
        if output is not Format.table:
            show(found, output)
            return
        show(_totals(found), output)
        typer.echo("\nqueues")
        show([_queue_row(one) for one in found.queues], output)
        return
    lanes = with_client(lambda client: client.priority_stats(topic), server, context)
    show(lanes if output is not Format.table else _lane_rows(lanes), output)


@app.command()
def policy(
    group: str,
    topic: Annotated[str | None, typer.Option("--topic", "-t", help="The effective policy for this topic.")] = None,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", help="A change as name=value, such as retries_max=5; may be repeated."),
    ] = None,
    unset: Annotated[list[str] | None, typer.Option("--unset", help="An override to remove.")] = None,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Show or change how a queue group's messages are delivered."""
    changes = {**_changes(change), **dict.fromkeys(unset or ())}

    async def work(client: Client) -> dict[str, Any]:
        if changes:
            await client.alter_policy(group, **changes)
        return await client.policy(group, topic=topic)

    found = with_client(work, server, context)
    if output is not Format.table:
        show(found, output)
        return
    show({name: found[name] for name in ("group", "mode", "sharing", "overrides")}, output)
    typer.echo("\neffective")
    show(found["effective"], output)


def _settle(
    action: Literal["ack", "nack", "reject", "visibility"],
    receipts: list[str],
    fields: dict[str, Any],
    output: Format,
    server: str | None,
    context: str | None,
) -> None:
    """Settle, show every receipt's fate, and end with exit code 1 if one was refused."""
    results = with_client(lambda client: client.settle(action, receipts, fields), server, context)
    if output is not Format.table:
        show([_result(one) for one in results], output)
    else:
        for one in results:
            _tell(one)
    if any(not one.success for one in results):
        raise typer.Exit(REFUSED)


def _tell(one: Settled) -> None:
    if not one.success:
        fail(f"{one.receipt}: {(one.error or SettleProblem()).message}", REFUSED)
        return
    more = f", dead letter in {one.dead_letter_topic}" if one.dead_letter_topic else ""
    typer.echo(f"{one.action} {one.topic}/{one.partition}@{one.offset}{more}")


def _result(one: Settled) -> dict[str, Any]:
    if not one.success:
        return {"receipt_handle": one.receipt, "success": False, "status": one.status, "error": to_builtins(one.error)}
    return {
        "receipt_handle": one.receipt,
        "success": True,
        "action": one.action,
        "topic": one.topic,
        "partition": one.partition,
        "offset": one.offset,
        "delivery_count": one.delivery_count,
        "next_visible_at": one.next_visible_at,
        "new_deadline": one.new_deadline,
        "dlq_topic": one.dead_letter_topic,
    }


def _row(message: QueueMessage) -> dict[str, Any]:
    return {
        **row_of(message),
        "receipt_handle": message.receipt,
        "delivery_count": message.delivery_count,
        "visible_until": message.visible_until_ms,
    }


def _totals(found: ReliabilityStats) -> dict[str, Any]:
    """Totals since the start of the broker, in the words of the documentation."""
    settled, leases, dead = found.ack_manager, found.visibility_tracker, found.dlq
    return {
        "delivered": settled.delivered_total,
        "redelivered": settled.redelivered_total,
        "acked": settled.acked_total,
        "nacked": settled.nacked_total,
        "rejected": settled.rejected_total,
        "released": settled.released_total,
        "in flight": leases.in_flight,
        "waiting for retry": settled.waiting_for_retry,
        "consumers": settled.consumers,
        "leases extended": leases.extended_total,
        "leases expired": leases.expired_total,
        "dead letters": dead.dead_lettered_total,
        "dead letters by topic": dead.by_topic,
        "moving to dead letters": dead.dying,
        "dead letter write errors": dead.failures_total,
        "expired by TTL": dead.too_old_total,
        "unreadable ranges": dead.unreadable_total,
    }


def _queue_row(one: QueueStats) -> dict[str, Any]:
    return {
        "group": one.group,
        "topic": one.topic,
        "partition": one.partition,
        "in_flight": one.in_flight,
        "retrying": one.waiting,
        "unsettled": one.outstanding,
        "limit_reached": one.at_bound,
        "consumers": one.consumers,
    }


def _lane_rows(found: PriorityStats) -> list[dict[str, Any]]:
    """As many columns as a terminal has room for. `-o json` has every figure."""
    return [
        {
            "queue": f"{topic}/{partition}",
            "group": one.group,
            "lane": lane,
            "ready": figures.ready,
            "in_flight": figures.in_flight,
            "delivered": figures.delivered_total,
            "waiting": f"{figures.waiting_ms / 1000:.1f}s" if figures.waiting_since is not None else "-",
        }
        for topic, lanes in found.topics.items()
        for partition, queues in lanes.partitions.items()
        for one in queues
        for lane, figures in one.lanes.items()
    ]


def _changes(pairs: list[str] | None) -> dict[str, Any]:
    """`name=value` with values as JSON has them; a word that is no JSON is text."""
    import json

    changes: dict[str, Any] = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise fail(f"--set {pair!r} is not of the form name=value", USAGE)
        try:
            changes[name] = json.loads(value)
        except ValueError:
            changes[name] = value
    return changes
