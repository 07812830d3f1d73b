"""A running worker: one member of the app's queue group that takes messages of all its queues."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypedDict

from goqueue.client import Client, ClientError, InvalidArgument, QueueConsumer, connect
from goqueue.client.durations import Duration, seconds_of
from goqueue.client.identity import named_client_id
from goqueue.client.queues.pools import Handler, PoolKind
from goqueue.worker import handling
from goqueue.worker.progress import Progress
from goqueue.worker.schedules import upsert_schedules

if TYPE_CHECKING:
    from goqueue.worker.app import Worker

# The worker counts attempts by task; the group's own limit must not be in the way.
RETRIES_MAX = 10_000
# Leases are extended while a task works; a limit is the task's `timeout`.
_HOLD_MAX = "365d"
_WAITING_EVERY_S = 2.0
_log = logging.getLogger("goqueue.worker")


class WorkFields(TypedDict, total=False):
    """Keywords of `app.run`.

    `queues`: only these of the app's queues. `prune_schedules`: delete schedules of the app that no decorator names.
    `path`: where processes import the app, as module:attribute; found by itself where it is a module's global.
    `prepare`: called in every new process before its first task, such as to configure logging.
    """

    concurrency: int
    pool: PoolKind | None
    grace: Duration
    queues: list[str] | None
    prune_schedules: bool
    path: str | None
    prepare: Callable[[], None] | None
    watch: Callable[[Progress, dict[str, int]], None] | None


class Running:
    """One `app.run`."""

    def __init__(
        self,
        app: Worker,
        *,
        concurrency: int = 10,
        pool: PoolKind | None = None,
        grace: Duration = 30,
        queues: list[str] | None = None,
        prune_schedules: bool = False,
        path: str | None = None,
        prepare: Callable[[], None] | None = None,
        watch: Callable[[Progress, dict[str, int]], None] | None = None,
    ) -> None:
        if concurrency < 1:
            raise InvalidArgument(f"concurrency={concurrency} is too small", "give 1 or more")
        seconds_of(grace, "grace")
        self._app = app
        self._concurrency = concurrency
        self._pool: PoolKind | None = pool
        self._grace = grace
        self._queues = _chosen_queues(app, queues)
        self._prune = prune_schedules
        self._handler: Handler = partial(handling.handle, app)
        if pool == "processes":
            self._handler = handling.ImportedHandler(path or path_of(app), prepare)
        self._watch = watch
        self._loop: asyncio.AbstractEventLoop | None = None
        self._consumer: QueueConsumer | None = None
        self._stopped = threading.Event()
        self.progress = Progress()

    def run(self) -> None:
        """Work until stopped."""
        signals = threading.current_thread() is threading.main_thread()
        asyncio.run(self._run(signals=signals))

    def stop(self) -> None:
        """Finish what is in hand. From any thread."""
        self._stopped.set()
        loop, consumer = self._loop, self._consumer
        if loop is not None and consumer is not None:
            loop.call_soon_threadsafe(consumer.stop)

    async def _run(self, *, signals: bool) -> None:
        app = self._app
        self._loop = asyncio.get_running_loop()
        async with connect(app.server, context=app.context, **app.credentials.fields()) as client:
            for queue in self._queues:
                await client.create_topic(queue, **app.topic_settings)
            await upsert_schedules(client, app, prune=self._prune)
            name = os.environ.get("GOQUEUE_CLIENT_ID") or named_client_id(app.name)
            async with client.queue_consumer(
                app.name, self._queues, client_id=name, sharing="shared", hold_max=_HOLD_MAX
            ) as consumer:
                await client.alter_policy(app.name, retries_max=RETRIES_MAX)
                self._consumer = consumer
                _log.info(
                    "worker of app %s runs %d tasks of %s, %d at a time in %s",
                    app.name,
                    len(app.tasks),
                    ", ".join(self._queues),
                    self._concurrency,
                    self._pool or "threads and coroutines",
                )
                watching = asyncio.create_task(self._report(client))
                try:
                    await self._work(consumer, signals=signals)
                finally:
                    watching.cancel()
        _log.info("worker of app %s has stopped", app.name)

    async def _work(self, consumer: QueueConsumer, *, signals: bool) -> None:
        working = asyncio.ensure_future(
            consumer.run(
                self._handler,
                concurrency=self._concurrency,
                pool=self._pool,
                time_limit=partial(handling.time_limit, self._app),
                grace=self._grace,
                hooks=self.progress.hooks(),
                signals=signals,
                retry_delay=partial(handling.retry_delay, self._app),
            )
        )
        # A stop that came before there was something to stop.
        await asyncio.sleep(0)
        if self._stopped.is_set():
            consumer.stop()
        await working

    async def _report(self, client: Client) -> None:
        if self._watch is None:
            return
        while True:
            waiting: dict[str, int] = {}
            try:
                offsets = await client.group_offsets(self._app.name)
                waiting = {queue: _lag_of(offsets, queue) for queue in self._queues}
            except ClientError as problem:
                _log.debug("the number of waiting messages could not be read: %s", problem)
            self._watch(self.progress, waiting)
            await asyncio.sleep(_WAITING_EVERY_S)


def path_of(app: Worker) -> str:
    """Where a process can import this app from."""
    for name, module in list(sys.modules.items()):
        for attribute, found in list(getattr(module, "__dict__", {}).items()):
            if found is app and name != "__mp_main__":
                return f"{name}:{attribute}"
    raise InvalidArgument("the app is not a global of any module", "processes import it: define it in a module")


def _chosen_queues(app: Worker, queues: list[str] | None) -> list[str]:
    if not app.tasks:
        raise InvalidArgument(f"app {app.name!r} has no tasks", "decorate a function with @app.task()")
    unknown = sorted(set(queues or ()) - set(app.queues))
    if unknown:
        raise InvalidArgument(
            f"no task of app {app.name!r} is of queue {', '.join(unknown)}", f"its queues are {', '.join(app.queues)}"
        )
    return sorted(set(queues)) if queues else app.queues


def _lag_of(offsets: object, queue: str) -> int:
    topics = getattr(offsets, "topics", None) or {}
    return sum(int(one.get("lag", 0)) for one in (topics.get(queue) or {}).values())
