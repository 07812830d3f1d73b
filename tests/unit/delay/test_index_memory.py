"""What waits for the due index is small and bounded, however large the messages are and however slow the disk is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from goqueue.broker.topics import NewTopic
from goqueue.config import Config
from goqueue.delay.due import indexing
from goqueue.delay.due.index import DueIndex
from goqueue.delay.due.indexing import Indexing
from goqueue.delay.holding.records import Change, Slot
from goqueue.delay.values import Held
from goqueue.records import NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.sim_node import SimNode

BODY = b"x" * 100_000


def test_messages_that_wait_for_the_index_are_in_the_log_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    taken_in: list[Change] = []
    apply = DueIndex.apply

    def noted(self: DueIndex, changes: Sequence[tuple[int, Change]], known: Any) -> None:
        taken_in.extend(change for _, change in changes)
        apply(self, changes, known)

    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("orders", partitions=1))
        monkeypatch.setattr(DueIndex, "apply", noted)
        due_ms = services.clock.now_ms() + 5_000
        await services.delay.hold("orders", [Held(NewRecord(b"key", BODY, (("h", b"1"),)), due_ms)])
        await asyncio.sleep(10)
        slots = [one.value for one in taken_in if isinstance(one.value, Slot)]
        assert slots
        assert all((one.key, one.value, one.headers) == (None, None, ()) for one in slots)
        read = await services.reads.read({TopicPartition("orders", 0): 0}, limit=10, max_bytes=2**20)
        ((record,),) = [one.records for one in read.values()]
        assert (record.key, record.value, record.headers) == (b"key", BODY, (("h", b"1"),))

    assert SimNode(7, Config()).live(story)


def test_whoever_holds_messages_waits_while_the_index_lies_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "_UNINDEXED_MAX", 20)
    take_in = Indexing._take_in
    behind: list[int] = []

    async def slow(self: Indexing, changes: Any) -> Any:
        behind.append(len(changes))
        await asyncio.sleep(1)
        return await take_in(self, changes)

    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("orders", partitions=1))
        monkeypatch.setattr(Indexing, "_take_in", slow)
        due_ms = services.clock.now_ms() + 3_600_000
        for _ in range(30):
            await services.delay.hold("orders", [Held(NewRecord(None, b"later"), due_ms) for _ in range(10)])
        await asyncio.sleep(5)
        # What one call brings more than the bound is let in.
        assert 10 < max(behind) <= 40
        assert sum(behind) == 300

    assert SimNode(7, Config()).live(story)
