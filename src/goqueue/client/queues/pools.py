"""Where handlers run: on the loop, in threads, or in processes (`process_pool`).

A time limit on the loop cancels the handler. In a thread it raises `TimeLimitExceeded` inside the handler at its next
step of Python code, so it cannot interrupt a call into C, such as a query of a database driver. Use processes where
a limit must hold whatever the handler does.
"""

from __future__ import annotations

import asyncio
import ctypes
import inspect
import queue
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Literal, Protocol

from goqueue.client.errors import InvalidArgument, TimeLimitExceeded
from goqueue.client.trace_context import call_in_context
from goqueue.client.types import QueueMessage

Handler = Callable[[QueueMessage], Awaitable[object] | object]
PoolKind = Literal["threads", "processes"]


class Pool(Protocol):
    """Runs handlers."""

    async def call(self, message: QueueMessage, limit_s: float | None) -> None:
        """Handle a message; raises what the handler raised, or `TimeLimitExceeded`."""

    async def close(self) -> None:
        """Run nothing any more. Handlers that still work are abandoned."""


def open_pool(handler: Handler, kind: PoolKind | None, concurrency: int) -> Pool:
    """The pool that was asked for; without a kind, coroutines run on the loop and functions in threads."""
    if kind == "processes":
        # Not above: most programs need none of it.
        from goqueue.client.queues.process_pool import ProcessPool

        return ProcessPool(handler, concurrency)
    if kind not in {None, "threads"}:
        raise InvalidArgument(f"pool={kind!r} is not a pool", "give 'threads' or 'processes'")
    if kind is None and is_coroutine_function(handler):
        return LoopPool(handler)
    return ThreadPool(handler, own_loops=kind == "threads")


def is_coroutine_function(handler: Handler) -> bool:
    """Whether calling it only makes a coroutine."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004


class LoopPool:
    """Coroutines on the client's loop."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    async def call(self, message: QueueMessage, limit_s: float | None) -> None:
        """Await the handler."""
        await _await_limited(call_in_context(self._handler, message), limit_s)

    async def close(self) -> None:
        """Nothing to do: what was awaited is over or cancelled."""


async def _await_limited(outcome: object, limit_s: float | None) -> None:
    if not isinstance(outcome, Awaitable):
        return
    limit = asyncio.timeout(limit_s)
    try:
        async with limit:
            await outcome
    except TimeoutError:
        # The handler may have had a time-out of its own.
        if not limit.expired():
            raise
        raise TimeLimitExceeded(f"the handler worked for longer than its limit of {limit_s:g} s") from None


class _Job:
    """One message in a thread."""

    def __init__(self, message: QueueMessage) -> None:
        self.message = message
        self.loop = asyncio.get_running_loop()
        self.done: asyncio.Future[object] = self.loop.create_future()
        self.lock = threading.Lock()
        self.thread_id: int | None = None
        self.interrupted = False

    def interrupt(self) -> None:
        """Raise in the thread that works on it, if one does."""
        with self.lock:
            if self.thread_id is not None and not self.interrupted:
                self.interrupted = True
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self.thread_id), ctypes.py_object(TimeLimitExceeded)
                )

    def finish(self, outcome: object, problem: BaseException | None) -> None:
        """Tell the loop, unless it is gone or no longer cares."""

        def tell() -> None:
            if self.done.done():
                return
            if problem is None:
                self.done.set_result(outcome)
            else:
                self.done.set_exception(problem)

        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(tell)


class ThreadPool:
    """Functions in threads, which are started when they are needed and end with the pool."""

    def __init__(self, handler: Handler, *, own_loops: bool) -> None:
        self._handler = handler
        # With them an `async def` runs in a loop of the thread's; else what a function returns is awaited on ours.
        self._own_loops = own_loops
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._threads = 0
        self._idle = 0
        self._lock = threading.Lock()

    async def call(self, message: QueueMessage, limit_s: float | None) -> None:
        """Call the handler in a thread."""
        job = _Job(message)
        with self._lock:
            needs_thread = self._idle == 0
            if needs_thread:
                self._threads += 1
            else:
                self._idle -= 1
        if needs_thread:
            # Daemons: a handler that hangs must not keep the program from ending.
            threading.Thread(target=self._work, name=f"goqueue-handler-{self._threads}", daemon=True).start()
        self._jobs.put(job)
        timer = None if limit_s is None else job.loop.call_later(limit_s, job.interrupt)
        try:
            outcome = await job.done
        except TimeLimitExceeded as problem:
            raise TimeLimitExceeded(
                f"the handler worked for longer than its limit of {limit_s or 0:g} s"
            ).with_traceback(problem.__traceback__) from None
        finally:
            if timer is not None:
                timer.cancel()
        await _await_limited(outcome, limit_s)

    async def close(self) -> None:
        """Let the threads end; one whose handler still works ends after it."""
        for _ in range(self._threads):
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            outcome: object = None
            problem: BaseException | None = None
            try:
                with job.lock:
                    job.thread_id = threading.get_ident()
                outcome = call_in_context(self._handler, job.message)
                if self._own_loops and isinstance(outcome, Awaitable):
                    outcome = asyncio.run(_as_coroutine(outcome))
            except BaseException as raised:  # noqa: BLE001 - even SystemExit is only a failed delivery here
                problem = raised
            self._end(job)
            job.finish(outcome, problem)
            with self._lock:
                self._idle += 1

    @staticmethod
    def _end(job: _Job) -> None:
        """From here on nothing is raised in this thread; what was on its way arrives here and is dropped."""
        try:
            with job.lock:
                job.thread_id = None
            if job.interrupted:
                # Python raises it at one of the next steps, if it has not been raised in the handler.
                for _ in range(10):
                    time.sleep(0)
        except TimeLimitExceeded:
            with job.lock:
                job.thread_id = None


async def _as_coroutine(outcome: Awaitable[Any]) -> object:
    return await outcome
