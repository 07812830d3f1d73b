"""Handling the messages of a queue: so many at a time, each settled by what its handler did.

`Runner` receives, hands out and settles; where a handler runs is the pool's business (`pools`, `process_pool`).
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from goqueue.client.durations import Duration, seconds_of
from goqueue.client.errors import ClientError, InvalidArgument, Reject, RequestRefused
from goqueue.client.queues.pools import Handler, Pool, PoolKind, open_pool
from goqueue.client.types import QueueMessage

if TYPE_CHECKING:
    from goqueue.client.queues.queue_consumer import QueueConsumer

# How long one receive waits: a stop is heard after it at the latest. A receive that was cut off could leave
# messages leased to nobody.
_WAIT_S = 1.0
_REASON_CHARS_MAX = 1024

TimeLimit = Duration | Callable[[QueueMessage], Duration | None]
RetryDelay = Callable[[QueueMessage, BaseException], Duration | None]
_log = logging.getLogger("goqueue.client")


class Retry(Exception):
    """Raised by a handler to have its message redelivered, after `delay` or after the group's back-off.

    raise Retry("the shop is closed", delay="10m")
    """

    def __init__(self, reason: str = "", *, delay: Duration | None = None) -> None:
        super().__init__(reason)
        if delay is not None:
            # Refused where it is raised: the handler has then failed, and its message is retried.
            seconds_of(delay, "delay")
        self.delay = delay


@dataclass(frozen=True, slots=True)
class Hooks:
    """Called around the handler, on the client's loop: `def` or `async def`, and short. Their errors are logged.

    `retry` hears of a message that will be redelivered, `failure` of one that went to the dead letters, `unsettled` of
    one that was handled while its outcome could not be stored: its lease had expired, and it may be redelivered.

    queue.run(handle, hooks=Hooks(failure=lambda message, problem: alert(message.text, problem)))
    """

    before: Callable[[QueueMessage], Awaitable[object] | object] | None = None
    after: Callable[[QueueMessage], Awaitable[object] | object] | None = None
    retry: Callable[[QueueMessage, BaseException], Awaitable[object] | object] | None = None
    failure: Callable[[QueueMessage, BaseException], Awaitable[object] | object] | None = None
    unsettled: Callable[[QueueMessage, BaseException], Awaitable[object] | object] | None = None


class RunFields(TypedDict, total=False):
    """Keywords of `queue.run`.

    `pool`: "threads" or "processes"; without it an `async def` runs on the loop and a `def` in threads.
    `time_limit`: how long a handler may work on one message (or a function that says so for a message).
    `grace`: how long a stop waits for handlers; what they have not finished then is given back.
    `signals`: whether SIGTERM and SIGINT mean stop.
    `retry_delay`: says how long a failed message waits for its next attempt (None: the group's back-off), or raises
    `Reject` to have it dead-lettered instead. It is called on the client's loop, like a hook.
    """

    concurrency: int
    pool: PoolKind | None
    time_limit: TimeLimit | None
    grace: Duration
    hooks: Hooks | None
    signals: bool
    retry_delay: RetryDelay | None


class Runner:
    """One `queue.run`."""

    def __init__(
        self,
        queue: QueueConsumer,
        handler: Handler,
        *,
        concurrency: int = 10,
        pool: PoolKind | None = None,
        time_limit: TimeLimit | None = None,
        grace: Duration = 30,
        hooks: Hooks | None = None,
        signals: bool = False,
        retry_delay: RetryDelay | None = None,
    ) -> None:
        if not callable(handler):
            raise TypeError(f"the handler is {type(handler).__name__}: give a function that takes a message")
        if concurrency < 1:
            raise InvalidArgument(f"concurrency={concurrency} is too small", "give 1 or more")
        if time_limit is not None and not callable(time_limit):
            seconds_of(time_limit, "time_limit")
        self._queue = queue
        self._concurrency = concurrency
        self._limit = time_limit
        self._grace_s = seconds_of(grace, "grace")
        self._hooks = hooks or Hooks()
        self._signals = signals
        self._retry_delay = retry_delay
        self._pool: Pool = open_pool(handler, pool, concurrency)
        self._stopping = asyncio.Event()
        self._at_work: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        """Take nothing more; `run` returns when what is in hand is finished or given back."""
        self._stopping.set()

    async def run(self) -> None:
        """Receive and handle until stopped, cancelled or closed."""
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGTERM, signal.SIGINT) if self._signals else ()
        for number in numbers:
            loop.add_signal_handler(number, self._on_signal, number)
        try:
            await self._receive_and_hand_out()
            await self._finish()
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)
            for task in self._at_work:
                task.cancel()
            await asyncio.gather(*self._at_work, return_exceptions=True)
            await self._pool.close()

    def _on_signal(self, number: int) -> None:
        if self._stopping.is_set():
            # The second time somebody is in a hurry.
            self._grace_s = 0
            for task in self._at_work:
                task.cancel()
        _log.info("%s stops, because of %s", self._queue, signal.Signals(number).name)
        self.stop()

    async def _receive_and_hand_out(self) -> None:
        stopped = asyncio.create_task(self._stopping.wait())
        try:
            while not (self._stopping.is_set() or self._queue.closed):
                free = self._concurrency - len(self._at_work)
                if free == 0:
                    await asyncio.wait({*self._at_work, stopped}, return_when=asyncio.FIRST_COMPLETED)
                    continue
                for message in await self._queue.receive(limit=free, wait=_WAIT_S):
                    task = asyncio.create_task(self._work(message))
                    self._at_work.add(task)
                    task.add_done_callback(self._at_work.discard)
        finally:
            stopped.cancel()

    async def _finish(self) -> None:
        if not self._at_work:
            return
        _, late = await asyncio.wait(self._at_work, timeout=self._grace_s)
        if late:
            _log.warning(
                "%s gives back %d messages whose handlers did not finish within %g s",
                self._queue,
                len(late),
                self._grace_s,
            )

    async def _work(self, message: QueueMessage) -> None:
        """Handle one message and settle it. Nothing that goes wrong here ends the others."""
        try:
            await self._handle(message)
        except RequestRefused as refused:
            _log.warning("%s was handled, but could not be settled and may be redelivered: %s", place(message), refused)
            await self._call_hook("unsettled", message, refused)
        except ClientError as problem:
            _log.warning("%s was handled, but its lease ended meanwhile: %s", place(message), problem)
            await self._call_hook("unsettled", message, problem)

    async def _handle(self, message: QueueMessage) -> None:
        await self._call_hook("before", message)
        try:
            await self._pool.call(message, self._limit_s(message))
        except asyncio.CancelledError:
            with suppress(ClientError):
                await self._queue.release(message)
            raise
        except Reject as problem:
            _log.warning("%s was rejected by its handler: %s", place(message), problem)
            await self._reject(message, problem, problem)
        except Retry as problem:
            await self._nack(message, problem, str(problem) or "the handler asked for a retry", problem.delay)
        except BaseException as problem:  # noqa: BLE001 - whatever the handler raises is a failed delivery
            _log.error(
                "the handler failed for %s, attempt %d", place(message), message.delivery_count, exc_info=problem
            )
            await self._nack(message, problem, f"{type(problem).__name__}: {problem}", None)
        else:
            await self._queue.ack(message)
            await self._call_hook("after", message)

    async def _reject(self, message: QueueMessage, rejected: Reject, problem: BaseException) -> None:
        await self._queue.reject(message, error=str(rejected)[:_REASON_CHARS_MAX] or "rejected")
        await self._call_hook("failure", message, problem)

    async def _nack(self, message: QueueMessage, problem: BaseException, reason: str, delay: Duration | None) -> None:
        if self._retry_delay is not None:
            try:
                usual = self._retry_delay(message, problem)
                if usual is not None:
                    seconds_of(usual, "retry_delay")
            except Reject as rejected:
                # The last attempt. The hook gets what the handler raised, not the decision that followed from it.
                await self._reject(message, rejected, problem)
                return
            except Exception:  # noqa: BLE001 - logged; the group's back-off holds
                _log.exception("retry_delay failed")
                usual = None
            delay = usual if delay is None else delay
        (settled,) = await self._queue.nack(message, error=reason[:_REASON_CHARS_MAX], delay=delay)
        await self._call_hook("failure" if settled.action == "dlq" else "retry", message, problem)

    def _limit_s(self, message: QueueMessage) -> float | None:
        limit = self._limit(message) if callable(self._limit) else self._limit
        return None if limit is None else seconds_of(limit, "time_limit")

    async def _call_hook(self, name: str, *given: object) -> None:
        hook = getattr(self._hooks, name)
        if hook is None:
            return
        try:
            outcome = hook(*given)
            if isinstance(outcome, Awaitable):
                await outcome
        except Exception:  # noqa: BLE001 - logged
            _log.exception("the hook %r failed", name)


def place(message: QueueMessage) -> str:
    """Where a message lies."""
    return f"message {message.topic}/{message.partition}@{message.offset}"
