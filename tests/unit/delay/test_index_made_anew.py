"""A due index that is found to be damaged while it is used: it is made anew, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from typing import Any

from goqueue.broker.topics import NewTopic
from goqueue.config import Config, DelayConfig
from goqueue.delay.due import index_in_use, indexing
from goqueue.delay.due.index import DueIndex
from goqueue.delay.values import Held
from goqueue.errors import StorageError
from goqueue.metadata.events import Assignment, AssignmentsChanged
from goqueue.records import NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.sim_node import SimNode

# More than there are files, so that several have a file in common.
PARTITIONS = 24
DELAY_MS = 60_000


async def hold_in_all(services: Services) -> None:
    due_ms = services.clock.now_ms() + DELAY_MS
    for partition in range(PARTITIONS):
        await services.delay.hold("t", [Held(NewRecord(None, b"later"), due_ms, partition=partition)])
    await asyncio.sleep(5)


async def counts(services: Services) -> list[int]:
    places = {TopicPartition("t", partition): 0 for partition in range(PARTITIONS)}
    found = await services.reads.read(places, limit=1000, max_bytes=10**6)
    return [len(found[place].records) for place in places]


def spoil_once(monkeypatch: Any) -> None:
    """The next change that is taken in finds that the file is damaged."""
    apply = DueIndex.apply
    spoiled: list[DueIndex] = []

    def apply_or_not(self: DueIndex, changes: Any, known: Any) -> None:
        if not spoiled or self is spoiled[0]:
            spoiled[:] = [self]
            damage = sqlite3.DatabaseError("database disk image is malformed")
            damage.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise damage
        apply(self, changes, known)

    monkeypatch.setattr(DueIndex, "apply", apply_or_not)


def in_the_first_replay(monkeypatch: Any, do: Callable[[], None]) -> list[int]:
    """Call this once, in the middle of making an index anew."""
    replay, replays = index_in_use.replay, []

    def replay_and_more(*arguments: Any, **options: Any) -> int:
        replays.append(1)
        if len(replays) == 1:
            do()
        return replay(*arguments, **options)

    monkeypatch.setattr(index_in_use, "replay", replay_and_more)
    return replays


def largest_file(services: Services) -> indexing.Indexing:
    return max(services.delay._files, key=lambda one: len(one.stores))


def test_a_term_may_end_while_the_index_is_made_anew(monkeypatch: Any) -> None:
    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("t", PARTITIONS))
        await hold_in_all(services)
        file = largest_file(services)
        assert len(file.stores) >= 3
        first, *_, last = (store.partition for store in file.stores.values())

        def give_away() -> None:
            file.detach(next(store for store in file.stores.values() if store.partition == last))

        spoil_once(monkeypatch)
        replays = in_the_first_replay(monkeypatch, give_away)
        due_ms = services.clock.now_ms() + DELAY_MS
        await services.delay.hold("t", [Held(NewRecord(None, b"one more"), due_ms, partition=first)])
        await asyncio.sleep(10)
        assert replays
        assert services.delay.problem() is None
        # The partition that left comes back in another term.
        topic = services.topics.get("t")
        again = Assignment(1, 2, (1,), (1,))
        await services.defaults._metadata.commit([AssignmentsChanged("t", topic.topic_id, {last: again})])
        await asyncio.sleep(2 * DELAY_MS / 1000)
        assert await counts(services) == [2 if one == first else 1 for one in range(PARTITIONS)]

    assert SimNode(3, Config()).live(story)


def test_an_index_of_which_only_a_part_was_made_anew_is_not_used(monkeypatch: Any) -> None:
    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("t", PARTITIONS))
        await hold_in_all(services)
        first = next(iter(largest_file(services).stores.values())).partition

        def fail() -> None:
            raise StorageError("too many open files")

        spoil_once(monkeypatch)
        replays = in_the_first_replay(monkeypatch, fail)
        due_ms = services.clock.now_ms() + DELAY_MS
        await services.delay.hold("t", [Held(NewRecord(None, b"one more"), due_ms, partition=first)])
        await asyncio.sleep(10)
        assert services.delay.problem() is None
        # What is due soon is at hand already; the file is asked for the rest.
        listed = await services.delay.list("t", limit=1000)
        assert sorted(one.id.partition for one in listed) == sorted([*range(PARTITIONS), first])
        await asyncio.sleep(2 * DELAY_MS / 1000)
        assert len(replays) > 1
        assert await counts(services) == [2 if one == first else 1 for one in range(PARTITIONS)]

    assert SimNode(3, Config()).live(story)


def test_damage_that_only_a_question_finds_is_mended_by_it(monkeypatch: Any) -> None:
    """Nothing is held any more, so nothing else would meet the damage, and nothing of the file would ever come."""
    due, spoiled = DueIndex.due, list[DueIndex]()

    def due_or_not(self: DueIndex, *arguments: Any) -> Any:
        if not spoiled or self is spoiled[0]:
            spoiled[:] = [self]
            damage = sqlite3.DatabaseError("database disk image is malformed")
            damage.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise damage
        return due(self, *arguments)

    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("t", PARTITIONS))
        await hold_in_all(services)
        monkeypatch.setattr(DueIndex, "due", due_or_not)
        await asyncio.sleep(2 * DELAY_MS / 1000)
        assert spoiled
        assert await counts(services) == [1] * PARTITIONS

    assert SimNode(3, Config(delay=DelayConfig(near_ms=1_000))).live(story)
