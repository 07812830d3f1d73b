"""Stretches that nobody can read: set aside by themselves, shown, dead-lettered, while everything else is delivered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.unit.codec.builders import raw_batch
from tests.unit.servers.kafka.share_client import ShareClient, acquired, values
from tests.unit.servers.kafka.test_share import caller

from goqueue.broker.reading.queries import MAX_TIMESTAMP
from goqueue.broker.topics import NewTopic
from goqueue.codec.batch import parse_batch_header, verify_batch
from goqueue.codec.batch_encode import encode_batch
from goqueue.codec.compression import Codec, compress
from goqueue.config import Config, GroupsConfig
from goqueue.delivery.values import Action, Receive, Settlement
from goqueue.errors import InvalidRecord
from goqueue.records import Acks, NewRecord, TopicPartition
from goqueue.servers.kafka.dispatch import Dispatcher
from goqueue.servers.services import Services
from goqueue.testing.sim_node import SimNode

PLACES = [TopicPartition("jobs", 0), TopicPartition("jobs", 1)]
GARBAGE = b"\x01" * 60
Story = Callable[[Services], Awaitable[None]]

POISON = {
    "garbage": raw_batch(GARBAGE, count=3),
    "too few records": raw_batch(GARBAGE[:0] + bytes([0x10, 0, 0, 0, 2, 0x6B, 2, 0x76, 0]) * 3, count=2),
    **{f"garbage as {one.name}": raw_batch(b"\xee" * 60, count=3, attributes=one) for one in Codec if one},
    **{f"{one.name} of garbage": raw_batch(compress(one, GARBAGE), count=3, attributes=one) for one in Codec if one},
    "bomb": raw_batch(compress(Codec.ZSTD, bytes(140 * 2**20)), count=1, attributes=Codec.ZSTD),
}


def run(*stories: Story) -> None:
    """One life of a broker for each story, with the same disk."""
    node = SimNode(1, Config(groups=GroupsConfig(offsets_partitions=2)))
    for story in stories:
        assert node.live(story)


def damage(node: SimNode, text: bytes) -> None:
    """Change a byte on the disk, of the frame that holds the text."""
    path = "logs/jobs/0/00000000000000000000.log"
    file = node.files.open(path)
    data = bytearray(file.pread(file.size(), 0))
    data[data.index(text)] ^= 0xFF
    file.close()
    node.files.replace(path, bytes(data))


async def append(services: Services, batch: bytes, partition: int = 0) -> None:
    pending = services.publish.append("jobs", partition, batch, acks=Acks.ALL)
    if pending.durable is not None:
        await pending.durable


async def say(services: Services, *texts: str, partition: int = 0) -> None:
    batch = encode_batch([NewRecord(None, one.encode()) for one in texts], now_ms=services.clock.now_ms())
    await append(services, batch, partition)


async def poisoned(services: Services, poison: bytes, **config: str) -> None:
    """Before and behind the poison, and in the other partition, lie messages."""
    await services.topics.create(NewTopic("jobs", partitions=2, config=config))
    await say(services, "before")
    await append(services, poison)
    await say(services, "behind")
    await say(services, "beside", partition=1)


async def take(services: Services, group: str, *, limit: int = 10) -> list[bytes | None]:
    """Receive and ack until nothing comes any more."""
    found: list[bytes | None] = []
    while got := await services.delivery.receive(Receive(group, "c", PLACES, limit)):
        await services.delivery.settle([Settlement(one.receipt, Action.ACK) for one in got])
        found += [one.value for one in got]
    return found


async def letters(services: Services) -> list[tuple[bytes | None, dict[str, bytes | None]]]:
    await asyncio.sleep(2)
    found = await services.reads.read({TopicPartition("jobs.dlq", 0): 0}, limit=100, max_bytes=2**24)
    return [(one.value, dict(one.headers)) for read in found.values() for one in read.records]


@pytest.mark.parametrize("name", POISON)
def test_everything_around_it_is_delivered_to_every_group_before_and_after_a_restart(name: str) -> None:
    poison = POISON[name]
    span = parse_batch_header(poison).last_offset_delta + 1

    async def first_life(services: Services) -> None:
        await poisoned(services, poison)
        assert sorted(map(bytes, filter(None, await take(services, "a")))) == [b"before", b"behind", b"beside"]
        ((value, headers),) = await letters(services)
        header = parse_batch_header(value or b"")
        assert (header.base_offset, header.crc) == (1, parse_batch_header(poison).crc)
        told = {name.removeprefix("goqueue-dlq-"): text for name, text in headers.items()}
        assert (told["topic"], told["partition"], told["group"], told["reason"]) == (b"jobs", b"0", b"a", b"unreadable")
        assert (told["first-offset"], told["last-offset"]) == (b"1", b"%d" % span)
        assert told["codec"].decode() == Codec(header.codec).name.lower()
        assert told["error"]
        settled = await services.delivery.positions.committed("a", PLACES)
        assert settled == {PLACES[0]: span + 2, PLACES[1]: 1}

    async def second_life(services: Services) -> None:
        assert await take(services, "a") == []
        assert sorted(map(bytes, filter(None, await take(services, "b", limit=1)))) == [b"before", b"behind", b"beside"]
        assert len(await letters(services)) == 2

    run(first_life, second_life)


@pytest.mark.parametrize("name", POISON)
def test_readers_of_records_pass_over_it_and_are_told(name: str) -> None:
    span = parse_batch_header(POISON[name]).last_offset_delta + 1

    async def story(services: Services) -> None:
        await poisoned(services, POISON[name])
        for _ in range(2):
            found = (await services.reads.read({PLACES[0]: 0}, limit=10, max_bytes=2**20))[PLACES[0]]
            assert [one.value for one in found.records] == [b"before", b"behind"]
            assert [(one.first, one.last) for one in found.unreadable] == [(1, span)]
            assert found.next_offset == span + 2

    run(story)


def test_without_dead_letters_it_is_passed_over_and_counted() -> None:
    async def story(services: Services) -> None:
        await poisoned(services, POISON["garbage"], **{"delivery.dead.letters": "false"})
        assert len(await take(services, "a")) == 3
        assert (await services.delivery.stats("jobs")).unreadable_total == 1
        assert services.topics.find("jobs.dlq") is None
        (warning,) = [one.warning for one in services.checks() if one.name == "batches"]
        assert warning is not None
        assert "jobs-0 offsets 1 to 3" in warning
        assert all(one.problem is None for one in services.checks())

    run(story)


def test_a_share_group_is_given_it_once_and_then_everything_but_it() -> None:
    async def story(services: Services) -> None:
        await poisoned(services, POISON["ZSTD of garbage"])
        topic = services.topics.get("jobs")
        client = ShareClient(caller(Dispatcher(services)), topic.topic_id)
        assert acquired(await client.fetch()) == [(0, 4, 1)]
        await client.acknowledge({0: [(0, 0, [1])]})
        # It cannot read what follows, and its lock runs out.
        await asyncio.sleep(31)
        again = await client.fetch()
        assert (acquired(again), values(again)) == ([(4, 4, 2)], [b"behind"])
        await client.acknowledge({0: [(4, 4, [1])]})
        ((value, headers),) = await letters(services)
        assert parse_batch_header(value or b"").base_offset == 1
        assert headers["goqueue-dlq-last-offset"] == b"3"
        assert await services.delivery.positions.committed("g", PLACES[:1]) == {PLACES[0]: 5}

    run(story)


def test_a_batch_that_a_share_consumer_rejects_has_one_letter_for_all_its_offsets() -> None:
    """The Java client rejects every offset of a batch that it cannot read."""
    poison = raw_batch(GARBAGE * 40, count=250)

    async def story(services: Services) -> None:
        await poisoned(services, poison)
        client = ShareClient(caller(Dispatcher(services)), services.topics.get("jobs").topic_id)
        await client.fetch()
        await client.acknowledge({0: [(0, 0, [1]), (1, 250, [3]), (251, 251, [1])]})
        assert len(await letters(services)) == 1
        assert await services.delivery.positions.committed("g", PLACES[:1]) == {PLACES[0]: 252}

    run(story)


def test_a_damaged_frame_is_set_aside_like_a_batch_that_cannot_be_read() -> None:
    async def first_life(services: Services) -> None:
        await services.topics.create(NewTopic("jobs", partitions=2))
        for text in ("before", "damaged", "behind"):
            await say(services, text)

    async def second_life(services: Services) -> None:
        assert await take(services, "a") == [b"before", b"behind"]
        assert await take(services, "b", limit=1) == [b"before", b"behind"]
        client = ShareClient(caller(Dispatcher(services)), services.topics.get("jobs").topic_id)
        assert acquired(await client.fetch()) == [(0, 0, 1), (2, 2, 1)]
        found = (await services.reads.read({PLACES[0]: 1}, limit=10, max_bytes=2**20))[PLACES[0]]
        assert ([(one.first, one.last) for one in found.unreadable], found.next_offset) == ([(1, 1)], 2)
        told = await letters(services)
        assert [value for value, _ in told] == [None, None, None]
        assert sorted(headers["goqueue-dlq-group"] or b"" for _, headers in told) == [b"a", b"b", b"g"]

    node = SimNode(1, Config(groups=GroupsConfig(offsets_partitions=2)))
    assert node.live(first_life)
    damage(node, b"damaged")
    assert node.live(second_life)


def test_the_broker_starts_and_knows_the_ids_around_it() -> None:
    given = [NewRecord(None, b"x", (("goqueue-dedup-id", b"%d" % one),)) for one in range(2)]

    async def first_life(services: Services) -> None:
        await services.topics.create(NewTopic("jobs", partitions=1))
        await append(services, encode_batch(given[:1], now_ms=services.clock.now_ms()))
        await append(services, POISON["LZ4 of garbage"])
        await append(services, encode_batch(given[1:], now_ms=services.clock.now_ms()))
        await services.topics.alter_config("jobs", {"goqueue.dedup.window.ms": "3600000"})

    async def second_life(services: Services) -> None:
        before = services.queries.offsets("jobs", 0).high_watermark
        await services.publish.publish_records("jobs", given, acks=Acks.ALL)
        assert services.queries.offsets("jobs", 0).high_watermark == before

    run(first_life, second_life)


def test_a_time_is_found_behind_it() -> None:
    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("jobs", partitions=1))
        await append(services, POISON["garbage as GZIP"])
        await say(services, "behind")

        found = services.queries.list_offset("jobs", 0, 1)
        newest = services.queries.list_offset("jobs", 0, MAX_TIMESTAMP)

        assert found is not None
        assert newest is not None
        assert (found.offset, newest.offset) == (3, 3)

    run(story)


@pytest.mark.parametrize("lanes", [(b"high", b"low"), (b"low", b"high")])
def test_a_damaged_frame_of_several_lanes_holds_up_none_of_them(lanes: tuple[bytes, bytes]) -> None:
    def in_lanes(*texts: str) -> bytes:
        records = [
            NewRecord(None, text.encode(), (("goqueue-priority", lane),))
            for text, lane in zip(texts, lanes, strict=True)
        ]
        return encode_batch(records, now_ms=1_700_000_000_000)

    async def first_life(services: Services) -> None:
        await services.topics.create(NewTopic("jobs", partitions=2, config={"goqueue.priority.headers": "true"}))
        for text in ("before", "damaged", "behind"):
            await append(services, in_lanes(text + " 1", text + " 2"))

    async def second_life(services: Services) -> None:
        assert sorted(await take(services, "a", limit=1)) == [b"before 1", b"before 2", b"behind 1", b"behind 2"]
        # A lane that had not come near it yet finds it for itself.
        assert 1 <= len(await letters(services)) <= len(lanes)
        assert await services.delivery.positions.committed("a", PLACES[:1]) == {PLACES[0]: 6}

    node = SimNode(1, Config(groups=GroupsConfig(offsets_partitions=2)))
    assert node.live(first_life)
    damage(node, b"damaged")
    assert node.live(second_life)


def test_a_count_of_billions_that_an_older_version_took_is_set_aside_in_one_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    huge = raw_batch(GARBAGE, count=2**31 - 1)

    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("jobs", partitions=2))
        await say(services, "before")
        with monkeypatch.context() as older:
            older.setattr("goqueue.log.appends.check_batch", verify_batch)
            await append(services, huge)
        await say(services, "behind")

        assert await take(services, "a") == [b"before", b"behind"]
        client = ShareClient(caller(Dispatcher(services)), services.topics.get("jobs").topic_id)
        found = await client.fetch()
        assert (acquired(found), values(found)) == ([(0, 0, 1), (2**31, 2**31, 1)], [b"before", b"behind"])
        assert len(await letters(services)) == 2

    run(story)


@pytest.mark.parametrize(
    "batch",
    [
        raw_batch(GARBAGE, count=2**31 - 1, last_offset_delta=2**31 - 2),
        raw_batch(GARBAGE, count=9),
        raw_batch(GARBAGE, count=3, last_offset_delta=1000),
        raw_batch(b"\xee" * 60, count=1_000_000, attributes=Codec.GZIP),
    ],
)
def test_a_count_that_cannot_be_is_refused_at_the_door(batch: bytes) -> None:
    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("jobs", partitions=2))
        with pytest.raises(InvalidRecord):
            await append(services, batch)

    run(story)
