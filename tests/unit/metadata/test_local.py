"""Metadata on the node's own disk: durable before it is believed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import TypeVar
from uuid import UUID

import pytest

from goqueue.errors import GoQueueError, ShuttingDown, StorageError, TopicExists
from goqueue.metadata.events import (
    Assignment,
    DeletionFinished,
    Delta,
    Event,
    ProducerIdsReserved,
    Topic,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
)
from goqueue.metadata.image import Image
from goqueue.metadata.local import LocalMetadata
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import Survival
from goqueue.testing.faults import Crash
from goqueue.testing.memory_files import MemoryFiles
from goqueue.testing.sim_loop import Stuck, run

T = TypeVar("T")
ONE = Assignment(leader=1, leader_epoch=0, replicas=(1,), isr=(1,))


async def at_once(work: Callable[[], T]) -> T:
    await asyncio.sleep(0)
    return work()


def open_metadata(files: MemoryFiles, seed: int = 1) -> LocalMetadata:
    return LocalMetadata.open(files, clock=ManualClock(), rng=Random(seed), offload=at_once)


def created(name: str, number: int) -> TopicCreated:
    return TopicCreated(Topic(name, UUID(int=number), 1), (ONE,))


def names(metadata: LocalMetadata) -> list[str]:
    return [topic.name for topic in metadata.image.topics()]


async def test_the_first_start_names_the_cluster_for_ever() -> None:
    files = MemoryFiles()
    first = open_metadata(files, seed=1)
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", first.cluster_id)
    after_power_cut = open_metadata(files.crash(Survival.NOTHING), seed=2)
    assert after_power_cut.cluster_id == first.cluster_id


async def test_a_commit_survives_a_power_cut() -> None:
    files = MemoryFiles()
    metadata = open_metadata(files)
    await metadata.commit([created("a", 1), created("b", 2)])
    await metadata.commit([TopicConfigChanged("a", UUID(int=1), {"retention.ms": "5"})])
    await metadata.commit([TopicDeleted("b", UUID(int=2)), ProducerIdsReserved(1000)])
    reopened = open_metadata(files.crash(Survival.NOTHING))
    assert names(reopened) == ["a"]
    topic = reopened.image.topic("a")
    assert topic is not None
    assert topic.config == {"retention.ms": "5"}
    assert reopened.image.deletions() == {UUID(int=2): "b"}
    assert reopened.image.next_producer_id == 1000


def epochs(metadata: LocalMetadata) -> list[int]:
    return [one.leader_epoch for topic in metadata.image.topics() for one in metadata.image.assignments(topic.topic_id)]


async def test_a_crash_raises_every_leader_epoch_and_a_clean_stop_does_not() -> None:
    files = MemoryFiles()
    first = open_metadata(files)
    await first.commit([created("a", 1), created("b", 2)])
    await first.close()

    second = open_metadata(files)
    assert epochs(second) == [0, 0]
    # Not closed: from here on it is a crash.
    files = files.crash(Survival.NOTHING)
    assert epochs(open_metadata(files)) == [1, 1]
    files = files.crash(Survival.NOTHING)
    third = open_metadata(files)
    assert epochs(third) == [2, 2]
    await third.close()
    assert epochs(open_metadata(files)) == [2, 2]


async def test_on_a_full_disk_a_crashed_node_starts_all_the_same() -> None:
    files = MemoryFiles()
    first = open_metadata(files)
    await first.commit([created("a", 1)])
    files = files.crash(Survival.NOTHING)
    files.faults.capacity_bytes = 0

    assert names(open_metadata(files)) == ["a"]


async def test_an_event_is_believed_only_once_it_is_durable() -> None:
    files = MemoryFiles()
    metadata = open_metadata(files)
    seen_at_sync: list[list[str]] = []
    files.faults.on_sync = lambda _: seen_at_sync.append(names(metadata))
    await metadata.commit([created("a", 1)])
    assert seen_at_sync[0] == []
    assert names(metadata) == ["a"]


async def test_listeners_hear_one_delta_per_commit_with_the_image_already_changed() -> None:
    metadata = open_metadata(MemoryFiles())
    heard: list[tuple[Delta, list[str]]] = []
    metadata.subscribe(lambda delta: heard.append((delta, names(metadata))))
    events = (created("a", 1), created("b", 2))
    revision = await metadata.commit(events)
    assert heard == [(Delta(revision, events), ["a", "b"])]


async def test_a_listener_that_fails_takes_nothing_with_it() -> None:
    metadata = open_metadata(MemoryFiles())
    heard: list[Delta] = []
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))

    def fail(delta: Delta) -> None:
        raise OSError(str(delta))

    metadata.subscribe(fail)
    metadata.subscribe(heard.append)
    await metadata.commit([created("a", 1)])
    await metadata.commit([created("b", 2)])
    assert names(metadata) == ["a", "b"]
    assert len(heard) == 2
    assert [type(error) for error in reported] == [OSError, OSError]


async def test_a_contradiction_is_refused_and_nothing_of_its_commit_is_written() -> None:
    files = MemoryFiles()
    metadata = open_metadata(files)
    await metadata.commit([created("a", 1)])
    with pytest.raises(TopicExists):
        await metadata.commit([created("b", 2), created("a", 3)])
    assert names(metadata) == ["a"]
    assert names(open_metadata(files.crash(Survival.EVERYTHING))) == ["a"]


async def test_two_at_once_for_one_name_are_told_apart_before_either_is_durable() -> None:
    metadata = open_metadata(MemoryFiles())
    outcomes = await asyncio.gather(
        metadata.commit([created("a", 1)]), metadata.commit([created("a", 2)]), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [int, TopicExists]


async def test_commits_that_arrive_together_share_a_sync() -> None:
    files = MemoryFiles()
    metadata = open_metadata(files)
    before = files.faults.counts["sync"]
    await asyncio.gather(*(metadata.commit([created(f"t{number}", number)]) for number in range(1, 101)))
    assert len(names(metadata)) == 100
    assert files.faults.counts["sync"] - before <= 3


async def test_a_caller_that_goes_away_does_not_undo_its_commit() -> None:
    files = MemoryFiles()
    metadata = open_metadata(files)
    task = asyncio.create_task(metadata.commit([created("a", 1)]))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await metadata.catch_up()
    assert names(metadata) == ["a"]
    assert names(open_metadata(files.crash(Survival.NOTHING))) == ["a"]


async def test_after_a_failed_sync_nothing_is_believed_any_more() -> None:
    files = MemoryFiles()
    metadata = open_metadata(files)
    await metadata.commit([created("a", 1)])
    files.faults.fail("sync", "metadata/*")
    with pytest.raises(StorageError):
        await metadata.commit([created("b", 2)])
    assert names(metadata) == ["a"]
    with pytest.raises(GoQueueError):
        await metadata.commit([created("c", 3)])
    assert names(metadata) == ["a"]


async def test_a_full_disk_refuses_a_commit_and_the_next_one_works() -> None:
    files = MemoryFiles()
    metadata = open_metadata(files)
    files.faults.fail("append", "metadata/*", code=28)
    with pytest.raises(StorageError):
        await metadata.commit([created("a", 1)])
    await metadata.commit([created("a", 2)])
    assert names(metadata) == ["a"]


async def test_closing_finishes_what_is_under_way_and_refuses_what_comes_after() -> None:
    files = MemoryFiles()
    metadata = open_metadata(files)
    under_way = asyncio.create_task(metadata.commit([created("a", 1)]))
    await asyncio.sleep(0)
    await metadata.close()
    await metadata.close()
    await under_way
    with pytest.raises(ShuttingDown):
        await metadata.commit([created("b", 2)])
    assert names(open_metadata(files)) == ["a"]


async def test_the_log_does_not_grow_for_ever() -> None:
    files = MemoryFiles()
    metadata = open_metadata(files)
    await metadata.commit([created("a", 1)])
    value = "x" * 20_000
    for number in range(1000):
        await metadata.commit([TopicConfigChanged("a", UUID(int=1), {"note": value + str(number)})])
    stored = sum(len(data) for path, data in files.tree().items() if path.startswith("metadata/"))
    assert stored < 5_000_000
    await metadata.close()
    topic = open_metadata(files).image.topic("a")
    assert topic is not None
    assert topic.config["note"] == value + "999"


CLOSED = -1
HISTORY: list[list[Event]] = [
    [created("a", 1)],
    [created("b", 2), ProducerIdsReserved(1000)],
    [TopicConfigChanged("a", UUID(int=1), {"retention.ms": "5"})],
    [TopicDeleted("a", UUID(int=1))],
    [DeletionFinished(UUID(int=1)), created("a", 3)],
]


def summary(image: Image) -> tuple[object, ...]:
    topics = [(topic.name, topic.topic_id, dict(topic.config)) for topic in image.topics()]
    return topics, image.deletions(), image.next_producer_id


def test_a_crash_at_any_step_leaves_a_prefix_with_every_commit_that_was_answered() -> None:
    possible = [summary(Image())]
    image = Image()
    for revision, events in enumerate(HISTORY, 1):
        for event in events:
            image.apply(event, revision)
        possible.append(summary(image))
    crashes = 0
    for step in range(1, 1000):
        files = MemoryFiles(seed=step)
        files.faults.crash_at_step = step
        answered: list[int] = []
        # Without power nothing goes on: whoever still waits is stuck, and that is no failure here.
        with suppress(Crash, Stuck, asyncio.CancelledError):
            run(live(files, answered))
        if CLOSED in answered:
            break
        crashes += 1
        survivor = open_metadata(files.crash(Survival.SOME))
        assert summary(survivor.image) in possible[len(answered) : len(answered) + 2], f"step {step}: {answered}"
        # Revisions never go back, or a guard of before could hold again.
        assert survivor.image.revision >= max(answered, default=0)
    assert crashes > 15


async def live(files: MemoryFiles, answered: list[int]) -> None:
    metadata = open_metadata(files)
    for events in HISTORY:
        revision = await metadata.commit(events)
        answered.append(revision)
    await metadata.close()
    answered.append(CLOSED)


async def test_a_check_that_refuses_what_is_stored_leaves_everything_as_it_was() -> None:
    files = MemoryFiles()
    metadata = open_metadata(files)
    await metadata.commit([created("orders", 1)])
    crashed = files.crash(Survival.NOTHING)
    before = crashed.read("metadata/00000000000000000000.log")

    def refuse(image: Image) -> None:
        assert image.leaders() == {1}
        raise StorageError("not ours")

    with pytest.raises(StorageError, match="not ours"):
        LocalMetadata.open(crashed, clock=ManualClock(), rng=Random(1), offload=at_once, check=refuse)
    assert crashed.read("metadata/00000000000000000000.log") == before
    # The crash is still known: the next start that is let in raises the epochs.
    assert epochs(open_metadata(crashed)) == [1]


async def test_leadership_is_taken_over_for_good_and_in_a_new_epoch() -> None:
    files = MemoryFiles()
    metadata = open_metadata(files)
    await metadata.commit([created("orders", 1), created("invoices", 2)])
    assert metadata.take_leadership(2) == ["invoices", "orders"]
    assert metadata.take_leadership(2) == []
    await metadata.close()
    again = open_metadata(files)
    assert again.image.leaders() == {2}
    found = [again.image.assignments(one.topic_id) for one in again.image.topics()]
    assert [[(one.leader, one.leader_epoch, one.replicas, one.isr) for one in each] for each in found] == [
        [(2, 1, (2,), (2,))]
    ] * 2
