"""Worker: the app object. It knows the tasks and their schedules, and sends messages."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, Unpack

from goqueue.client import InvalidArgument, sync
from goqueue.client.credentials import Credentials
from goqueue.client.durations import Duration, ms_of, seconds_of
from goqueue.client.producing.outgoing import PriorityName
from goqueue.worker.backoff import parse_backoff
from goqueue.worker.task import Sender, Sent, Task, TaskSettings, new_task_id

if TYPE_CHECKING:
    from goqueue.worker.running import Running, WorkFields

P = ParamSpec("P")
R = TypeVar("R")
DEDUP_WINDOW = "goqueue.dedup.window.ms"


@dataclass(frozen=True, slots=True)
class Every:
    """One schedule that a decorator asks for."""

    name: str
    cron: str
    timezone: str
    missed: Literal["once", "skip", "all"]
    task: Task[Any, Any]


class Worker:
    """Tasks of one application.

        app = Worker("http://127.0.0.1:8080", name="shop")

    `name` is the queue group of its workers and the owner of its schedules: apps that have nothing to do with each
    other need different names, and different queues. `queue` is that of tasks which name none; without it, it is
    `{name}.tasks`. Without an address the environment and the contexts of the command line decide. A broker
    with security takes `api_key`, or `user` and `password`; `ca` is the file with the authority of its certificate.
    """

    def __init__(
        self,
        server: str | Sequence[str] | None = None,
        *,
        name: str = "workers",
        queue: str | None = None,
        partitions: int | None = None,
        idempotency_window: Duration = "1h",
        api_key: str | None = None,
        user: str | None = None,
        password: str | None = None,
        ca: str | None = None,
        certificate: str | None = None,
        context: str | None = None,
    ) -> None:
        self.server = server
        self.name = name
        # Of its own: another app is another group, and would get every message of a queue that both have.
        self.default_queue = queue or f"{name}.tasks"
        self.credentials = Credentials(api_key, user, password, ca, certificate)
        self.context = context
        self.tasks: dict[str, Task[Any, Any]] = {}
        self.schedules: dict[str, Every] = {}
        # Tests run tasks where they are sent: no broker is asked.
        self.eager = False
        self._partitions = partitions
        self._window_ms = ms_of(idempotency_window, "idempotency_window")
        self._lock = threading.Lock()
        self._connected: tuple[int, sync.Client, sync.Producer] | None = None
        self._windows_ms: dict[str, int] = {}
        self._running: Running | None = None

    # --- decorators ----------------------------------------------------------------------

    def task(
        self,
        *,
        queue: str | None = None,
        retries: int = 3,
        backoff: Duration = "1s..5m",
        timeout: Duration | None = None,
        priority: PriorityName = "normal",
        name: str | None = None,
    ) -> Callable[[Callable[P, R]], Task[P, R]]:
        """Make a function a task.

            @app.task(queue="errands", retries=5, backoff="1s..5m", timeout="30s", priority="high")
            def fetch(item: str) -> None: ...

        A task that raises is tried again, `retries` times, after a delay that doubles within `backoff`; then it is a
        dead letter of its queue. `timeout` limits one attempt. The name is `module.function` unless one is given.
        """
        if retries < 0:
            raise InvalidArgument(f"retries={retries} is too small", "give 0 or more")
        settings = TaskSettings(
            queue or self.default_queue,
            retries,
            parse_backoff(backoff),
            None if timeout is None else seconds_of(timeout, "timeout"),
            priority,
        )

        def decorate(function: Callable[P, R]) -> Task[P, R]:
            task = Task(self, function, name or _name_of(function), settings)
            if task.name in self.tasks:
                raise InvalidArgument(f"there are two tasks named {task.name!r}", "give one of them a name=")
            self.tasks[task.name] = task
            return task

        return decorate

    def every(
        self,
        cron: str,
        *,
        timezone: str = "UTC",
        missed: Literal["once", "skip", "all"] = "once",
        name: str | None = None,
    ) -> Callable[[Callable[[], R] | Task[[], R]], Task[[], R]]:
        """Send a task by a cron expression; the broker keeps the schedule, and no process has to be there for it.

            @app.every("0 9 * * *", timezone="Europe/Berlin")
            def report() -> None: ...

        The function takes no arguments. `@app.task(...)` below it sets its queue and retries. `missed` says what
        becomes of runs while the broker is down: `once` sends one message for all of them.
        """

        def decorate(given: Callable[[], R] | Task[[], R]) -> Task[[], R]:
            task = given if isinstance(given, Task) else self.task()(given)
            if task.arguments.required:
                raise InvalidArgument(
                    f"task {task.name!r} needs the arguments {', '.join(task.arguments.required)}",
                    "a scheduled task is called without arguments",
                )
            full_name = f"{self.name}.{name or task.name}"
            if full_name in self.schedules:
                raise InvalidArgument(f"there are two schedules named {full_name!r}", "give one of them a name=")
            self.schedules[full_name] = Every(full_name, cron, timezone, missed, task)
            return task

        return decorate

    # --- sending -------------------------------------------------------------------------

    def publish(self, how: Sender[Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Sent:
        """Store one task's message. `task.send` is the way to call this."""
        task = how.task
        if how.idempotency_key is not None and (how.delay is not None or how.deliver_at is not None):
            raise InvalidArgument("a task has either an idempotency_key or a delay", "leave one out")
        value = task.arguments.encode(args, kwargs)
        task_id = new_task_id()
        if self.eager:
            from goqueue.worker.eager import run_eagerly

            run_eagerly(task, value)
            return how.sent(task_id)
        queue = task.settings.queue
        producer = self.producer()
        window_ms = self._make_queue(queue)
        if how.idempotency_key is not None and window_ms == 0:
            raise InvalidArgument(
                f"idempotency_key={how.idempotency_key!r} has no effect: queue {queue!r} has no deduplication window",
                f"goqueue topic alter {queue} --config {DEDUP_WINDOW}={self._window_ms}",
            )
        delivered = producer.send_and_wait(
            queue,
            value,
            key=how.key,
            headers=how.record_headers(task_id),
            priority=how.priority or task.settings.priority,
            deduplication_id=how.idempotency_key,
            delay=how.delay,
            deliver_at=how.deliver_at,
        )
        return how.sent(task_id, delivered)

    def cancel(self, sent: Sent) -> None:
        """Cancel a delayed task: it is never run.

        sent = fetch.send_later("2h", "bread")
        app.cancel(sent)
        """
        if not sent.delayed:
            raise InvalidArgument(f"task {sent.id} was not sent with a delay", "only delayed tasks can be cancelled")
        self.client().delayed.cancel(sent.queue, sent.slot)

    def client(self) -> sync.Client:
        """The client that sends, opened with the first use in this process.

        print(app.client().dead_letters("errands").total)
        """
        return self._connect()[1]

    def producer(self) -> sync.Producer:
        """The producer of `client()`.

        app.producer().send("events", json={"kind": "started"})
        """
        return self._connect()[2]

    def connect_to(self, server: str) -> None:
        """Use another broker from now on.

        app.connect_to("http://127.0.0.1:8080")
        """
        self.close()
        self.server = server

    def close(self) -> None:
        """Close the client that sends; it is opened again when it is needed.

        app.close()
        """
        with self._lock:
            connected, self._connected = self._connected, None
            self._windows_ms.clear()
        if connected is not None and connected[0] == os.getpid():
            connected[1].close()

    # --- working -------------------------------------------------------------------------

    @property
    def queues(self) -> list[str]:
        """The queues of its tasks."""
        return sorted({task.settings.queue for task in self.tasks.values()})

    @property
    def topic_settings(self) -> dict[str, Any]:
        """How a queue is created where it does not exist."""
        return {"partitions": self._partitions, "config": {DEDUP_WINDOW: str(self._window_ms)}, "exist_ok": True}

    def run(self, **how: Unpack[WorkFields]) -> None:
        """Run tasks until SIGTERM, Ctrl-C or `stop()`, as `goqueue worker` does. Blocks.

        app.run(concurrency=8, pool="processes")
        """
        from goqueue.worker.running import Running

        self._running = Running(self, **how)
        try:
            self._running.run()
        finally:
            self._running = None

    def stop(self) -> None:
        """Let `run` finish the tasks that are running, and return. From any thread.

        threading.Timer(60, app.stop).start()
        app.stop()
        """
        if self._running is not None:
            self._running.stop()

    def _connect(self) -> tuple[int, sync.Client, sync.Producer]:
        with self._lock:
            # Neither its thread nor its sockets exist behind a fork.
            if self._connected is None or self._connected[0] != os.getpid():
                self._windows_ms.clear()
                client = sync.connect(self.server, context=self.context, **self.credentials.fields())
                self._connected = (os.getpid(), client, client.producer(linger=0))
            return self._connected

    def _make_queue(self, queue: str) -> int:
        """Create a queue unless it exists; returns its deduplication window."""
        known_ms = self._windows_ms.get(queue)
        if known_ms is None:
            topic = self.client().create_topic(queue, **self.topic_settings)
            known_ms = self._windows_ms[queue] = int(topic.config.get(DEDUP_WINDOW, "0"))
        return known_ms


def _name_of(function: Callable[..., Any]) -> str:
    module = function.__module__
    if module in {"__main__", "__mp_main__"}:
        # The worker imports by its file's name what the sender runs as a script.
        module = Path(getattr(sys.modules[module], "__file__", None) or "main").stem
    return f"{module}.{getattr(function, '__qualname__', type(function).__name__)}".replace(".<locals>", "")
