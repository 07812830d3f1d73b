"""Delay by record header in simulation: a batch that is sent again, over power cuts too, schedules nothing twice."""

from __future__ import annotations

import asyncio

import pytest
from tests.sim.stories import each_seed

from goqueue.broker.arrivals.arrival import Arrival
from goqueue.broker.topics import NewTopic
from goqueue.caller import ANONYMOUS
from goqueue.codec.batch import parse_batch_header
from goqueue.codec.batch_encode import encode_batch
from goqueue.config import Config, DelayConfig, DurabilityConfig
from goqueue.delay.holding.headers import HeaderDelay
from goqueue.errors import GoQueueError, InvalidRecord, NotLeader, OutOfOrderSequence
from goqueue.records import Acks, NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.clock import seeded_rng
from goqueue.testing.sim_node import SimNode

CONFIG = Config(delay=DelayConfig(), durability=DurabilityConfig(flush_interval_ms=40))
LATE = (("goqueue-delay-ms", b"500"),)
WINDOW = {"goqueue.dedup.window.ms": "300000"}
Headers = tuple[tuple[str, bytes | None], ...]


async def prepare(services: Services, **config: str) -> None:
    if services.topics.find("t") is None:
        await services.topics.create(NewTopic("t", partitions=1, config={"goqueue.delay.headers": "true", **config}))


def batch(services: Services, number: int, *, producer_id: int = 7, late: Headers = LATE) -> bytes:
    records = [NewRecord(None, b"now %d" % number), NewRecord(None, b"late %d" % number, late)]
    return encode_batch(
        records,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=2 * number,
        now_ms=services.clock.now_ms(),
    )


async def send(services: Services, number: int, late: Headers = LATE) -> bool:
    return await send_batch(services, batch(services, number, late=late))


async def send_batch(services: Services, closed: bytes) -> bool:
    """Send until it is answered, as a client does; whether the broker knew the batch."""
    while True:
        try:
            pending = services.publish.append("t", 0, closed, acks=Acks.ALL)
        except NotLeader:
            await asyncio.sleep(0.01)
            continue
        if pending.durable is not None:
            await pending.durable
        return pending.appended.duplicate


async def values(services: Services) -> list[bytes]:
    place = TopicPartition("t", 0)
    found = await services.reads.read({place: 0}, limit=1000, max_bytes=10**6)
    return [record.value or b"" for record in found[place].records]


def test_a_batch_that_is_sent_again_is_recognised_as_a_whole():
    async def story(services: Services) -> None:
        await prepare(services)
        assert await send(services, 0) is False
        assert await send(services, 0) is True
        assert services.delay.stats().pending == {"t": 1}
        await asyncio.sleep(2)
        assert await send(services, 0) is True
        assert await send(services, 1) is False
        await asyncio.sleep(2)
        assert await values(services) == [b"now 0", b"late 0", b"now 1", b"late 1"]

    assert SimNode(1, CONFIG).live(story)


def test_a_batch_out_of_sequence_holds_nothing_back():
    async def story(services: Services) -> None:
        await prepare(services)
        await send(services, 0)
        with pytest.raises(OutOfOrderSequence):
            services.publish.append("t", 0, batch(services, 5), acks=Acks.ALL)
        assert services.delay.stats().pending == {"t": 1}
        await send(services, 1)
        assert services.delay.stats().pending == {"t": 2}

    assert SimNode(2, CONFIG).live(story)


def hold_back(services: Services, data: bytes, now_ms: int) -> bool:
    """Let a batch pass the step that holds records back, and none behind it."""
    place = services.publish._partitions.leader("t", 0)
    arrival = Arrival(place, parse_batch_header(data), data, Acks.ALL, ANONYMOUS, now_ms)
    HeaderDelay(services.delay, services.staging)(arrival)
    return arrival.is_thinned


@pytest.mark.parametrize("value", [b"soon", b"", b"-5", None, b"9" * 20])
def test_a_header_that_is_no_number_refuses_the_batch(value: bytes | None):
    async def story(services: Services) -> None:
        await prepare(services)
        bad = encode_batch([NewRecord(None, b"x", (("goqueue-delay-ms", value),))], now_ms=services.clock.now_ms())
        with pytest.raises(InvalidRecord, match="goqueue-delay-ms"):
            services.publish.append("t", 0, bad, acks=Acks.ALL)

    assert SimNode(3, CONFIG).live(story)


def test_a_batch_whose_time_has_come_when_it_is_sent_again_is_not_stored_twice():
    """The slot survived the power cut and the batch did not; the client asks again when the slot is delivered."""

    async def story(services: Services) -> None:
        await prepare(services)
        while services.delay.stores.at_work(TopicPartition("t", 0)) is None:  # noqa: ASYNC110 - there is nothing to wait for
            await asyncio.sleep(0.01)
        late = (("goqueue-deliver-at", b"%d" % (services.clock.now_ms() + 300)),)
        assert hold_back(services, batch(services, 0, late=late), services.clock.now_ms())
        await asyncio.sleep(1)
        assert await values(services) == [b"late 0"]
        assert await send(services, 0, late) is False
        await asyncio.sleep(1)
        assert sorted(await values(services)) == [b"late 0", b"now 0"]

    assert SimNode(4, CONFIG).live(story)


def test_a_batch_that_is_sent_again_is_taken_apart_by_the_time_at_which_it_was_first():
    """A record that came due between that decision and the writing of its slot was stored as well as delivered."""

    async def story(services: Services) -> None:
        await prepare(services)
        await services.delay.stores.get(TopicPartition("t", 0))
        now_ms = services.clock.now_ms()
        late = (("goqueue-deliver-at", b"%d" % now_ms),)
        assert hold_back(services, batch(services, 0, late=late), now_ms - 1)
        assert await send(services, 0, late) is False
        await asyncio.sleep(1)
        assert sorted(await values(services)) == [b"late 0", b"now 0"]

    assert SimNode(9, CONFIG).live(story)


