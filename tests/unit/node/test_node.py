"""Start and stop: in order, once, and undone when one part fails."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from goqueue.errors import ShuttingDown, StorageError
from goqueue.node.node import Node, Running

RUNNING = object()


def node_of(events: list[str], *, fails_at: str | None = None, stop_gate: asyncio.Event | None = None) -> Node:
    async def wire(stack: AsyncExitStack) -> Running:
        for part in ("lock", "log", "server"):
            if part == fails_at:
                raise StorageError(f"{part} failed")
            events.append(f"open {part}")

            async def close(part: str = part) -> None:
                if stop_gate is not None:
                    await stop_gate.wait()
                events.append(f"close {part}")

            stack.push_async_callback(close)
        return RUNNING  # type: ignore[return-value]

    return Node(wire)


async def test_what_was_opened_first_is_closed_last() -> None:
    events: list[str] = []
    node = node_of(events)
    assert await node.start() is RUNNING
    assert node.running is RUNNING
    await node.stop()
    assert events == ["open lock", "open log", "open server", "close server", "close log", "close lock"]


async def test_a_part_that_fails_closes_what_was_opened_before() -> None:
    events: list[str] = []
    node = node_of(events, fails_at="server")
    with pytest.raises(StorageError, match="server failed"):
        await node.start()
    assert events == ["open lock", "open log", "close log", "close lock"]
    await node.stop()
    assert len(events) == 4


async def test_starting_twice_starts_once_and_stopping_twice_stops_once() -> None:
    events: list[str] = []
    node = node_of(events)
    await asyncio.gather(node.start(), node.start())
    await node.stop()
    await node.stop()
    assert len(events) == 6


async def test_a_second_stop_waits_for_the_first() -> None:
    events: list[str] = []
    gate = asyncio.Event()
    node = node_of(events, stop_gate=gate)
    await node.start()
    stops = [asyncio.ensure_future(node.stop()) for _ in range(3)]
    await asyncio.sleep(0)
    assert not any(stop.done() for stop in stops)
    gate.set()
    await asyncio.gather(*stops)
    assert events[3:] == ["close server", "close log", "close lock"]


async def test_a_stopped_node_is_not_started_again() -> None:
    node = node_of([])
    await node.stop()
    with pytest.raises(ShuttingDown):
        await node.start()
    with pytest.raises(ShuttingDown):
        _ = node.running
