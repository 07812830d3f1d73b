"""The copy of the registry: pages, logs that were cut back, questions that cross, and old age."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from tests.unit.schemas.driver import Driver

from goqueue.errors import CoordinatorUnavailable, StorageError, UnknownPeerCall
from goqueue.schemas.following.changes import Changes, Position
from goqueue.schemas.following.mirror import RegistryMirror
from goqueue.testing.clock import ManualClock

TOPIC, OTHER = b"t" * 16, b"o" * 16


class Log:
    """What a coordinator answers: its records, so many to a page."""

    def __init__(self, driver: Driver, page: int = 2) -> None:
        self.driver, self.page = driver, page
        self.topic_id = TOPIC
        self.asked: list[Position | None] = []
        self.hold = asyncio.Event()
        self.hold.set()
        self.error: Exception | None = None

    async def __call__(self, position: Position | None, _wait_ms: int) -> Changes:
        self.asked.append(position)
        await self.hold.wait()
        if self.error is not None:
            raise self.error
        records = self.driver.records
        is_part = position is not None and position.topic_id == self.topic_id and position.offset <= len(records)
        start = position.offset if is_part and position is not None else 0
        some = records[start : start + self.page]
        return Changes(not is_part, some, Position(self.topic_id, 0, start + len(some)), len(records))


def mirror_of(log: Log, clock: ManualClock, exists: Callable[[], bool] = lambda: True) -> RegistryMirror:
    async def nothing() -> None: ...

    return RegistryMirror(log, exists, lambda: False, nothing, clock, age_ms_max=30_000, on_switched=lambda: None)


def story(work: Callable[[Log, RegistryMirror, ManualClock], object]) -> None:
    async def run() -> None:
        clock = ManualClock()
        clock.advance(ms=100_000)
        log = Log(Driver())
        await work(log, mirror_of(log, clock), clock)  # type: ignore[misc]

    asyncio.run(run())


def test_tables_are_shown_when_every_page_is_there() -> None:
    async def work(log: Log, mirror: RegistryMirror, _clock: ManualClock) -> None:
        for number in range(4):
            log.driver.register("s", f"text {number}")
        assert mirror.state is None
        assert not await mirror._advance(0)
        assert mirror.state is None, "half of the registry is not the registry"
        await mirror.catch_up()
        assert mirror.state is not None
        assert mirror.state.records() == log.driver.state.records()
        log.driver.register("s", "one more")
        await mirror.catch_up()
        assert mirror.state.version("s", "latest").version == 5

    story(work)


def test_a_registry_that_was_cut_back_or_made_again_is_read_anew() -> None:
    async def work(log: Log, mirror: RegistryMirror, _clock: ManualClock) -> None:
        log.driver.register("gone", "a")
        log.driver.register("gone", "b")
        await mirror.catch_up()
        log.driver, log.topic_id = Driver(), OTHER
        log.driver.register("new", "c")
        await mirror.catch_up()
        assert mirror.state is not None
        assert list(mirror.state.subjects) == ["new"]

    story(work)


def test_those_who_come_while_a_question_is_under_way_share_the_next_one() -> None:
    async def work(log: Log, mirror: RegistryMirror, _clock: ManualClock) -> None:
        log.driver.register("s", "a")
        await mirror.catch_up()
        before = len(log.asked)
        log.hold.clear()
        waiting = [asyncio.ensure_future(mirror.catch_up()) for _ in range(20)]
        await asyncio.sleep(0)
        log.hold.set()
        await asyncio.gather(*waiting)
        assert len(log.asked) - before == 2, "one for the first, one for all that came behind it"

    story(work)


def test_a_copy_without_an_answer_grows_too_old_and_is_known_all_the_same() -> None:
    async def work(log: Log, mirror: RegistryMirror, clock: ManualClock) -> None:
        log.driver.register("s", "a")
        await mirror.catch_up()
        log.error = StorageError("broken")
        clock.advance(ms=30_000)
        assert mirror.state is not None
        clock.advance(ms=1)
        assert mirror.state is None
        assert mirror.known is not None
        with pytest.raises(CoordinatorUnavailable):
            await mirror.catch_up()
        log.error = None
        await mirror.catch_up()
        assert mirror.state is mirror.known

    story(work)


def test_a_copy_that_was_behind_for_an_hour_begins_anew() -> None:
    async def work(log: Log, mirror: RegistryMirror, clock: ManualClock) -> None:
        log.driver.register("s", "a")
        await mirror.catch_up()
        clock.advance(ms=3_600_001)
        await mirror.catch_up()
        assert log.asked.count(None) == 2, "deletions that it missed may be gone from the log"

    story(work)


def test_changes_that_cannot_be_read_are_not_half_taken_in() -> None:
    async def work(log: Log, mirror: RegistryMirror, _clock: ManualClock) -> None:
        log.driver.register("s", "a")
        await mirror.catch_up()
        good = list(log.driver.records)
        log.driver.records.append((b"\xff", b"what is this"))
        with pytest.raises(CoordinatorUnavailable):
            await mirror.catch_up()
        log.driver.records = good
        await mirror.catch_up()
        assert mirror.state is not None
        assert mirror.state.records() == log.driver.state.records()

    story(work)


def test_a_coordinator_that_knows_no_copies_is_told_from_one_that_does_not_answer() -> None:
    async def work(log: Log, mirror: RegistryMirror, _clock: ManualClock) -> None:
        log.driver.register("s", "a")
        log.error = StorageError("broken")
        with pytest.raises(CoordinatorUnavailable):
            await mirror.catch_up()
        assert not mirror.is_unknown
        log.error = UnknownPeerCall("schemas.changes")
        with pytest.raises(CoordinatorUnavailable):
            await mirror.catch_up()
        assert mirror.is_unknown
        log.error = None
        await mirror.catch_up()
        assert not mirror.is_unknown

    story(work)
