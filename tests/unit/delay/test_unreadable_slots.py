"""A delayed message that cannot be read waits until it can, is not lost, and holds up no other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from goqueue.broker.topics import NewTopic
from goqueue.config import Config
from goqueue.delay.due.index import Row
from goqueue.delay.firing.deliveries import Deliveries
from goqueue.delay.firing.set_aside import SetAside
from goqueue.delay.holding.records import Change, Slot, decode
from goqueue.delay.holding.store import Store
from goqueue.delay.values import Held, SlotId
from goqueue.errors import CorruptFrame, NotLeader, StorageError
from goqueue.records import NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.sim_node import SimNode

# More than there are index files: several partitions share one.
PARTITIONS = 12
DAMAGED = TopicPartition("t", 3)
DAMAGED_LOG = "logs/t/3.delay/00000000000000000000.log"


async def hold(services: Services, what: bytes, delay_ms: int) -> None:
    """One message in each partition."""
    due_ms = services.clock.now_ms() + delay_ms
    for partition in range(PARTITIONS):
        await services.delay.hold("t", [Held(NewRecord(None, b"%d %b" % (partition, what)), due_ms, partition)])


async def values(services: Services) -> set[bytes]:
    places = {TopicPartition("t", partition): 0 for partition in range(PARTITIONS)}
    read = await services.reads.read(places, limit=1000, max_bytes=2**20)
    found = [record.value or b"" for one in read.values() for record in one.records]
    assert len(found) == len(set(found))
    return set(found)


def everything(*kinds: bytes) -> set[bytes]:
    return {b"%d %b" % (partition, what) for partition in range(PARTITIONS) for what in kinds}


def test_a_damaged_frame_holds_up_its_own_messages_until_it_is_mended() -> None:
    node = SimNode(1, Config())

    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("t", PARTITIONS))
        await hold(services, b"first", 5_000)
        await hold(services, b"second", 5_500)
        await asyncio.sleep(1)
        node.files.flip_bit(DAMAGED_LOG, 100)
        await asyncio.sleep(6)
        assert await values(services) == everything(b"first", b"second") - {b"3 first"}
        assert services.delay.stats().pending == {"t": 1}
        await asyncio.sleep(60)
        assert services.delay.stats().pending == {"t": 1}, "it is not taken for gone"
        node.files.flip_bit(DAMAGED_LOG, 100)
        await asyncio.sleep(15)
        assert await values(services) == everything(b"first", b"second")
        assert services.delay.stats().pending == {"t": 0}

    assert node.live(story)


def test_more_damaged_messages_than_may_be_on_their_way_hold_up_nobody_and_can_be_cancelled(monkeypatch: Any) -> None:
    monkeypatch.setattr("goqueue.delay.firing.driver._FIRING_MAX", 4)
    monkeypatch.setattr("goqueue.delay.firing.driver._READ_MAX", 2)
    node = SimNode(3, Config())

    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("t", PARTITIONS))
        due_ms = services.clock.now_ms() + 5_000
        # One frame of a delay log.
        first, *_ = await services.delay.hold("t", [Held(NewRecord(None, b"%d" % at), due_ms, 3) for at in range(20)])
        await asyncio.sleep(1)
        node.files.flip_bit(DAMAGED_LOG, 100)
        await hold(services, b"late", 10_000)
        await asyncio.sleep(15)
        assert await values(services) == everything(b"late")
        assert isinstance(first, SlotId)
        await services.delay.cancel("t", first)
        node.files.flip_bit(DAMAGED_LOG, 100)
        await asyncio.sleep(15)
        assert await values(services) == everything(b"late") | {b"%d" % at for at in range(1, 20)}
        assert services.delay.stats().pending == {"t": 0}

    assert node.live(story)


def test_damaged_messages_are_not_tried_more_often_whatever_comes_and_goes_beside_them(monkeypatch: Any) -> None:
    """Each partition that came had the near future loaded again, with them: every time they began to wait once more."""
    node = SimNode(4, Config())
    tried, without = 0, SetAside.without

    def counted(self: SetAside, *damage: Any) -> list[Row]:
        nonlocal tried
        tried += 1
        return without(self, *damage)

    monkeypatch.setattr(SetAside, "without", counted)

    async def story(services: Services) -> None:
        nonlocal tried
        await services.topics.create(NewTopic("t", PARTITIONS))
        await hold(services, b"first", 5_000)
        await asyncio.sleep(1)
        node.files.flip_bit(DAMAGED_LOG, 100)
        await asyncio.sleep(6)
        others = [TopicPartition("t", partition) for partition in range(PARTITIONS) if partition != DAMAGED.partition]
        due_ms = services.clock.now_ms() + 20_000
        for place in others:
            later = NewRecord(None, b"%d later" % place.partition)
            await services.delay.hold("t", [Held(later, due_ms, place.partition)])
        for place in others * 5:
            services.delay.stores.drop(place, NotLeader("a new term begins"))
            services.delay.stores.load(place)
            await asyncio.sleep(0.1)
        # Until those that had been loaded in between are set aside.
        await asyncio.sleep(20)
        tried = 0
        await asyncio.sleep(60)
        assert tried <= 6, "once in ten seconds"
        node.files.flip_bit(DAMAGED_LOG, 100)
        await asyncio.sleep(15)
        assert b"3 first" in await values(services)

    assert node.live(story)


def test_a_message_that_cannot_be_understood_holds_up_its_own_alone(monkeypatch: Any) -> None:
    """Its frame is sound. Nothing was delivered any more in any partition, and the same was read again and again."""
    node = SimNode(6, Config())

    def decoded(offset: int, key: bytes | None, value: bytes | None) -> Change:
        if value is not None and b"3 first" in value:
            raise StorageError("a stored record of kind 0 cannot be read")
        return decode(offset, key, value)

    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("t", PARTITIONS))
        due_ms = services.clock.now_ms() + 5_000
        # In one batch with one that can.
        both = [Held(NewRecord(None, b"3 %b" % what), due_ms, 3) for what in (b"first", b"second")]
        await services.delay.hold("t", both)
        await hold(services, b"third", 5_000)
        monkeypatch.setattr("goqueue.delay.holding.slot_reads.decode", decoded)
        await asyncio.sleep(10)
        assert await values(services) == everything(b"third") | {b"3 second"}
        monkeypatch.setattr("goqueue.delay.holding.slot_reads.decode", decode)
        await asyncio.sleep(15)
        assert await values(services) == everything(b"third") | {b"3 first", b"3 second"}

    assert node.live(story)


def test_what_was_on_its_way_and_cannot_be_read_does_not_stop_the_driver(monkeypatch: Any) -> None:
    node = SimNode(2, Config())
    reads = 0

    async def not_settled(*_: object) -> None:
        """The process is killed before."""

    async def fire(services: Services) -> None:
        await services.topics.create(NewTopic("t", PARTITIONS))
        with monkeypatch.context() as patch:
            patch.setattr(Deliveries, "_settle", not_settled)
            await hold(services, b"fired", 500)
            await asyncio.sleep(2)
        assert services.delay.stats().pending == {"t": PARTITIONS}

    read = Store.read

    async def damaged_for_a_while(self: Store, rows: Sequence[Row]) -> dict[int, Slot]:
        nonlocal reads
        if self.place == DAMAGED and reads < 3:
            reads += 1
            raise CorruptFrame(DAMAGED_LOG, 0, "the checksum does not match")
        return await read(self, rows)

    async def resume(services: Services) -> None:
        monkeypatch.setattr(Store, "read", damaged_for_a_while)
        await hold(services, b"later", 500)
        await asyncio.sleep(3)
        assert reads == 1
        assert services.delay.stats().pending == {"t": 1}
        assert await values(services) == everything(b"fired", b"later")
        await asyncio.sleep(40)
        assert services.delay.stats().pending == {"t": 0}
        assert await values(services) == everything(b"fired", b"later"), "and nothing twice"

    assert node.live(fire, is_killed=True)
    assert node.live(resume)
