"""Leases that are extended while a handler works, when their partition changes its leader."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from goqueue.client.options import QueueOptions
from goqueue.client.queues.queue_consumer import QueueConsumer
from goqueue.client.types import QueueMessage, Settled, SettleProblem


class Wire:
    """Answers extensions with one status after the other."""

    def __init__(self, *statuses: int) -> None:
        self._statuses = list(statuses)

    async def settle(self, _path: str, receipts: Sequence[str], *_args: Any, **_kwargs: Any) -> list[Settled]:
        status = self._statuses.pop(0)
        problem = SettleProblem("not_coordinator", "another node is about to lead")
        return [
            Settled(True, one, "extended") if status == 200 else Settled(False, one, error=problem, status=status)
            for one in receipts
        ]


@pytest.mark.parametrize(("status", "is_kept"), [(503, True), (429, True), (410, False)])
async def test_an_extension_that_meets_a_change_of_leaders_is_asked_for_again(status: int, is_kept: bool) -> None:
    consumer = QueueConsumer(None, Wire(status, 200), "queue t", QueueOptions())  # type: ignore[arg-type]
    message = QueueMessage("t", 0, 0, 0, None, None, receipt="a", delivery_count=1, visible_until_ms=0)
    now_ms = int(asyncio.get_running_loop().time() * 1000)
    consumer._held.take([message], 1_000, now_ms)

    await consumer._extend_held([message], 30_000)
    due = consumer._held.due(now_ms + 500, ahead_ms=1_000)
    assert due == ([message] if is_kept else [])

    await consumer._extend_held(due, 30_000)
    deadline_ms = consumer._held.settled("a")
    assert (deadline_ms is not None and deadline_ms >= now_ms + 30_000) == is_kept
