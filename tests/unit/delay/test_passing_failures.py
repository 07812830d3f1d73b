"""A failure to sync that passes delays a settlement, and does not leave a message unsettled until a restart."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import Any

from goqueue.broker.arrivals.publish import PublishService
from goqueue.broker.replicas.local_writer import LocalWriter
from goqueue.broker.topics import NewTopic
from goqueue.caller import INTERNAL
from goqueue.config import Config
from goqueue.delay.due.index import DueIndex
from goqueue.delay.values import Held
from goqueue.errors import OutOfOrderSequence, StorageError
from goqueue.records import Acks, NewRecord
from goqueue.servers.services import Services
from goqueue.testing.sim_node import SimNode


def test_a_delivered_message_is_settled_once_the_failure_of_its_topic_has_passed(monkeypatch: Any) -> None:
    failures: list[str] = []
    reached = LocalWriter.reached

    async def fail() -> None:
        failures.append("orders")
        raise StorageError("too many open files")

    def reached_or_not(self: LocalWriter, end_offset: int, acks: Acks) -> Any:
        is_orders = self._log.directory == "logs/orders/0"
        return fail() if is_orders and len(failures) < 3 else reached(self, end_offset, acks)

    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("orders", partitions=1))
        due_ms = services.clock.now_ms() + 1_000
        monkeypatch.setattr(LocalWriter, "reached", reached_or_not)
        await services.delay.hold("orders", [Held(NewRecord(None, b"later"), due_ms)])
        await asyncio.sleep(2)
        assert services.delay.stats().pending["orders"] == 1, "delivered, and not yet known to be safe"
        await asyncio.sleep(10)
        assert len(failures) == 3
        assert services.delay.stats().pending["orders"] == 0
        assert services.queries.offsets("orders", 0).end_offset == 1, "and not sent a second time"

    assert SimNode(7, Config()).live(story)


def test_the_index_goes_on_once_a_failure_of_its_own_log_has_passed(monkeypatch: Any) -> None:
    failures: list[str] = []
    reached = LocalWriter.reached

    async def fail() -> None:
        failures.append("delayed")
        raise StorageError("too many open files")

    def reached_or_not(self: LocalWriter, end_offset: int, acks: Acks) -> Any:
        is_delayed = self._log.directory == "logs/orders/0.delay"
        return fail() if is_delayed and len(failures) < 2 else reached(self, end_offset, acks)

    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("orders", partitions=1))
        now_ms = services.clock.now_ms()
        await services.delay.hold("orders", [Held(NewRecord(None, b"first"), now_ms + 60_000)])
        monkeypatch.setattr(LocalWriter, "reached", reached_or_not)
        # Its sender is told that it may not be safe; it is held all the same.
        (outcome,) = await services.delay.hold("orders", [Held(NewRecord(None, b"second"), now_ms + 5_000)])
        assert isinstance(outcome, StorageError)
        await asyncio.sleep(90)
        assert len(failures) == 2
        assert services.delay.problem() is None
        assert services.queries.offsets("orders", 0).end_offset == 2

    assert SimNode(7, Config()).live(story)


def test_the_index_is_usable_again_when_the_partition_that_met_a_full_disk_has_left_meanwhile(monkeypatch: Any) -> None:
    failures: list[str] = []
    apply = DueIndex.apply

    def apply_or_not(self: DueIndex, changes: Any, known: Any) -> None:
        if is_full:
            failures.append("full")
            full = sqlite3.OperationalError("database or disk is full")
            full.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise full
        apply(self, changes, known)

    is_full = False
    monkeypatch.setattr(DueIndex, "apply", apply_or_not)

    async def story(services: Services) -> None:
        nonlocal is_full
        await services.topics.create(NewTopic("orders", partitions=1))
        due_ms = services.clock.now_ms() + 60_000
        is_full = True
        await services.delay.hold("orders", [Held(NewRecord(None, b"later"), due_ms)])
        await asyncio.sleep(5)
        assert failures
        assert "disk is full" in str(services.delay.problem())
        # Its delay log is closed here, as when another node takes the partition over: nothing is left to take in.
        await services.topics.delete("orders")
        is_full = False
        await asyncio.sleep(5)
        assert services.delay.problem() is None

    assert SimNode(7, Config()).live(story)


def test_messages_whose_sequence_is_refused_are_stored_once_although_the_disk_takes_its_time(monkeypatch: Any) -> None:
    refusals: list[int] = []
    append, reached = PublishService.append, LocalWriter.reached

    def refuse_first(self: PublishService, topic: str, *rest: Any, **options: Any) -> Any:
        if options.get("caller") is INTERNAL and topic == "orders" and not refusals:
            refusals.append(1)
            raise OutOfOrderSequence("a batch before it was refused")
        return append(self, topic, *rest, **options)

    async def slow(wait: Any) -> None:
        await asyncio.sleep(5)
        if wait is not None:
            await wait

    def reached_late(self: LocalWriter, end_offset: int, acks: Acks) -> Any:
        wait = reached(self, end_offset, acks)
        return slow(wait) if refusals and self._log.directory == "logs/orders/0.delay" else wait

    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("orders", partitions=1))
        now_ms = services.clock.now_ms()
        monkeypatch.setattr(PublishService, "append", refuse_first)
        monkeypatch.setattr(LocalWriter, "reached", reached_late)
        for due_ms in (1_000, 1_500, 2_500, 8_000):
            await services.delay.hold("orders", [Held(NewRecord(None, b"later"), now_ms + due_ms)])
        await asyncio.sleep(60)
        assert refusals == [1]
        assert services.queries.offsets("orders", 0).end_offset == 4, "each once"
        assert services.delay.stats().pending["orders"] == 0

    assert SimNode(7, Config()).live(story)


def test_whoever_asks_the_index_waits_for_changes_that_the_disk_still_takes(monkeypatch: Any) -> None:
    is_slow = False
    reached = LocalWriter.reached

    async def slow(wait: Any) -> None:
        await asyncio.sleep(5)
        if wait is not None:
            await wait

    def reached_late(self: LocalWriter, end_offset: int, acks: Acks) -> Any:
        wait = reached(self, end_offset, acks)
        return slow(wait) if is_slow and self._log.directory == "logs/orders/0.delay" else wait

    async def story(services: Services) -> None:
        nonlocal is_slow
        await services.topics.create(NewTopic("orders", partitions=1))
        now_ms = services.clock.now_ms()
        await services.delay.hold("orders", [Held(NewRecord(None, b"first"), now_ms + 60_000)])
        await asyncio.sleep(1)
        monkeypatch.setattr(LocalWriter, "reached", reached_late)
        is_slow = True
        holding = asyncio.create_task(
            services.delay.hold("orders", [Held(NewRecord(None, b"second"), now_ms + 30_000)])
        )
        # The index has begun to take it in, and waits for the disk.
        await asyncio.sleep(1)
        (first,) = [one for one in await services.delay.list("orders", limit=10) if one.due_ms == now_ms + 60_000]
        assert len(await services.delay.list("orders", limit=10)) == 2, "held, and not in the file yet"
        await holding
        cancelling = asyncio.create_task(services.delay.cancel("orders", first.id))
        await asyncio.sleep(1)
        assert len(await services.delay.list("orders", limit=10)) == 1, "cancelled, and still in the file"
        await cancelling

    assert SimNode(7, Config()).live(story)
