"""Changes of the in-sync replicas: nothing happens between the look at a follower and the proposal that rests on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from tests.unit.cluster.test_replicated_writer import PLACE, Led

from goqueue.cluster.isr import IsrChanges
from goqueue.cluster.replication.terms import LedPartition, Terms
from goqueue.metadata.events import Assignment, AssignmentsChanged
from goqueue.metadata.keys import session_key
from goqueue.metadata.store import Guard, MetadataStore, SessionGuard
from goqueue.records import LogKind, TopicPartition
from goqueue.testing.clock import ManualClock

TOPIC_ID = UUID(int=1)


class Store:
    """The metadata of one partition; a commit is kept until the test looks at it."""

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self.commits: list[tuple[Assignment, int]] = []
        # Of the last commit.
        self.guards: list[object] = []
        self.image = SimpleNamespace(
            assignments=lambda _topic_id: (self.assignment,),
            nodes=dict,
            sessions={1: 1, 2: 2, 3: 3},
            topic_by_id=lambda _topic_id: None,
            revision_of=lambda _key: 0,
        )

    async def commit(self, events: Sequence[AssignmentsChanged], guards: Sequence[object]) -> int:
        partition = next(guard.revision for guard in guards if isinstance(guard, Guard))
        self.commits.append((events[0].assignments[0], partition))
        self.guards = list(guards)
        await asyncio.Event().wait()
        return 0


class OneTerm:
    """The terms of a node that leads one partition."""

    on_progress: Callable[..., None] | None = None
    on_reset: Callable[..., None] | None = None

    def __init__(self, led: LedPartition) -> None:
        self.led = led
        self.active = {PLACE: led}
        self.unopened: dict[TopicPartition, str] = {}

    def all(self) -> Iterator[LedPartition]:
        return iter([self.led])

    def show_in_sync(self, led: LedPartition) -> None:
        pass

    def remind(self, led: LedPartition, follower: int) -> None:
        pass


class Story:
    """Node 1 leads, node 2 is in sync with it, node 3 catches up."""

    def __init__(self, isr: tuple[int, ...] = (1, 2)) -> None:
        self.one = Led(isr=isr)
        self.led = LedPartition(self.one.term)
        self.led.writers[LogKind.DATA] = self.one.writer
        self.store = Store(Assignment(1, 4, (1, 2, 3), isr, partition_epoch=1))
        self.isr = IsrChanges(
            node_id=1,
            terms=cast("Terms", OneTerm(self.led)),
            metadata=cast("MetadataStore", self.store),
            clock=ManualClock(),
            broker_epoch=lambda: 1,
            lag_ms_max=10_000,
        )

    def take(self, isr: tuple[int, ...], partition_epoch: int, **changes: Any) -> None:
        """The metadata shows another assignment of the same term."""
        self.store.assignment = Assignment(1, 4, (1, 2, 3), isr, partition_epoch=partition_epoch, **changes)
        self.one.term.take_isr(isr, partition_epoch)


async def test_what_is_acknowledged_after_a_follower_was_found_fit_is_waited_for_by_it_as_well() -> None:
    story = Story()
    one = story.one
    one.report(2, 0, 0)
    one.report(3, 0, 0)
    written = one.write()
    await one.disk.sync()
    story.isr.grow(story.led, 3)
    # In the same turn of the loop node 2 says that it has the record. Node 3 does not have it.
    one.report(2, 1, 1)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    (proposed, _), *_ = story.store.commits
    assert proposed.isr == (1, 2, 3)
    assert not written.done(), "node 3 may be elected from now on, and lacks what was acknowledged"
    assert one.log.high_watermark == 0
    await story.isr.close()


async def test_a_hand_over_that_was_decided_on_an_older_assignment_is_not_written_over_a_newer_one() -> None:
    story = Story(isr=(1, 2, 3))
    story.led.sick = "the disk is full"
    story.isr.start()
    story.isr._tick()
    # In the same turn of the loop the metadata shows that node 2 is not in sync any more.
    story.take((1, 3), 2)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    for handed, partition_epoch in story.store.commits:
        assert partition_epoch == 1, f"{handed} would overwrite what it does not know"
    await story.isr.close()


async def test_a_partition_is_not_handed_over_to_a_node_that_starts_again_meanwhile_perhaps_with_an_empty_disk() -> (
    None
):
    story = Story(isr=(1, 2, 3))
    story.led.sick = "the disk is full"
    story.isr._tick()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    (handed, _), *_ = story.store.commits
    assert handed.leader == 2
    assert SessionGuard(session_key(2), 2) in story.store.guards
    await story.isr.close()


async def test_a_follower_is_not_behind_since_it_last_spoke_when_something_is_written_after_a_quiet_hour() -> None:
    """Node 3 is down, so that the partition is looked at all the time; node 2 has everything, and nothing to say."""
    story, clock = Story(), ManualClock()
    story.isr._clock = clock
    story.one.report(2, 0, 0)
    for _ in range(3600):
        clock.advance(seconds=1)
        story.isr._look_at(story.led, clock.monotonic_ms())
    written = story.one.write()
    clock.advance(ms=3)
    story.isr._look_at(story.led, clock.monotonic_ms())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not story.store.commits, "node 2 has had three milliseconds to copy it"
    written.cancel()
    clock.advance(seconds=11)
    story.isr._look_at(story.led, clock.monotonic_ms())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [changed.isr for changed, _ in story.store.commits] == [(1,)]
    await story.isr.close()


async def test_a_change_that_fails_as_nobody_foresaw_may_have_been_made_and_is_repeated(monkeypatch: Any) -> None:
    """Another was proposed in its place, and what only the first had let in did not count any more."""
    monkeypatch.setattr("goqueue.cluster.isr._AGAIN_S_FIRST", 0)
    story = Story()
    commit, failed = story.store.commit, list[object]()

    async def failing(events: Sequence[AssignmentsChanged], guards: Sequence[object]) -> int:
        if not failed:
            failed.append(events)
            raise ValueError("nobody foresaw this")
        return await commit(events, guards)

    monkeypatch.setattr(story.store, "commit", failing)
    story.one.report(2, 0, 0)
    story.one.report(3, 0, 0)
    story.isr.grow(story.led, 3)
    for _ in range(5):
        await asyncio.sleep(0)
    assert failed
    assert [changed.isr for changed, _ in story.store.commits] == [(1, 2, 3)]
    assert story.led in story.isr.under_way
    await story.isr.close()
