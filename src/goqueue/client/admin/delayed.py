"""Delayed and recurring messages of one broker: looked at, changed, taken away.

A delayed message is known by its slot, such as `2/17`, which `send(..., delay=...)` and `list` answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, TypedDict

from goqueue.client.durations import Duration, text_of
from goqueue.client.errors import InvalidArgument
from goqueue.client.transport import Transport, quoted

Row = dict[str, Any]
Rows = list[Row]
# 90 and timedelta(seconds=90) are seconds; text is as the broker reads it: 90s, 1h30m, 8760h.
Delay = Duration
# Text is RFC 3339; a datetime without a zone is local time.
DeliverAt = str | datetime
_EXAMPLE = "2026-12-24T18:00:00Z"


def time_text(at: DeliverAt, name: str) -> str:
    """A time as the broker reads it; `name` is the argument to blame."""
    if isinstance(at, datetime):
        return at.astimezone().isoformat()
    if not isinstance(at, str):
        raise TypeError(f"{name} is {type(at).__name__}: give a datetime or an RFC 3339 time such as {_EXAMPLE}")
    try:
        if datetime.fromisoformat(at).tzinfo is not None:
            return at
    except ValueError:
        pass
    raise InvalidArgument(f"{name}={at!r} is not an RFC 3339 time with a zone", f"write it as {_EXAMPLE}")


def when(delay: Delay | None, deliver_at: DeliverAt | None) -> dict[str, str]:
    """The fields that say when."""
    if delay is not None and deliver_at is not None:
        raise InvalidArgument("a message has either a delay or a deliver_at", "leave one out")
    fields = {}
    if delay is not None:
        fields["delay"] = text_of(delay, "delay")
    if deliver_at is not None:
        fields["deliverAt"] = time_text(deliver_at, "deliver_at")
    return fields


class DelayedMessages:
    """`client.delayed`: the messages that wait."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self, topic: str, *, limit: int = 100, skip: int = 0, due_before: DeliverAt | None = None) -> Rows:
        """A topic's delayed messages by time, without their values."""
        params = {"limit": str(limit), "skip": str(skip)}
        if due_before is not None:
            params["due_before"] = time_text(due_before, "due_before")
        reply = await self._transport.call("GET", f"/topics/{quoted(topic)}/delayed", Row, params=params)
        rows: Rows = reply["messages"]
        return rows

    async def get(self, topic: str, slot: str) -> Row:
        """One of them, whole."""
        return await self._transport.call("GET", _path(topic, slot), Row)

    async def cancel(self, topic: str, slot: str) -> Row:
        """Take one away: it never comes."""
        return await self._transport.call("DELETE", _path(topic, slot), Row)

    async def reschedule(
        self,
        topic: str,
        slot: str,
        *,
        delay: Delay | None = None,
        deliver_at: DeliverAt | None = None,
    ) -> Row:
        """Let one come at another time."""
        body = when(delay, deliver_at)
        # The same time again changes nothing, a delay from now would: only the first may be repeated.
        return await self._transport.call("PATCH", _path(topic, slot), Row, body=body, repeatable=delay is None)

    async def now(self, topic: str, slot: str) -> Row:
        """Let one come without waiting any longer."""
        return await self._transport.call("POST", _path(topic, slot) + "/now", Row)

    async def stats(self) -> Row:
        """How many wait, and what happened since the broker was started."""
        return await self._transport.call("GET", "/delay/stats", Row)


class ScheduleFields(TypedDict, total=False):
    """What a schedule can be told besides its name, its times and its message."""

    timezone: str
    key: str | None
    headers: Mapping[str, str | None] | None
    partition: int | None
    missed: Literal["once", "skip", "all"]


class Schedules:
    """`client.schedules`: the messages that come again and again."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def create(
        self,
        name: str,
        cron: str,
        topic: str,
        value: str,
        *,
        timezone: str = "UTC",
        key: str | None = None,
        headers: Mapping[str, str | None] | None = None,
        partition: int | None = None,
        missed: Literal["once", "skip", "all"] = "once",
    ) -> Row:
        """Begin a recurring message; `missed` says what becomes of runs while the broker is down."""
        body = {
            "name": name,
            "cron": cron,
            "topic": topic,
            "value": value,
            "timezone": timezone,
            "key": key,
            "headers": None if headers is None else dict(headers),
            "partition": partition,
            "missed": missed,
        }
        return await self._transport.call("POST", "/schedules", Row, body=body)

    async def list(self) -> Rows:
        """All of them, by name, with their next runs."""
        rows: Rows = (await self._transport.call("GET", "/schedules", Row))["schedules"]
        return rows

    async def get(self, name: str) -> Row:
        """One of them."""
        return await self._transport.call("GET", f"/schedules/{quoted(name)}", Row)

    async def delete(self, name: str) -> Row:
        """End one."""
        return await self._transport.call("DELETE", f"/schedules/{quoted(name)}", Row)


def _path(topic: str, slot: str) -> str:
    partition, slash, offset = str(slot).partition("/")
    if not (slash and all(part.isascii() and part.isdigit() for part in (partition, offset))):
        raise InvalidArgument(
            f"slot={slot!r} is not a slot", "give the slot that send or list answered, such as '2/17'"
        )
    return f"/topics/{quoted(topic)}/delayed/{slot}"
