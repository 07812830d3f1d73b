"""What a worker does with one message: find its task, read the arguments, call the function, publish a reply.

`handle` returns (ack) or raises; `retry_delay` then decides between another attempt and the dead letters. Both the
running worker and the test worker use these two.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec

from goqueue.client import ClientError, InvalidArgument, QueueMessage, Reject
from goqueue.worker.arguments import InvalidTaskArguments, plain_model
from goqueue.worker.backoff import Backoff
from goqueue.worker.task import ID, NAME, REPLY_TO

if TYPE_CHECKING:
    from goqueue.worker.app import Worker

# A message for a task that this worker does not have: a newer worker of a rolling update may have it.
UNKNOWN_RETRIES = 10
_UNKNOWN_BACKOFF = Backoff(1, 300)


class UnknownTask(ClientError):
    """This worker has no task of that name."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """The message that the running function was called for."""

    task: str
    id: str
    attempt: int
    message: QueueMessage


_current: ContextVar[Delivery] = ContextVar("goqueue_worker_delivery")


def current() -> Delivery:
    """The delivery that is being worked on: its id, its attempt, its message. Only inside a task.

    if current().attempt > 1: ...
    """
    try:
        return _current.get()
    except LookupError:
        raise ClientError("no task is running here: call current() inside a task that a worker runs") from None


def header(message: QueueMessage, name: str) -> str | None:
    """The text of a header."""
    return next((value.decode() for label, value in message.headers if label == name and value is not None), None)


def delivery_of(message: QueueMessage) -> Delivery:
    """What the message's headers say. Scheduled messages have no id of their own."""
    place = f"{message.topic}/{message.partition}@{message.offset}"
    return Delivery(header(message, NAME) or "?", header(message, ID) or place, message.delivery_count, message)


def handle(app: Worker, message: QueueMessage) -> Awaitable[None] | None:
    """Call the message's task; an `async def` is returned, to be awaited."""
    delivery = delivery_of(message)
    task = app.tasks.get(delivery.task)
    if task is None:
        raise UnknownTask(
            f"message {delivery.id} is for task {delivery.task!r}, which app {app.name!r} does not have: "
            "import the module that defines it; if the task is another app's, give each app queues of its own"
        )
    if message.delivery_count > task.settings.retries + 1:
        # Not reached by failures, which `retry_delay` counts: the workers that had it before died with it.
        raise Reject(f"{message.delivery_count - 1} deliveries ended without an answer from their workers")
    try:
        args, kwargs = task.arguments.decode(message.value)
    except InvalidTaskArguments as problem:
        raise Reject(str(problem)) from problem
    reply_to = header(message, REPLY_TO)
    token = _current.set(delivery)
    try:
        outcome = task.function(*args, **kwargs)
    finally:
        _current.reset(token)
    if isinstance(outcome, Awaitable):
        return _await_and_reply(app, outcome, delivery, reply_to)
    if reply_to is not None:
        _reply(app, delivery, reply_to, outcome)
    return None


def retry_delay(app: Worker, message: QueueMessage, problem: BaseException) -> float:
    """How long until the next attempt; raises `Reject` after the last one."""
    task = app.tasks.get(header(message, NAME) or "?")
    retries = UNKNOWN_RETRIES if task is None else task.settings.retries
    if message.delivery_count > retries:
        raise Reject(f"{type(problem).__name__}: {problem} (attempt {message.delivery_count}, the last one)")
    backoff = _UNKNOWN_BACKOFF if task is None else task.settings.backoff
    return backoff.delay_s(message.delivery_count)


def time_limit(app: Worker, message: QueueMessage) -> float | None:
    """The limit of the message's task."""
    task = app.tasks.get(header(message, NAME) or "?")
    return None if task is None else task.settings.timeout_s


async def _await_and_reply(app: Worker, outcome: Awaitable[Any], delivery: Delivery, reply_to: str | None) -> None:
    # The coroutine runs in a context of its own, wherever the pool awaits it.
    _current.set(delivery)
    returned = await outcome
    if reply_to is not None:
        await asyncio.to_thread(_reply, app, delivery, reply_to, returned)


def _reply(app: Worker, delivery: Delivery, reply_to: str, returned: object) -> None:
    body = {"id": delivery.id, "task": delivery.task, "value": returned}
    try:
        value = msgspec.json.encode(body, enc_hook=plain_model)
    except TypeError as problem:
        raise Reject(f"what the task returned cannot be sent as a reply: {problem}") from None
    app.producer().send_and_wait(reply_to, value, key=delivery.id)


@dataclass(frozen=True)
class ImportedHandler:
    """`handle` for processes: it travels as the name of the app, which the process imports."""

    path: str
    # Called once in a process, before its first task: logging is not inherited by a spawned process.
    prepare: Callable[[], None] | None = None

    def __call__(self, message: QueueMessage) -> Awaitable[None] | None:
        """Import the app, the first time, and handle the message."""
        return handle(_app_at(self.path, self.prepare), message)


_apps: dict[str, Worker] = {}


def _app_at(path: str, prepare: Callable[[], None] | None) -> Worker:
    if path not in _apps:
        if prepare is not None and multiprocessing.parent_process() is not None:
            prepare()
        _apps[path] = load_app(path)
    return _apps[path]


def load_app(path: str) -> Worker:
    """The app at `module:attribute`; `:app` may be left out."""
    from goqueue.worker.app import Worker

    module_name, _, attribute = path.partition(":")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as problem:
        if problem.name is not None and not f"{module_name}.".startswith(f"{problem.name}."):
            raise
        raise InvalidArgument(
            f"there is no module {module_name!r}", "give module:app, as it is imported from the current directory"
        ) from None
    app = getattr(module, attribute or "app", None)
    if not isinstance(app, Worker):
        raise InvalidArgument(
            f"{path!r} is not a worker app", f"name a goqueue.worker.Worker of {module_name}, such as {module_name}:app"
        )
    return app
