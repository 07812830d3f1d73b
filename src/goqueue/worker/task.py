"""A task: a function with a name, a queue and a retry policy, and the ways to send it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

import msgspec

from goqueue.client import Delivered
from goqueue.client.durations import Duration
from goqueue.client.producing.outgoing import PriorityName
from goqueue.worker.arguments import Arguments
from goqueue.worker.backoff import Backoff

if TYPE_CHECKING:
    from goqueue.worker.app import Worker

P = ParamSpec("P")
R = TypeVar("R")

# Headers of a task's message.
NAME, ID, REPLY_TO = "task-name", "task-id", "task-reply-to"


class Sent(msgspec.Struct, frozen=True):
    """A task that the broker has stored. `id` is in the log of the worker that runs it.

    `partition` and `offset` say where the message lies. A delayed one lies nowhere yet: `app.cancel` takes its `slot`.
    `duplicate`: a task with this idempotency key was sent before, and this one was not stored.
    """

    id: str
    task: str
    queue: str
    partition: int = -1
    offset: int = -1
    duplicate: bool = False
    delayed: bool = False
    deliver_at: str | None = None
    slot: str = ""


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """What the decorator was given."""

    queue: str
    retries: int
    backoff: Backoff
    timeout_s: float | None
    priority: PriorityName


@dataclass(frozen=True)
class Sender(Generic[P]):
    """`task.options(...)`: the same task, sent differently."""

    task: Task[P, Any]
    priority: PriorityName | None = None
    key: str | None = None
    idempotency_key: str | None = None
    reply_to: str | None = None
    delay: Duration | None = None
    deliver_at: datetime | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def send(self, *args: P.args, **kwargs: P.kwargs) -> Sent:
        """Have a worker call the function; returns when the broker has stored the message.

        fetch.options(priority="high").send("milk")
        """
        return self.task.app.publish(self, args, kwargs)

    async def send_async(self, *args: P.args, **kwargs: P.kwargs) -> Sent:
        """`send` in an event loop, without blocking it.

        await fetch.options(priority="high").send_async("milk")
        """
        return await asyncio.to_thread(self.task.app.publish, self, args, kwargs)

    def send_later(self, when: Duration | datetime, /, *args: P.args, **kwargs: P.kwargs) -> Sent:
        """`send` after a delay, or at a time.

        fetch.options(key="customer-7").send_later("2h", "milk")
        """
        if isinstance(when, datetime):
            return replace(self, deliver_at=when, delay=None).send(*args, **kwargs)
        return replace(self, delay=when, deliver_at=None).send(*args, **kwargs)

    def record_headers(self, task_id: str) -> dict[str, str]:
        """The headers of the message."""
        headers = {**self.headers, NAME: self.task.name, ID: task_id}
        if self.reply_to is not None:
            headers[REPLY_TO] = self.reply_to
        return headers

    def sent(self, task_id: str, delivered: Delivered | None = None) -> Sent:
        """What `send` returns."""
        if delivered is None:
            return Sent(task_id, self.task.name, self.task.settings.queue)
        return Sent(
            task_id,
            self.task.name,
            delivered.topic,
            delivered.partition,
            delivered.offset,
            delivered.duplicate,
            delivered.delayed,
            delivered.deliver_at,
            delivered.slot,
        )


class Task(Generic[P, R]):
    """A decorated function. Called as it is, it runs here and now; `send` has a worker run it."""

    def __init__(self, app: Worker, function: Callable[P, R], name: str, settings: TaskSettings) -> None:
        self.app = app
        self.name = name
        self.settings = settings
        self.function = function
        self.arguments = Arguments(function, name)
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", name)
        self.__module__ = function.__module__
        self.__wrapped__ = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function directly: no broker, no worker."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<task {self.name} of queue {self.settings.queue}>"

    def send(self, *args: P.args, **kwargs: P.kwargs) -> Sent:
        """Have a worker call the function; returns when the broker has stored the message.

        fetch.send("milk", count=2)
        """
        return Sender[P](self).send(*args, **kwargs)

    async def send_async(self, *args: P.args, **kwargs: P.kwargs) -> Sent:
        """`send` in an event loop, without blocking it.

        await fetch.send_async("milk", count=2)
        """
        return await Sender[P](self).send_async(*args, **kwargs)

    def send_later(self, when: Duration | datetime, /, *args: P.args, **kwargs: P.kwargs) -> Sent:
        """The same after a delay (`"2h"`), or at a time. The broker holds it back, for as long as it takes.

        fetch.send_later("2h", "milk")
        """
        return Sender[P](self).send_later(when, *args, **kwargs)

    def options(
        self,
        *,
        priority: PriorityName | None = None,
        key: str | None = None,
        idempotency_key: str | None = None,
        reply_to: str | None = None,
        delay: Duration | None = None,
        headers: dict[str, str] | None = None,
    ) -> Sender[P]:
        """Send this task differently.

            fetch.options(priority="low", idempotency_key="order-7").send("milk")

        A repeat with the same `idempotency_key` within the queue's window is not stored. `reply_to` names a topic to
        which the worker publishes what the function returns. Tasks of one `key` lie in one partition.
        """
        return Sender(
            self,
            priority=priority,
            key=key,
            idempotency_key=idempotency_key,
            reply_to=reply_to,
            delay=delay,
            headers=dict(headers or {}),
        )


def new_task_id() -> str:
    """An id for one message."""
    return uuid.uuid4().hex
