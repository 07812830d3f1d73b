"""TestWorker: runs what is due through a real broker, in the calling thread, and returns when nothing is left.

    worker = TestWorker(app, broker.http_url)
    fetch.send_later("2h", "milk")
    broker.clock.advance(hours=2)
    assert worker.run() == ["shop.fetch"]

A failed task waits for its back-off by the broker's clock, so a test advances that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any

from goqueue.client import QueueMessage, Reject, Retry, connect, sync
from goqueue.worker.app import Worker
from goqueue.worker.handling import delivery_of, handle, retry_delay
from goqueue.worker.running import RETRIES_MAX
from goqueue.worker.schedules import upsert_schedules

_log = logging.getLogger("goqueue.worker")


class TestWorker:
    """A worker that runs when it is told to."""

    # Not a class of tests, whatever pytest makes of its name.
    __test__ = False

    def __init__(self, app: Worker, server: str) -> None:
        self._app = app
        self._server_before, self._eager_before = app.server, app.eager
        app.connect_to(server)
        app.eager = False
        self._server = server
        self._client = sync.connect(server)
        for queue in app.queues:
            self._client.create_topic(queue, **app.topic_settings)
        asyncio.run(self._prepare())
        self._consumers = [self._client.queue(queue, group=app.name, auto_extend=False, wait=0) for queue in app.queues]
        self._is_ready = False
        self.errors: list[BaseException] = []

    def run(self) -> list[str]:
        """Run all that is due now, and what those tasks send; returns the names of the tasks that were run."""
        names: list[str] = []
        while True:
            messages = [(one, consumer) for consumer in self._consumers for one in consumer.receive()]
            if not self._is_ready:
                # The group, and with it its policy, exists from the first receive on.
                self._client.alter_policy(self._app.name, retries_max=RETRIES_MAX)
                self._is_ready = True
            if not messages:
                return names
            for message, consumer in messages:
                names.append(delivery_of(message).task)
                self._run_one(consumer, message)

    def close(self) -> None:
        """Leave the app as it was before."""
        self._client.close()
        self._app.close()
        self._app.server, self._app.eager = self._server_before, self._eager_before

    def _run_one(self, consumer: sync.QueueConsumer, message: QueueMessage) -> None:
        try:
            outcome = handle(self._app, message)
            if isinstance(outcome, Awaitable):
                asyncio.run(_as_coroutine(outcome))
        except Reject as problem:
            self.errors.append(problem)
            consumer.reject(message, error=str(problem) or "rejected")
        except Exception as problem:  # noqa: BLE001 - whatever a task raises is a failed attempt
            self.errors.append(problem)
            _log.warning("task %s failed", delivery_of(message).task, exc_info=problem)
            try:
                usual = retry_delay(self._app, message, problem)
            except Reject as rejected:
                consumer.reject(message, error=str(rejected))
                return
            own = problem.delay if isinstance(problem, Retry) else None
            consumer.nack(message, delay=usual if own is None else own, error=f"{type(problem).__name__}: {problem}")
        else:
            consumer.ack(message)

    async def _prepare(self) -> None:
        async with connect(self._server) as client:
            await upsert_schedules(client, self._app)


async def _as_coroutine(outcome: Awaitable[Any]) -> Any:
    return await outcome
