"""Delayed and recurring messages of one broker: looked at, changed, taken away.

A delayed message is known by its slot, the partition and offset that `send(..., delay=...)` answered.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from goqueue.client.transport import Transport, quoted

Row = dict[str, Any]
Rows = list[Row]
# 90 and timedelta(seconds=90) are seconds; text is as the broker reads it: 90s, 1h30m, 8760h.
Delay = str | float | timedelta
# Text is RFC 3339; a datetime without a zone is local time.
DeliverAt = str | datetime


def delay_text(delay: Delay) -> str:
    """A delay as the broker reads it, never rounded to less."""
    if isinstance(delay, str):
        return delay
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
    return f"{max(0, math.ceil(seconds * 1000))}ms"


def time_text(at: DeliverAt) -> str:
    """A time as the broker reads it."""
    return at if isinstance(at, str) else at.astimezone().isoformat()


def when(delay: Delay | None, deliver_at: DeliverAt | None) -> dict[str, str]:
    """The fields that say when."""
    fields = {}
    if delay is not None:
        fields["delay"] = delay_text(delay)
    if deliver_at is not None:
        fields["deliverAt"] = time_text(deliver_at)
    return fields


class DelayedMessages:
    """`client.delayed`: the messages that wait."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self, topic: str, *, limit: int = 100, skip: int = 0, due_before: DeliverAt | None = None) -> Rows:
        """A topic's delayed messages by time, without their values."""
        params = {"limit": str(limit), "skip": str(skip)}
        if due_before is not None:
            params["due_before"] = time_text(due_before)
        reply = await self._transport.call("GET", f"/topics/{quoted(topic)}/delayed", Row, params=params)
        rows: Rows = reply["messages"]
        return rows

    async def get(self, topic: str, partition: int, offset: int) -> Row:
        """One of them, whole."""
        return await self._transport.call("GET", _path(topic, partition, offset), Row)

    async def cancel(self, topic: str, partition: int, offset: int) -> Row:
        """Take one away: it never comes."""
        return await self._transport.call("DELETE", _path(topic, partition, offset), Row)

    async def reschedule(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        delay: Delay | None = None,
        deliver_at: DeliverAt | None = None,
    ) -> Row:
        """Let one come at another time."""
        body = when(delay, deliver_at)
        # The same time again changes nothing, a delay from now would: only the first may be repeated.
        return await self._transport.call(
            "PATCH", _path(topic, partition, offset), Row, body=body, repeatable=delay is None
        )

    async def now(self, topic: str, partition: int, offset: int) -> Row:
        """Let one come without waiting any longer."""
        return await self._transport.call("POST", _path(topic, partition, offset) + "/now", Row)

    async def stats(self) -> Row:
        """How many wait, and what happened since the broker was started."""
        return await self._transport.call("GET", "/delay/stats", Row)


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
        missed: str = "once",
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


def _path(topic: str, partition: int, offset: int) -> str:
    return f"/topics/{quoted(topic)}/delayed/{partition}/{offset}"
