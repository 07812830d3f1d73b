"""Tasks that run where they are sent, for tests: their arguments travel through JSON, their errors reach the sender."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from goqueue.worker.task import Task


def run_eagerly(task: Task[Any, Any], value: bytes) -> None:
    """Call the function with the arguments as a worker would read them."""
    args, kwargs = task.arguments.decode(value)
    outcome = task.function(*args, **kwargs)
    if not isinstance(outcome, Awaitable):
        return
    # A thread of its own, because the sender may be in an event loop itself.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, _result(outcome)).result()


async def _result(outcome: Awaitable[Any]) -> Any:
    return await outcome
