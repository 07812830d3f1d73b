"""Delayed messages on a whole node in simulated time: held, fired, changed, kept over restarts."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from goqueue.broker.topics import NewTopic
from goqueue.config import BrokerConfig, Config, DelayConfig, ListenersConfig
from goqueue.delay.holding.records import SlotState
from goqueue.delay.holding.store import read_some
from goqueue.delay.recurring.schedules import NewSchedule
from goqueue.delay.values import Held, SlotId
from goqueue.errors import (
    DelayedMessageFiring,
    DelayedMessageNotFound,
    MessageTooLarge,
    PartitionNotFound,
    ScheduleNotFound,
    TopicNotFound,
)
from goqueue.node.assemble import assemble
from goqueue.records import NewRecord, Record, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.sim_node import SimNode

HOUR_MS = 3_600_000
YEAR_MS = 365 * 24 * HOUR_MS

Story = Callable[[Services], Awaitable[None]]


def node(**delay: int) -> SimNode:
    return SimNode(7, Config(delay=DelayConfig(**delay)))


def live(sim: SimNode, story: Story, **how: object) -> None:
    assert sim.live(story, **how)  # type: ignore[arg-type]


async def make_topic(services: Services, name: str = "orders", **config: str) -> None:
    if services.topics.find(name) is None:
        await services.topics.create(NewTopic(name, partitions=2, config=config))


async def hold(services: Services, *values: str, delay_ms: int, topic: str = "orders", **more: object) -> list[SlotId]:
    due_ms = services.clock.now_ms() + delay_ms
    held = [Held(NewRecord(value.encode(), value.encode()), due_ms, **more) for value in values]  # type: ignore[arg-type]
    outcomes = await services.delay.hold(topic, held)
    assert all(isinstance(one, SlotId) for one in outcomes)
    return outcomes  # type: ignore[return-value]


async def delivered(services: Services, topic: str = "orders") -> list[Record]:
    places = {TopicPartition(topic, partition): 0 for partition in range(2)}
    found = await services.reads.read(places, limit=100_000, max_bytes=10**8)
    return [record for one in found.values() for record in one.records]


async def values(services: Services, topic: str = "orders") -> list[str]:
    return sorted(record.value.decode() for record in await delivered(services, topic) if record.value is not None)


def test_a_message_enters_its_topic_when_it_is_due_and_not_before():
    async def story(services: Services) -> None:
        await make_topic(services)
        due_ms = services.clock.now_ms() + 30_000
        await hold(services, "later", delay_ms=30_000)
        await asyncio.sleep(29.9)
        assert await values(services) == []
        await asyncio.sleep(0.2)
        [record] = await delivered(services)
        assert record.value == b"later"
        assert due_ms <= record.timestamp_ms <= due_ms + 20
        assert services.delay.stats().pending["orders"] == 0
        assert services.delay.stats().delivered == {"orders": 1}

    live(node(), story)


def test_a_cancelled_message_never_comes():
    async def story(services: Services) -> None:
        await make_topic(services)
        [keep, drop] = await hold(services, "keep", "drop", delay_ms=5_000)
        await services.delay.cancel("orders", drop)
        with pytest.raises(DelayedMessageNotFound):
            await services.delay.cancel("orders", drop)
        await asyncio.sleep(10)
        assert await values(services) == ["keep"]
        with pytest.raises(DelayedMessageNotFound):
            await services.delay.get("orders", keep)

    live(node(), story)


def test_cancelling_within_the_window_before_it_is_due_comes_too_late():
    async def story(services: Services) -> None:
        await make_topic(services)
        [slot] = await hold(services, "now", delay_ms=5_000)
        due_ms = (await services.delay.get("orders", slot)).delayed.due_ms
        await asyncio.sleep((due_ms - services.clock.now_ms() - 25) / 1000)
        with pytest.raises(DelayedMessageFiring):
            await services.delay.cancel("orders", slot)
        with pytest.raises(DelayedMessageFiring):
            await services.delay.reschedule("orders", slot, services.clock.now_ms() + HOUR_MS)
        assert await values(services) == []
        await asyncio.sleep(1)
        assert await values(services) == ["now"]

    live(node(), story)


def test_a_message_can_be_put_off_brought_forward_and_keeps_its_slot():
    async def story(services: Services) -> None:
        await make_topic(services)
        first, second = await hold(services, "first", "second", delay_ms=HOUR_MS)
        due_ms = services.clock.now_ms() + 2 * HOUR_MS
        await services.delay.reschedule("orders", first, due_ms)
        shown = await services.delay.get("orders", first)
        assert (shown.delayed.id, shown.delayed.due_ms, shown.slot.value) == (first, due_ms, b"first")
        await services.delay.deliver_now("orders", second)
        await asyncio.sleep(0.5)
        assert await values(services) == ["second"]
        await asyncio.sleep(3700)
        assert await values(services) == ["second"]
        await services.delay.reschedule("orders", first, services.clock.now_ms() + 50)
        await asyncio.sleep(0.5)
        assert await values(services) == ["first", "second"]

    live(node(), story)


def test_the_list_is_by_time_with_limit_skip_and_due_before():
    async def story(services: Services) -> None:
        await make_topic(services)
        now_ms = services.clock.now_ms()
        for delay_ms in (3 * HOUR_MS, HOUR_MS, YEAR_MS, 2 * HOUR_MS):
            await services.delay.hold("orders", [Held(NewRecord(None, b"x"), now_ms + delay_ms)])
        listed = await services.delay.list("orders", limit=10)
        assert [one.due_ms - now_ms for one in listed] == [HOUR_MS, 2 * HOUR_MS, 3 * HOUR_MS, YEAR_MS]
        assert {one.state for one in listed} == {SlotState.PENDING}
        assert (await services.delay.list("orders", limit=2, skip=1))[0].due_ms == now_ms + 2 * HOUR_MS
        soon = await services.delay.list("orders", limit=10, due_before_ms=now_ms + 2 * HOUR_MS)
        assert [one.due_ms - now_ms for one in soon] == [HOUR_MS]

    live(node(), story)


@pytest.mark.parametrize("is_killed", [False, True])
def test_what_waits_survives_a_restart_and_fires_then(is_killed: bool):
    sim = node()

    async def first(services: Services) -> None:
        await make_topic(services)
        await hold(services, "soon", delay_ms=5_000)
        await hold(services, "late", delay_ms=YEAR_MS)
        [dropped] = await hold(services, "dropped", delay_ms=5_000)
        await services.delay.cancel("orders", dropped)

    async def second(services: Services) -> None:
        await asyncio.sleep(1)
        assert await values(services) == ["soon"]
        assert services.delay.stats().pending["orders"] == 1

    async def third(services: Services) -> None:
        await asyncio.sleep(1)
        assert await values(services) == ["late", "soon"]

    live(sim, first, is_killed=is_killed)
    sim.clock.advance(seconds=60)
    live(sim, second, is_killed=is_killed)
    # The wall clock alone: no monotonic clock has to run for a year.
    sim.clock.jump(ms=YEAR_MS)
    live(sim, third)


def test_more_than_fits_into_memory_fires_in_order_and_completely():
    async def story(services: Services) -> None:
        await make_topic(services)
        for number in range(30):
            await hold(services, *(f"{number}-{one}" for one in range(200)), delay_ms=1_000 + 200 * (29 - number))
        assert sum(one.active for one in services.delay.stats().wheels) <= 2_000
        await asyncio.sleep(60)
        assert len(await values(services)) == 6_000
        assert services.delay.stats().pending["orders"] == 0

    live(node(near_max=1000), story)


def test_large_messages_that_are_due_together_are_read_a_few_at_a_time_and_come_in_order(monkeypatch: Any):
    async def story(services: Services) -> None:
        await make_topic(services)
        due_ms = services.clock.now_ms() + 1_000
        large = [Held(NewRecord(b"k", b"%03d" % number + bytes(900_000)), due_ms + number) for number in range(30)]
        for one in large:
            await services.delay.hold("orders", [one])
        most = 0

        async def watched(rows: Any, offload: Any) -> Any:
            nonlocal most
            count, found = await read_some(rows, offload)
            most = max(most, sum(map(len, found.values())))
            return count, found

        monkeypatch.setattr("goqueue.delay.firing.driver.read_some", watched)
        # A busy node: all of them are due before it looks.
        services.clock.jump(ms=5_000)  # type: ignore[attr-defined]
        services.delay.wake()
        await asyncio.sleep(10)
        found = [record.value[:3] for record in await delivered(services) if record.value is not None]
        assert found == [b"%03d" % number for number in range(30)]
        assert 1 <= most <= 18

    live(node(), story)


@pytest.mark.parametrize("harm", ["noise", "another version", "a torn page", "no database of ours"])
async def test_an_index_that_is_damaged_or_foreign_is_built_anew_and_that_is_logged(
    harm: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    config = Config(
        broker=BrokerConfig(data_dir=str(tmp_path)),
        listeners=ListenersConfig(kafka="127.0.0.1:0", http="127.0.0.1:0"),
        delay=DelayConfig(),
    )
    first = assemble(config)
    services = (await first.start()).services
    await make_topic(services)
    slots = await hold(services, *(f"{number:04}" for number in range(1_000)), delay_ms=HOUR_MS)
    await services.delay.cancel("orders", slots[0])
    await first.stop()
    index = next(one for one in (tmp_path / "delay").glob("*.index") if has_slots(one))
    spoil(index, harm)
    second = assemble(config)
    services = (await second.start()).services

    listed = await services.delay.list("orders", limit=2_000)

    assert sorted(one.id for one in listed) == sorted(slots[1:])
    assert services.delay.stats().pending["orders"] == 999
    assert "is built anew" in caplog.text
    await second.stop()


def has_slots(index: Path) -> bool:
    with closing(sqlite3.connect(index)) as connection:
        return bool(connection.execute("SELECT count(*) FROM slots").fetchone()[0])


def spoil(index: Path, harm: str) -> None:
    if harm == "noise":
        index.write_bytes(b"noise" * 1_000)
    elif harm == "a torn page":
        page = bytes(4096)
        whole = index.read_bytes()
        # The first page with the tables' names stays: it opens, and then it cannot be read.
        index.write_bytes(whole[:4096] + page * (len(whole) // 4096 - 1))
    else:
        with closing(sqlite3.connect(index)) as connection, connection:
            if harm == "another version":
                connection.execute("UPDATE stamp SET version = 1")
            else:
                connection.executescript("DROP TABLE stamp; CREATE TABLE cookies (name TEXT)")


def test_what_is_held_for_a_topic_goes_with_it_and_a_new_topic_of_its_name_begins_empty():
    async def story(services: Services) -> None:
        await make_topic(services)
        [slot] = await hold(services, "orphan", delay_ms=5_000)
        await services.topics.delete("orders")
        with pytest.raises(TopicNotFound):
            await services.delay.list("orders", limit=10)
        await make_topic(services)
        [new] = await hold(services, "new", delay_ms=5_000)
        await asyncio.sleep(10)
        assert await values(services) == ["new"]
        with pytest.raises(DelayedMessageNotFound):
            await services.delay.cancel("orders", slot)
        assert new.partition in range(2)
        assert services.delay.stats().pending == {"orders": 0}

    live(node(), story)


def test_a_topic_that_begins_to_refuse_messages_parks_them_and_the_rest_still_comes():
    async def story(services: Services) -> None:
        await make_topic(services)
        await services.delay.hold(
            "orders",
            [Held(NewRecord(None, b"no key"), services.clock.now_ms() + 5_000, partition=1)],
        )
        await hold(services, "with key", delay_ms=5_000, partition=1)
        await services.topics.alter_config("orders", {"cleanup.policy": "compact"})
        await asyncio.sleep(6)
        assert await values(services) == ["with key"]
        assert services.delay.stats().expired["orders"] == 1
        await hold(services, "next", delay_ms=100, partition=1)
        await asyncio.sleep(3)
        assert await values(services) == ["next", "with key"]

    live(node(), story)


def test_what_the_topic_would_refuse_is_refused_at_once():
    async def story(services: Services) -> None:
        await make_topic(services, **{"max.message.bytes": "1000"})
        due_ms = services.clock.now_ms() + 1000
        large, far, fine = await services.delay.hold(
            "orders",
            [
                Held(NewRecord(None, bytes(1000)), due_ms),
                Held(NewRecord(None, b"x"), due_ms, partition=9),
                Held(NewRecord(None, b"x"), due_ms, partition=1),
            ],
        )
        assert isinstance(large, MessageTooLarge)
        assert isinstance(far, PartitionNotFound)
        assert isinstance(fine, SlotId)

    live(node(), story)


BEAT = NewSchedule("beat", "* * * * * *", "UTC", "orders", NewRecord(None, b"x"))


@pytest.mark.parametrize("seed", range(10))
def test_a_new_recurring_message_is_answered_with_its_first_run_even_if_that_is_fired_meanwhile(seed: int):
    async def story(services: Services) -> None:
        await make_topic(services)
        await services.delay.stores.get(TopicPartition("orders", 0))
        now_ms = services.clock.now_ms()
        first_ms = (now_ms // 1000 + 2) * 1000
        # Within the time in which a message is made ready.
        await asyncio.sleep((first_ms - now_ms - 20) / 1000)
        created = await services.schedules.create(BEAT)
        assert list(created.next_runs_ms[:2]) == [first_ms, first_ms + 1000]
        assert created.schedule.runs == 0

    live(SimNode(seed), story)


@pytest.mark.parametrize("seed", range(5))
def test_a_recurring_message_that_is_deleted_before_it_is_durable_was_created_all_the_same(seed: int):
    async def delete(services: Services) -> None:
        while True:
            try:
                await services.schedules.delete("beat")
            except ScheduleNotFound:
                await asyncio.sleep(0.001)
            else:
                return

    async def story(services: Services) -> None:
        await make_topic(services)
        await services.delay.stores.get(TopicPartition("orders", 0))
        created, _ = await asyncio.gather(services.schedules.create(BEAT), delete(services))
        assert created.name == "beat"
        assert await services.schedules.list() == ()

    live(SimNode(seed), story)


def test_a_message_that_is_delivered_is_not_listed_while_that_is_not_written_down_yet() -> None:
    async def story(services: Services) -> None:
        deliveries = services.delay._driver.deliveries
        settle = deliveries._settle

        async def settle_late(appended: Any) -> None:
            await asyncio.sleep(0.5)
            await settle(appended)

        deliveries._settle = settle_late  # type: ignore[method-assign]
        await make_topic(services)
        await hold(services, "now", delay_ms=1_000)
        await hold(services, "later", delay_ms=HOUR_MS)
        await asyncio.sleep(0.8)
        assert len(await services.delay.list("orders", limit=10)) == 2
        await asyncio.sleep(0.3)
        assert await values(services) == ["now"]
        for limit in (1, 10):
            (only,) = await services.delay.list("orders", limit=limit)
            assert only.due_ms > services.clock.now_ms()
        await asyncio.sleep(1)
        assert len(await services.delay.list("orders", limit=10)) == 1
        assert not any(store.delivered for store in services.delay.stores.loaded())

    live(node(), story)