@pytest.mark.parametrize("seed", each_seed(30))
def test_every_message_comes_once_though_its_batch_was_sent_again_after_a_power_cut(seed: int):
    node = SimNode(seed, CONFIG)
    rng = seeded_rng(seed, "cuts")
    answered: set[int] = set()

    async def story(services: Services) -> None:
        await prepare(services)
        for number in range(6):
            if number not in answered:
                await send(services, number)
                answered.add(number)
                await asyncio.sleep(0.2)

    for _ in range(8):
        try:
            node.live(story, crash_at_step=rng.randrange(3, 80))
        except GoQueueError as error:
            raise AssertionError(f"a retry was refused: {error}") from error

    async def check(services: Services) -> None:
        await story(services)
        await asyncio.sleep(3)
        found = await values(services)
        assert sorted(found) == sorted([b"now %d" % n for n in range(6)] + [b"late %d" % n for n in range(6)])

    assert node.live(check)


@pytest.mark.parametrize("late", [LATE, ()], ids=["all of them with delayed records", "the third one plain"])
def test_no_batch_is_called_out_of_order_because_those_before_it_came_while_the_shard_was_loading(late: Headers):
    """A client that is told so begins a new epoch, under which what is stored already is not recognised."""
    node = SimNode(8, CONFIG)

    async def before(services: Services) -> None:
        await prepare(services)
        await send(services, 0)

    async def after(services: Services) -> None:
        third = batch(services, 2, late=late)
        assert services.delay.stores.at_work(TopicPartition("t", 0)) is None
        for one in (batch(services, 0), batch(services, 1), third):
            with pytest.raises(NotLeader):
                services.publish.append("t", 0, one, acks=Acks.ALL)
        await services.delay.stores.get(TopicPartition("t", 0))
        for _ in range(2):
            with pytest.raises(NotLeader):
                services.publish.append("t", 0, third, acks=Acks.ALL)
        assert await send(services, 0) is True
        with pytest.raises(NotLeader):
            services.publish.append("t", 0, third, acks=Acks.ALL)
        assert await send(services, 1) is False
        assert await send_batch(services, third) is False
        with pytest.raises(OutOfOrderSequence):
            services.publish.append("t", 0, batch(services, 5), acks=Acks.ALL)
        await asyncio.sleep(2)
        assert sorted(await values(services)) == sorted(b"%s %d" % (w, n) for w in (b"now", b"late") for n in range(3))

    assert node.live(before, is_killed=True)
    assert node.live(after)


@pytest.mark.parametrize("late", [LATE, ()], ids=["the third one with a delayed record", "the third one plain"])
def test_no_batch_is_called_out_of_order_because_the_one_before_it_could_be_stored_by_half_only(late: Headers):
    """The disk took the slots and refused the rest: the client must send that batch again as it was."""

    async def story(services: Services) -> None:
        await prepare(services)
        await send(services, 0)
        assert hold_back(services, batch(services, 1), services.clock.now_ms())
        third = batch(services, 2, late=late)
        with pytest.raises(NotLeader, match="earlier batch"):
            services.publish.append("t", 0, third, acks=Acks.ALL)
        assert await send(services, 1) is False
        assert await send_batch(services, third) is False
        with pytest.raises(OutOfOrderSequence):
            services.publish.append("t", 0, batch(services, 5, late=late), acks=Acks.ALL)
        await asyncio.sleep(2)
        assert sorted(await values(services)) == sorted(b"%s %d" % (w, n) for w in (b"now", b"late") for n in range(3))

    assert SimNode(10, CONFIG).live(story)


def test_a_record_for_later_with_a_deduplication_id_refuses_its_batch():
    async def story(services: Services) -> None:
        await prepare(services, **WINDOW)
        with pytest.raises(InvalidRecord, match="deduplication id"):
            await send(services, 0, (*LATE, ("goqueue-dedup-id", b"a")))
        assert not any(services.delay.stats().pending.values())
        assert await values(services) == []
        assert await send(services, 0) is False

    assert SimNode(5, CONFIG).live(story)


def test_ids_are_ignored_where_the_topic_has_no_window():
    async def story(services: Services) -> None:
        await prepare(services)
        assert await send(services, 0, (*LATE, ("goqueue-dedup-id", b"a"))) is False
        assert await send(services, 1, (*LATE, ("goqueue-dedup-id", b"a"))) is False
        await asyncio.sleep(2)
        assert sorted(await values(services)) == [b"late 0", b"late 1", b"now 0", b"now 1"]

    assert SimNode(6, CONFIG).live(story)


def test_repeats_beside_a_record_for_later_are_told_apart_like_any_other():
    """What was left of such a batch went past the topic's window: repeats were stored, and ids forgotten."""

    async def story(services: Services) -> None:
        await prepare(services, **WINDOW)
        known = (("goqueue-dedup-id", b"a"),)
        for number in range(2):
            records = [NewRecord(None, b"now", known), NewRecord(None, b"late %d" % number, LATE)]
            await send_batch(services, encode_batch(records, now_ms=services.clock.now_ms()))
        alone = encode_batch([NewRecord(None, b"again", known)], now_ms=services.clock.now_ms())
        await send_batch(services, alone)
        await asyncio.sleep(2)
        assert await values(services) == [b"now", b"late 0", b"late 1"]

    assert SimNode(7, CONFIG).live(story)
