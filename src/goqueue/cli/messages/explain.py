"""The command `goqueue explain`: the story of one message, as a timeline."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.cli.output import Format, console, show
from goqueue.cli.session import REFUSED, USAGE, ContextName, Output, Server, fail, with_client
from goqueue.cli.times import time_ms

if TYPE_CHECKING:
    from goqueue.client import Client

_PLACE = re.compile(r"(?P<topic>[^/@:]+)/(?P<partition>[0-9]{1,10})@(?P<offset>[0-9]{1,19})")
_RECEIPT = re.compile(r"(?P<topic>[^:]+):(?P<partition>[0-9]{1,10}):(?P<offset>[0-9]{1,19}):[0-9]+:[0-9a-f.]+")
_TRACE = re.compile("[0-9a-f]{32}")
_SLOT = re.compile("([^/@:]+)/([0-9]{1,10})/([0-9]{1,19})")
_SLOTS_PREFIX = "__delayed:"

What = Annotated[
    str | None,
    typer.Argument(
        help="The message: topic/partition@offset (of a dead letter too), a receipt, or a trace id.", show_default=False
    ),
]
Topic = Annotated[str | None, typer.Option("--topic", "-t", help="With --key or a trace id: the topic.")]
Key = Annotated[str | None, typer.Option("--key", "-k", help="Every message with this key, in the time given.")]
Slot = Annotated[str | None, typer.Option("--delayed", help="A delayed message by topic and slot: orders/2/17.")]
Start = Annotated[str | None, typer.Option("--start", help="With --topic: from this time on, ISO 8601 or ms.")]
End = Annotated[str | None, typer.Option("--end", help="With --topic: before this time.")]
Limit = Annotated[int, typer.Option("--limit", "-n", help="With --topic: maximum number of messages.")]


def explain(
    what: What = None,
    topic: Topic = None,
    key: Key = None,
    delayed: Slot = None,
    start: Start = None,
    end: End = None,
    limit: Limit = 10,
    output: Output = Format.table,
    server: Server = None,
    context: ContextName = None,
) -> None:
    """Show what happened to a message: who sent it, every delivery, and where it went."""

    async def work(client: Client) -> list[dict[str, Any]]:
        if key is not None or (topic is not None and what is not None):
            found = await _search(client, topic, key, what, start, end, limit)
            return [await client.story(one["topic"], one["partition"], one["offset"]) for one in found]
        place = _place(what, delayed)
        if place is None:
            found_trace = await client.trace(what or "")
            place = found_trace["topic"], found_trace["partition"], found_trace["offset"]
        return [await client.story(*place)]

    if sum(one is not None for one in (what, key, delayed)) != 1:
        raise fail("name one message: topic/partition@offset, a receipt, a trace id, --delayed or --key", USAGE)
    stories = with_client(work, server, context)
    if not stories:
        raise fail("no message was found", REFUSED)
    if output is not Format.table:
        show(stories if len(stories) > 1 else stories[0], output)
        return
    for number, story in enumerate(stories):
        if number:
            print()
        _timeline(story)


async def _search(
    client: Client,
    topic: str | None,
    key: str | None,
    trace_id: str | None,
    start: str | None,
    end: str | None,
    limit: int,
) -> list[dict[str, Any]]:
    """Go through a topic, a stretch for each request, and say how far it is."""
    if topic is None:
        raise fail("--key needs --topic", USAGE)
    wanted: dict[str, Any] = {"topic": topic, "limit": limit}
    wanted |= {"key": key} if key is not None else {"trace_id": trace_id}
    wanted |= {name: time_ms(text, f"--{name}") for name, text in (("start", start), ("end", end)) if text is not None}
    found: list[dict[str, Any]] = []
    scanned = 0
    while True:
        answer = await client.search_traces(**wanted)
        found += answer["traces"]
        scanned += answer["scanned"]
        cursor = answer.get("cursor")
        if cursor is None or len(found) >= limit:
            return found[:limit]
        wanted["cursor"] = cursor
        typer.echo(f"looked at {scanned} messages, found {len(found)}", err=True)


def _place(what: str | None, delayed: str | None) -> tuple[str, int, int] | None:
    """Where the message lies; None if it is named by a trace id."""
    if delayed is not None:
        slot = _SLOT.fullmatch(delayed)
        if slot is None:
            raise fail(
                f"{delayed!r} is not a topic and a slot, such as orders/2/17: produce and list show slots",
                USAGE,
            )
        return _SLOTS_PREFIX + slot[1], int(slot[2]), int(slot[3])
    text = what or ""
    if _TRACE.fullmatch(text):
        return None
    found = _PLACE.fullmatch(text) or _RECEIPT.fullmatch(text)
    if found is None:
        raise fail(f"{text!r} is not a message: write orders/2@1042, a receipt, or a trace id of 32 hex digits", USAGE)
    return found["topic"], int(found["partition"]), int(found["offset"])


def _timeline(story: dict[str, Any]) -> None:
    gone = "" if story.get("stored", True) else ", no longer in its log"
    print(f"{story['topic']}/{story['partition']}@{story['offset']}  {story['status']}{gone}")
    print(f"trace {story['trace_id']}, {len(story['events'])} events in {_span(story['duration_ms'])}")
    screen = console()
    here = None
    for event in story["events"]:
        place = f"{event['topic']}/{event['partition']}@{event['offset']}"
        if place != here:
            here = place
            print(f"  {place}")
        at = datetime.fromtimestamp(event["at"] / 1000, UTC)
        moment = f"{at:%H:%M:%S}.{at.microsecond // 1000:03d}"
        screen.print(
            f"    {moment}  +{_span(event['after_ms']):<9} {event['event']:<22} {_details(event)}", soft_wrap=True
        )


def _details(event: dict[str, Any]) -> str:
    attributes = dict(event.get("attributes", {}))
    words = [f"{name} {_value(name, attributes.pop(name))}" for name in _FIRST if name in attributes]
    words += [f"{name} {_value(name, value)}" for name, value in attributes.items()]
    words += [f"from {event['from']}"] if "from" in event else []
    words += [f"to {event['to']}"] if "to" in event else []
    return ", ".join(words)


# What is looked for first in a line.
_FIRST = ("group", "member", "client", "error", "reason", "delivery_count")


def _value(name: str, value: int | str) -> str:
    if name in {"due_ms", "from_ms", "until_ms"}:
        return datetime.fromtimestamp(int(value) / 1000, UTC).isoformat(timespec="milliseconds")
    return _span(int(value)) if name.endswith("_ms") else str(value)


def _span(ms: int) -> str:
    if ms < 1000:
        return f"{ms} ms"
    return f"{ms / 1000:.3f} s" if ms < 60_000 else f"{ms // 60_000} min {ms % 60_000 / 1000:.0f} s"
