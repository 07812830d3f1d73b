"""What nobody foresaw goes wrong once, in one of the loops by which messages become due: they come nevertheless."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.delay.test_unreadable_slots import PARTITIONS, everything, values

from goqueue.broker.topics import NewTopic
from goqueue.config import Config
from goqueue.delay.due.indexing import Indexing
from goqueue.delay.due.near import Near
from goqueue.delay.firing import driver
from goqueue.delay.values import Held, SlotId
from goqueue.records import NewRecord
from goqueue.servers.services import Services
from goqueue.testing.sim_node import SimNode

# Behind what is in memory.
FAR_MS = 20 * 60_000


def fails_once(work: Callable[..., Any]) -> Callable[..., Any]:
    failed: list[object] = []

    def failing(*args: Any, **kwargs: Any) -> Any:
        if not failed:
            failed.append(args)
            raise ValueError("nobody foresaw this")
        return work(*args, **kwargs)

    return failing


async def hold(services: Services, what: bytes, delay_ms: int) -> None:
    """One message in each partition; none is taken while the index fails."""
    due_ms = services.clock.now_ms() + delay_ms
    for partition in range(PARTITIONS):
        message = Held(NewRecord(None, b"%d %b" % (partition, what)), due_ms, partition)
        for _ in range(100):
            (outcome,) = await services.delay.hold("t", [message])
            if isinstance(outcome, SlotId):
                break
            await asyncio.sleep(0.1)


@pytest.mark.parametrize(
    ("where", "name"),
    [(driver, "check_takes"), (Near, "collect"), (Near, "take_in"), (Indexing, "_take_in")],
)
def test_delayed_messages_come_all_the_same(where: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop ended, and said that it would try again: nothing was delivered until the node was started again."""
    node = SimNode(2, Config())

    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("t", PARTITIONS))
        monkeypatch.setattr(where, name, fails_once(getattr(where, name)))
        await hold(services, b"first", 5_000)
        await hold(services, b"later", FAR_MS)
        await asyncio.sleep(FAR_MS / 1000 + 10)
        assert await values(services) == everything(b"first", b"later")
        assert services.delay.stats().pending == {"t": 0}

    assert node.live(story)
