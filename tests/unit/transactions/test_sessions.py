"""Sessions: whoever falls silent is told of once, whoever is heard in time is not."""

from __future__ import annotations

import asyncio

from goqueue.testing.clock import ManualClock
from goqueue.transactions.commands import Producer
from goqueue.transactions.sessions import ProducerSessions

ONE, TWO = Producer(1, 0), Producer(2, 0)


async def test_only_the_silent_are_ended_and_only_once() -> None:
    clock = ManualClock()
    # The alarm looks at the clock again after milliseconds of real time.
    silent: asyncio.Queue[tuple[str, Producer]] = asyncio.Queue()

    async def on_silence(name: str, producer: Producer) -> None:
        await silent.put((name, producer))

    sessions = ProducerSessions(clock, 30, on_silence)
    sessions.heard("one", ONE)
    sessions.heard("two", TWO)
    clock.advance(ms=20)
    sessions.heard("one", ONE)
    clock.advance(ms=10)
    assert await asyncio.wait_for(silent.get(), 5) == ("two", TWO)
    clock.advance(ms=30)
    assert await asyncio.wait_for(silent.get(), 5) == ("one", ONE)
    assert silent.empty()
    assert len(sessions) == 0
    await sessions.close()
