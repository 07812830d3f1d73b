"""Delayed and recurring messages of one broker: list, change and cancel them.

A delayed message is known by its slot, such as `2/17`, which `send(..., delay=...)` and `list` answer.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from goqueue.client.admin.delay_replies import (
    Cancelled,
    DelayedMessage,
    DelayedSummary,
    DelayStats,
    DeletedSchedule,
    Schedule,
)
from goqueue.client.durations import Duration, text_of
from goqueue.client.errors import InvalidArgument
from goqueue.client.transport import Transport, quoted

_Fields = dict[str, Any]
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
    """`client.delayed`: messages that are not due yet."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(
        self, topic: str, *, limit: int = 100, skip: int = 0, due_before: DeliverAt | None = None
    ) -> builtins.list[DelayedSummary]:
        """A topic's delayed messages by time, without their values.

        for message in await client.delayed.list("orders", limit=10):
            print(message.slot, message.deliver_at)
        """
        params = {"limit": str(limit), "skip": str(skip)}
        if due_before is not None:
            params["due_before"] = time_text(due_before, "due_before")
        reply = await self._transport.call("GET", f"/topics/{quoted(topic)}/delayed", _Fields, params=params)
        return [DelayedSummary(one) for one in reply["messages"]]

    async def get(self, topic: str, slot: str) -> DelayedMessage:
        """One delayed message with its content.

        print((await client.delayed.get("orders", "2/17")).value)
        """
        return DelayedMessage(await self._transport.call("GET", _path(topic, slot), _Fields))

    async def cancel(self, topic: str, slot: str) -> Cancelled:
        """Cancel a delayed message: it is never delivered.

        sent = await producer.send_and_wait("orders", "hello", delay="2h")
        await client.delayed.cancel("orders", sent.slot)
        """
        return Cancelled(await self._transport.call("DELETE", _path(topic, slot), _Fields))

    async def reschedule(
        self,
        topic: str,
        slot: str,
        *,
        delay: Delay | None = None,
        deliver_at: DeliverAt | None = None,
    ) -> DelayedSummary:
        """Deliver a delayed message at another time.

        await client.delayed.reschedule("orders", "2/17", delay="1h")
        """
        body = when(delay, deliver_at)
        # The same time again changes nothing, a delay from now would: only the first may be repeated.
        reply = await self._transport.call("PATCH", _path(topic, slot), _Fields, body=body, repeatable=delay is None)
        return DelayedSummary(reply)

    async def now(self, topic: str, slot: str) -> DelayedSummary:
        """Deliver a delayed message at once.

        await client.delayed.now("orders", "2/17")
        """
        return DelayedSummary(await self._transport.call("POST", _path(topic, slot) + "/now", _Fields))

    async def stats(self) -> DelayStats:
        """How many messages are delayed, and what happened since the broker was started.

        print((await client.delayed.stats()).total_pending)
        """
        return DelayStats(await self._transport.call("GET", "/delay/stats", _Fields))


class Schedules:
    """`client.schedules`: recurring messages."""

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
    ) -> Schedule:
        """Create a recurring message; `missed` says what happens to runs that were due while the broker was down.

        await client.schedules.create("report", "0 9 * * *", "reports", "daily", timezone="Europe/Berlin")
        """
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
        return Schedule(await self._transport.call("POST", "/schedules", _Fields, body=body))

    async def list(self) -> builtins.list[Schedule]:
        """All schedules by name, with their next runs.

        for schedule in await client.schedules.list():
            print(schedule.name, schedule.cron, schedule.next_runs)
        """
        reply = await self._transport.call("GET", "/schedules", _Fields)
        return [Schedule(one) for one in reply["schedules"]]

    async def get(self, name: str) -> Schedule:
        """One schedule.

        print((await client.schedules.get("report")).next_runs)
        """
        return Schedule(await self._transport.call("GET", f"/schedules/{quoted(name)}", _Fields))

    async def delete(self, name: str) -> DeletedSchedule:
        """Delete a schedule.

        await client.schedules.delete("report")
        """
        return DeletedSchedule(await self._transport.call("DELETE", f"/schedules/{quoted(name)}", _Fields))


def _path(topic: str, slot: str) -> str:
    partition, slash, offset = str(slot).partition("/")
    if not (slash and all(part.isascii() and part.isdigit() for part in (partition, offset))):
        raise InvalidArgument(
            f"slot={slot!r} is not a slot", "give the slot that send or list answered, such as '2/17'"
        )
    return f"/topics/{quoted(topic)}/delayed/{slot}"
