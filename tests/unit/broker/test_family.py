"""Families: the delivery and delay logs beside a data log are made when needed, led with it and removed with it."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.broker.stack import Stack
from tests.unit.broker.test_roles import HERE, THERE, assign, led_by

from goqueue.broker.replicas.partition import Partition
from goqueue.broker.replicas.partition_files import log_name, parse_directory_name
from goqueue.broker.replicas.writers import TermLog, local_writers
from goqueue.codec.batch_encode import encode_batch
from goqueue.errors import NotLeader, TopicNotFound
from goqueue.records import Acks, LogKind, NewRecord, TopicPartition
from goqueue.testing.memory_files import MemoryFiles, Survival

PLACE = TopicPartition("t", 0)


def note(text: bytes) -> bytes:
    return encode_batch([NewRecord(b"k", text)], now_ms=0)


async def test_a_partition_has_its_data_log_alone_until_another_is_used() -> None:
    stack = await Stack().start()
    await stack.topic(partitions=2)
    await stack.write(b"a")
    place = stack.partitions.leader("t", 0)
    assert [one.kind for one in place.members()] == [LogKind.DATA]
    assert place.member(LogKind.DELIVERY) is None
    assert not stack.partitions.has_member(PLACE, LogKind.DELIVERY)
    assert stack.files.list("logs/t") == ["0"]
    told: list[tuple[Partition, LogKind]] = []
    stack.partitions.on_member(lambda partition, member: told.append((partition, member.kind)))
    first, second = await asyncio.gather(
        stack.partitions.open_member(PLACE, LogKind.DELIVERY), stack.partitions.open_member(PLACE, LogKind.DELIVERY)
    )
    assert first is second is place.member(LogKind.DELIVERY)
    assert first.log.has_segments, "the first append finds its segment made"
    assert told == [(place, LogKind.DELIVERY)]
    await stack.partitions.open_member(PLACE, LogKind.DELAY)
    assert [one.kind for one in place.members()] == [LogKind.DATA, LogKind.DELIVERY, LogKind.DELAY]
    assert stack.files.list("logs/t") == ["0", "0.delay", "0.delivery"]
    assert stack.partitions.led_with_member(LogKind.DELAY) == [PLACE]
    assert stack.partitions.led_with_member(LogKind.DELIVERY) == [PLACE]
    await stack.stop()


async def test_the_logs_of_a_family_have_their_own_offsets_and_survive_a_restart() -> None:
    files = MemoryFiles()
    stack = await Stack(files).start()
    await stack.topic()
    await stack.write(b"a", b"b")
    member = await stack.partitions.open_member(PLACE, LogKind.DELIVERY)
    appended = member.writer.append(note(b"lease"), now_ms=0)
    assert appended.base_offset == 0
    await stack.stop()
    again = await Stack(files).start()
    assert again.partitions.has_member(PLACE, LogKind.DELIVERY), "known before anything is opened"
    assert again.partitions.all_open() == []
    member = await again.partitions.open_member(PLACE, LogKind.DELIVERY)
    assert (member.log.end_offset, again.partitions.leader("t", 0).log.end_offset) == (1, 2)
    assert member.log.topic_id == again.topics.get("t").topic_id
    await again.stop()


async def test_what_was_synced_in_a_member_survives_a_power_cut() -> None:
    files = MemoryFiles()
    stack = await Stack(files).start()
    await stack.topic()
    member = await stack.partitions.open_member(PLACE, LogKind.DELIVERY)
    synced = member.writer.reached(member.writer.append(note(b"kept"), now_ms=0).end_offset, Acks.ALL)
    assert synced is not None
    await synced
    member.writer.append(note(b"lost"), now_ms=0)
    files = files.crash(Survival.NOTHING)
    again = await Stack(files).start()
    member = await again.partitions.open_member(PLACE, LogKind.DELIVERY)
    assert member.log.end_offset == 1
    await again.stop()


async def test_a_term_begins_in_every_log_of_the_family_and_its_writers_end_together() -> None:
    stack = await Stack().start()
    await stack.topic()
    place = stack.partitions.leader("t", 0)
    member = await stack.partitions.open_member(PLACE, LogKind.DELIVERY)
    before = member.writer
    before.append(note(b"of epoch 0"), now_ms=0)
    await assign(stack, led_by(HERE, 3))
    assert (place.writer.leader_epoch, member.writer.leader_epoch) == (3, 3)
    with pytest.raises(NotLeader, match="leader epoch 3 has begun"):
        before.append(note(b"late"), now_ms=0)
    member.writer.append(note(b"of epoch 3"), now_ms=0)
    assert member.log.end_offset_for_epoch(0) == (0, 1)
    assert member.log.end_offset_for_epoch(3) == (3, 2)
    await assign(stack, led_by(THERE, 4, HERE, THERE))
    with pytest.raises(NotLeader, match="node 2 does"):
        member.writer.append(note(b"of nobody"), now_ms=0)
    with pytest.raises(NotLeader):
        await stack.partitions.open_member(PLACE, LogKind.DELAY)
    await stack.stop()


async def test_a_log_that_is_opened_in_a_later_term_takes_part_in_that() -> None:
    files = MemoryFiles()
    stack = await Stack(files).start()
    await stack.topic()
    (await stack.partitions.open_member(PLACE, LogKind.DELIVERY)).writer.append(note(b"a"), now_ms=0)
    await stack.stop()
    again = await Stack(files).start()
    await assign(again, led_by(HERE, 6))
    member = await again.partitions.open_member(PLACE, LogKind.DELIVERY)
    assert member.writer.leader_epoch == 6
    assert member.log.end_offset_for_epoch(6) == (6, 1)
    await again.stop()


async def test_a_follower_makes_the_logs_that_its_leader_has_and_writes_to_none() -> None:
    stack = await Stack().start()
    await stack.topic()
    await assign(stack, led_by(THERE, 1, HERE, THERE))
    with pytest.raises(NotLeader):
        await stack.partitions.open_member(PLACE, LogKind.DELIVERY)
    member = await stack.partitions.follow_member(PLACE, LogKind.DELIVERY)
    with pytest.raises(NotLeader, match="node 2 does"):
        member.writer.append(note(b"a"), now_ms=0)
    assert stack.partitions.led_with_member(LogKind.DELIVERY) == []
    await assign(stack, led_by(HERE, 2, HERE, THERE))
    assert member.writer.leader_epoch == 2
    await stack.stop()


async def test_all_logs_of_a_family_go_with_their_topic_and_a_successor_begins_without_them() -> None:
    stack = await Stack().start()
    await stack.topic()
    member = await stack.partitions.open_member(PLACE, LogKind.DELIVERY)
    member.writer.append(note(b"of the first"), now_ms=0)
    await stack.topics.delete("t")
    with pytest.raises(NotLeader, match="deleted"):
        member.writer.append(note(b"late"), now_ms=0)
    await stack.topic()
    assert not stack.partitions.has_member(PLACE, LogKind.DELIVERY)
    successor = await stack.partitions.open_member(PLACE, LogKind.DELIVERY)
    assert successor.log.end_offset == 0
    await stack.stop()


async def test_a_log_that_is_being_made_while_its_topic_is_deleted_is_not_made() -> None:
    begun, deleted, holds = asyncio.Event(), asyncio.Event(), []

    async def holds_one(work):
        if holds:
            begun.set()
            await holds.pop().wait()
        return work()

    stack = await Stack(offload=holds_one).start()
    await stack.topic()
    await stack.write(b"a")
    holds.append(deleted)
    opening = asyncio.ensure_future(stack.partitions.open_member(PLACE, LogKind.DELIVERY))
    await begun.wait()
    await stack.topics.delete("t")
    deleted.set()
    with pytest.raises((TopicNotFound, NotLeader)):
        await opening
    assert not stack.files.exists("logs/t")
    await stack.stop()


async def test_a_directory_of_another_topic_is_set_aside_and_its_records_are_not_taken_over() -> None:
    files = MemoryFiles()
    stack = await Stack(files).start()
    await stack.topic()
    member = await stack.partitions.open_member(PLACE, LogKind.DELIVERY)
    member.writer.append(note(b"of a stranger"), now_ms=0)
    await stack.topic("u")
    await stack.stop()
    files.make_dirs("logs/u")
    files.rename("logs/t/0.delivery", "logs/u/0.delivery")
    again = await Stack(files).start()
    member = await again.partitions.open_member(TopicPartition("u", 0), LogKind.DELIVERY)
    assert member.log.end_offset == 0
    assert len(files.list("set-aside/u")) == 1
    await again.stop()


async def test_the_size_of_a_partition_counts_its_whole_family() -> None:
    stack = await Stack().start()
    await stack.topic()
    await stack.write(b"a")
    alone = stack.partitions.size_bytes("t", 0)
    member = await stack.partitions.open_member(PLACE, LogKind.DELIVERY)
    member.writer.append(note(b"x" * 1000), now_ms=0)
    assert stack.partitions.size_bytes("t", 0) >= alone + 1000
    assert {end.directory for end in stack.queries.log_ends()} >= {"logs/t/0", "logs/t/0.delivery"}
    await stack.stop()


async def test_writers_of_every_log_are_made_by_the_factory_once_in_a_term() -> None:
    stack = await Stack().start()
    made: list[tuple[LogKind, int]] = []
    make = local_writers(stack.flusher)

    def counting(term: TermLog):
        made.append((term.kind, term.leader_epoch))
        return make(term)

    stack.partitions._writers = counting
    await stack.topic()
    stack.partitions.leader("t", 0)
    await stack.partitions.open_member(PLACE, LogKind.DELAY)
    await assign(stack, led_by(HERE, 1, HERE, THERE))
    await assign(stack, led_by(HERE, 1))
    await assign(stack, led_by(THERE, 2, HERE, THERE))
    assert made == [(LogKind.DATA, 0), (LogKind.DELAY, 0), (LogKind.DATA, 1), (LogKind.DELAY, 1)]
    await stack.stop()


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("0", (0, LogKind.DATA)),
        ("12.delivery", (12, LogKind.DELIVERY)),
        ("3.delay", (3, LogKind.DELAY)),
        ("3.other", None),
        ("x.delay", None),
        ("", None),
    ],
)
def test_directories_are_told_apart_by_their_names(name: str, parsed: tuple[int, LogKind] | None) -> None:
    assert parse_directory_name(name) == parsed


def test_logs_have_names_for_people() -> None:
    assert log_name("logs/orders/0") == "orders-0"
    assert log_name("logs/orders/2.delivery") == "orders-2 (delivery log)"
    assert log_name("metadata") == "metadata"
