"""Delayed and recurring messages without `await`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Unpack

from goqueue.client.admin import delayed
from goqueue.client.admin.delayed import Delay, DeliverAt, Row, Rows

Run = Callable[[Coroutine[Any, Any, Any]], Any]


class DelayedMessages:
    """`client.delayed`: the messages that wait."""

    def __init__(self, run: Run, inner: delayed.DelayedMessages) -> None:
        self._run = run
        self._inner = inner

    def list(self, topic: str, *, limit: int = 100, skip: int = 0, due_before: DeliverAt | None = None) -> Rows:
        """A topic's delayed messages by time, without their values."""
        rows: Rows = self._run(self._inner.list(topic, limit=limit, skip=skip, due_before=due_before))
        return rows

    def get(self, topic: str, slot: str) -> Row:
        """One of them, whole."""
        return self._row(self._inner.get(topic, slot))

    def cancel(self, topic: str, slot: str) -> Row:
        """Take one away: it never comes."""
        return self._row(self._inner.cancel(topic, slot))

    def reschedule(
        self,
        topic: str,
        slot: str,
        *,
        delay: Delay | None = None,
        deliver_at: DeliverAt | None = None,
    ) -> Row:
        """Deliver one at another time."""
        return self._row(self._inner.reschedule(topic, slot, delay=delay, deliver_at=deliver_at))

    def now(self, topic: str, slot: str) -> Row:
        """Let one come without waiting any longer."""
        return self._row(self._inner.now(topic, slot))

    def stats(self) -> Row:
        """How many wait, and what happened since the broker was started."""
        return self._row(self._inner.stats())

    def _row(self, work: Coroutine[Any, Any, Row]) -> Row:
        row: Row = self._run(work)
        return row


class Schedules:
    """`client.schedules`: the messages that come again and again."""

    def __init__(self, run: Run, inner: delayed.Schedules) -> None:
        self._run = run
        self._inner = inner

    def create(self, name: str, cron: str, topic: str, value: str, **fields: Unpack[delayed.ScheduleFields]) -> Row:
        """Begin a recurring message; fields are those of the asynchronous client."""
        row: Row = self._run(self._inner.create(name, cron, topic, value, **fields))
        return row

    def list(self) -> Rows:
        """All of them, by name, with their next runs."""
        rows: Rows = self._run(self._inner.list())
        return rows

    def get(self, name: str) -> Row:
        """One of them."""
        row: Row = self._run(self._inner.get(name))
        return row

    def delete(self, name: str) -> Row:
        """End one."""
        row: Row = self._run(self._inner.delete(name))
        return row
