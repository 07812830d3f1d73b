"""Waiting for whoever answers first, among several that would each wait long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, TypeVar

Answer = TypeVar("Answer")


async def first_answers(
    waits: Sequence[Coroutine[Any, Any, Answer]],
    is_one: Callable[[Answer], bool],
    on_dropped: Callable[[Answer], None] | None = None,
) -> list[Answer]:
    """What has been answered when the first answer that is one came, or when nobody waits any more.

    The others are cancelled, and their ends awaited: one that answered while it was cancelled is in the list too.
    An error is raised only if nothing was answered. Whoever is cancelled itself gets no list: `on_dropped` is told of
    what was answered by then.
    """
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(wait) for wait in waits]
    pending = set(tasks)
    try:
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            if any(one.exception() is None and is_one(one.result()) for one in done):
                break
    except BaseException:
        await _cancelled(pending)
        if on_dropped is not None:
            for answer in _answers(tasks):
                on_dropped(answer)
        raise
    await _cancelled(pending)
    ended = [task for task in tasks if not task.cancelled()]
    answers = _answers(tasks)
    if not answers:
        for task in ended:
            task.result()
    return answers


async def _cancelled(tasks: AbstractSet[asyncio.Task[Answer]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


def _answers(tasks: Sequence[asyncio.Task[Answer]]) -> list[Answer]:
    return [task.result() for task in tasks if not task.cancelled() and task.exception() is None]
