"""Ending what runs in the background."""

from __future__ import annotations

import asyncio
from contextlib import suppress


async def end_task(task: asyncio.Task[None] | None) -> None:
    """Cancel a task and wait until it is over; None was never begun."""
    if task is not None:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
