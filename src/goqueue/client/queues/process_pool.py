"""Handlers in processes of their own: a time limit kills that one process, and another takes its place.

Processes are started by spawn, so no thread and no socket of the client crosses a fork. The handler must be importable:
a function of a module, not a lambda. A program that is a script needs `if __name__ == "__main__":` around its start.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import pickle
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

from goqueue.client.errors import ClientError, InvalidArgument, TimeLimitExceeded, WorkerProcessDied
from goqueue.client.queues.pools import Handler
from goqueue.client.trace_context import call_in_context
from goqueue.client.types import QueueMessage

_END_S_MAX = 5.0


class HandlerFailed(ClientError):
    """A handler in a process raised something that could not be sent back as it is."""


class _Worker:
    """One process and our end of the pipe to it."""

    def __init__(self, handler: Handler) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process: SpawnProcess = context.Process(target=_serve, args=(theirs, handler), daemon=True)
        self._process.start()
        theirs.close()
        self.was_killed = False
        self._is_ready = False

    def exchange(self, message: QueueMessage, begun: Callable[[], object]) -> tuple[BaseException | None, str]:
        """Send a message and wait for what became of it. Blocks. `begun` is called once the process can handle it."""
        try:
            if not self._is_ready:
                self._connection.recv()
                self._is_ready = True
            begun()
            self._connection.send(message)
            problem, trace = self._connection.recv()
        except (EOFError, OSError):
            self._process.join(_END_S_MAX)
            code = self._process.exitcode
            raise WorkerProcessDied(f"the process of the handler ended with exit code {code}") from None
        return problem, trace

    def kill(self) -> None:
        """End it now, whatever it does."""
        self.was_killed = True
        self._process.kill()

    def close(self) -> None:
        """End it. Blocks."""
        with suppress(OSError):
            self._connection.close()
        self._process.join(0 if self.was_killed else _END_S_MAX)
        if self._process.is_alive():
            self._process.kill()
            self._process.join(_END_S_MAX)


class ProcessPool:
    """Up to `concurrency` processes, each with one message at a time."""

    def __init__(self, handler: Handler, concurrency: int) -> None:
        try:
            pickle.dumps(handler)
        except (pickle.PicklingError, AttributeError, TypeError) as problem:
            raise InvalidArgument(
                f"the handler {handler!r} cannot be sent to a process", f"define it in a module ({problem})"
            ) from None
        self._handler = handler
        self._threads = ThreadPoolExecutor(concurrency, thread_name_prefix="goqueue-process")
        self._idle: list[_Worker] = []
        self._all: set[_Worker] = set()

    async def call(self, message: QueueMessage, limit_s: float | None) -> None:
        """Call the handler in a process that is free, or in a new one."""
        loop = asyncio.get_running_loop()
        worker = self._idle.pop() if self._idle else await loop.run_in_executor(self._threads, _Worker, self._handler)
        self._all.add(worker)
        timer: asyncio.TimerHandle | None = None
        is_over = False

        def begin_limit() -> None:
            nonlocal timer
            if limit_s is not None and not is_over:
                timer = loop.call_later(limit_s, worker.kill)

        # The start of a process, which imports the handler's module, is not the handler's time.
        begun = partial(loop.call_soon_threadsafe, begin_limit)
        exchange = loop.run_in_executor(self._threads, worker.exchange, message, begun)
        try:
            problem, trace = await asyncio.shield(exchange)
        except asyncio.CancelledError:
            worker.kill()
            await asyncio.gather(exchange, return_exceptions=True)
            self._discard(worker)
            raise
        except WorkerProcessDied:
            self._discard(worker)
            if worker.was_killed:
                raise TimeLimitExceeded(
                    f"the handler worked for longer than its limit of {limit_s or 0:g} s, and its process was killed"
                ) from None
            raise
        finally:
            is_over = True
            if timer is not None:
                timer.cancel()
        if worker.was_killed:
            # The limit struck in the moment between the answer and now.
            self._discard(worker)
        else:
            self._idle.append(worker)
        if problem is not None:
            problem.add_note(trace)
            raise problem

    async def close(self) -> None:
        """End all processes."""
        workers, self._all = self._all, set()
        self._idle.clear()
        await asyncio.gather(*(asyncio.to_thread(one.close) for one in workers))
        self._threads.shutdown(wait=False)

    def _discard(self, worker: _Worker) -> None:
        self._all.discard(worker)
        self._threads.submit(worker.close)


def _serve(connection: Connection[Any, Any], handler: Handler) -> None:
    """The process: handle what comes until the other end is closed."""
    # Ctrl-C and a signal to the whole process group are for the parent, which decides what they mean.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with suppress(OSError):
        # All is imported by now.
        connection.send(None)
    while True:
        try:
            message = connection.recv()
        except (EOFError, OSError):
            return
        problem, trace = _handle(handler, message)
        try:
            connection.send((problem, trace))
        except (pickle.PicklingError, AttributeError, TypeError):
            connection.send((HandlerFailed(f"{type(problem).__name__}: {problem}"), trace))
        except OSError:
            return


def _handle(handler: Handler, message: QueueMessage) -> tuple[BaseException | None, str]:
    try:
        outcome = call_in_context(handler, message)
        if isinstance(outcome, Awaitable):
            asyncio.run(_as_coroutine(outcome))
    except BaseException as problem:  # noqa: BLE001 - even SystemExit is only a failed delivery here
        trace = "".join(traceback.format_exception(*sys.exc_info()))
        try:
            # Not every exception that can be written can be read again.
            pickle.loads(pickle.dumps(problem))  # noqa: S301 - our own bytes
        except Exception:  # noqa: BLE001
            return HandlerFailed(f"{type(problem).__name__}: {problem}"), trace
        return problem, trace
    return None, ""


async def _as_coroutine(outcome: Awaitable[Any]) -> object:
    return await outcome
