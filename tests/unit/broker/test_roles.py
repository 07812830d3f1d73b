"""Roles: who leads is said by the metadata, a term has a writer of its own, and without a replica nothing is opened."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.broker.stack import Stack

from goqueue.broker.replicas.roles import Following, Leading, role_of
from goqueue.errors import FencedLeaderEpoch, NotLeader
from goqueue.metadata.events import Assignment, AssignmentsChanged
from goqueue.records import Acks, TopicPartition
from goqueue.testing.memory_files import MemoryFiles, Survival

HERE, THERE = 1, 2


async def assign(stack: Stack, assignment: Assignment, partition: int = 0, topic: str = "t") -> None:
    found = stack.topics.get(topic)
    await stack.metadata.commit([AssignmentsChanged(topic, found.topic_id, {partition: assignment})])


def led_by(leader: int, epoch: int, *replicas: int) -> Assignment:
    held = replicas or (leader,)
    return Assignment(leader=leader, leader_epoch=epoch, replicas=held, isr=held)


def test_the_role_of_a_node_is_in_the_assignment() -> None:
    assert role_of(led_by(HERE, 3, HERE, THERE), HERE) == Leading(3, (HERE, THERE))
    assert role_of(led_by(THERE, 3, HERE, THERE), HERE) == Following(3, THERE)
    assert role_of(led_by(THERE, 3), HERE) is None
    arriving = Assignment(leader=THERE, leader_epoch=3, replicas=(THERE,), isr=(THERE,), adding=(HERE,))
    assert role_of(arriving, HERE) == Following(3, THERE)


async def test_a_node_without_a_replica_opens_no_log_and_says_who_leads() -> None:
    stack = await Stack().start()
    await stack.topic(partitions=2)
    await assign(stack, led_by(THERE, 4), partition=1)
    with pytest.raises(NotLeader) as refused:
        stack.partitions.leader("t", 1)
    assert (refused.value.leader, refused.value.leader_epoch) == (THERE, 4)
    with pytest.raises(NotLeader):
        stack.partitions.replica("t", 1)
    with pytest.raises(NotLeader):
        await stack.write(b"lost", partition=1)
    assert stack.partitions.opening("t", 1, to_write=True) is None
    assert stack.partitions.all_open() == []
    assert not stack.files.exists("logs/t/1")
    await stack.stop()


async def test_a_directory_that_lies_there_makes_nobody_a_leader() -> None:
    files = MemoryFiles()
    stack = await Stack(files).start()
    await stack.topic()
    await stack.write(b"a")
    await assign(stack, led_by(THERE, 1))
    with pytest.raises(NotLeader):
        stack.partitions.leader("t", 0)
    assert stack.partitions.on_disk() == []
    assert stack.partitions.led_with_data("t") == []
    await stack.stop()
    again = await Stack(files).start()
    with pytest.raises(NotLeader):
        again.partitions.leader("t", 0)
    await again.stop()


async def test_a_follower_is_a_replica_that_takes_no_writes() -> None:
    stack = await Stack().start()
    await stack.topic()
    await stack.write(b"a")
    await assign(stack, led_by(THERE, 1, HERE, THERE))
    with pytest.raises(NotLeader, match="node 2 does"):
        await stack.write(b"b")
    replica = stack.partitions.replica("t", 0)
    assert replica.role == Following(1, THERE)
    assert replica.log.end_offset == 1
    assert stack.partitions.on_disk() == [TopicPartition("t", 0)]
    with pytest.raises(NotLeader):
        replica.writer.append(stack.batch(b"b"), now_ms=0)
    await stack.stop()


async def test_the_writer_of_an_ended_term_refuses_although_this_node_leads_again() -> None:
    stack = await Stack().start()
    await stack.topic()
    writer = stack.partitions.leader("t", 0).writer
    await assign(stack, led_by(HERE, 1))
    with pytest.raises(NotLeader, match="leader epoch 1 has begun"):
        writer.append(stack.batch(b"of epoch 0"), now_ms=0)
    with pytest.raises(NotLeader):
        writer.reached(0, Acks.ALL)
    await stack.write(b"of epoch 1")
    assert stack.queries.epoch_end("t", 0, 1) == (1, 1)
    await stack.stop()


async def test_who_waits_for_the_disk_is_told_that_the_term_is_over_and_the_bytes_are_synced_all_the_same() -> None:
    gate = asyncio.Event()

    async def slow(work):
        await gate.wait()
        return work()

    stack = Stack(offload=slow)
    gate.set()
    await stack.start()
    await stack.topic()
    await stack.write(b"warm")
    gate.clear()
    in_round = stack.publish.append("t", 0, stack.batch(b"a"), acks=Acks.ALL).durable
    await asyncio.sleep(0)
    behind_it = stack.publish.append("t", 0, stack.batch(b"b"), acks=Acks.ALL).durable
    assert in_round is not None
    assert behind_it is not None
    # The metadata's own sync waits at the same gate: the role comes as its delta would bring it.
    stack.partitions.leader("t", 0).become(Following(1, THERE))
    for wait in (in_round, behind_it):
        with pytest.raises(NotLeader):
            await wait
    gate.set()
    await stack.flusher.flush()
    assert stack.partitions.replica("t", 0).log.synced_end == 3
    await stack.stop()


async def test_a_change_of_replicas_within_a_term_goes_on_with_the_same_writer() -> None:
    stack = await Stack().start()
    await stack.topic()
    place = stack.partitions.leader("t", 0)
    writer = place.writer
    await assign(stack, led_by(HERE, 0, HERE, THERE))
    assert place.writer is writer
    assert place.in_sync_replicas == 2
    writer.append(stack.batch(b"a"), now_ms=0)
    await stack.stop()


async def test_an_older_epoch_is_no_role() -> None:
    stack = await Stack().start()
    await stack.topic()
    place = stack.partitions.leader("t", 0)
    place.become(Leading(5, (HERE,)))
    with pytest.raises(FencedLeaderEpoch):
        place.become(Following(4, THERE))
    assert place.role == Leading(5, (HERE,))
    await stack.stop()


async def test_a_leader_that_wrote_nothing_in_its_epoch_tells_a_follower_where_the_epoch_before_ended() -> None:
    stack = await Stack().start()
    await stack.topic()
    await assign(stack, led_by(HERE, 5))
    await stack.write(b"a", b"b")
    await assign(stack, led_by(HERE, 7))
    assert stack.queries.epoch_end("t", 0, 6) == (5, 2), "a follower wrote in 6 what nobody here knows"
    assert stack.queries.epoch_end("t", 0, 7) == (7, 2)
    assert stack.queries.epoch_end("t", 0, 8) == (-1, -1)
    await stack.stop()


async def test_after_a_power_cut_every_reader_learns_where_its_epoch_ended_before_anything_is_written() -> None:
    files = MemoryFiles()
    stack = await Stack(files).start()
    await stack.topic()
    await stack.write(b"safe")
    stack.publish.append("t", 0, stack.batch(b"lost"), acks=Acks.LEADER)
    again = await Stack(files.crash(Survival.NOTHING)).start()
    assert again.queries.epoch_end("t", 0, 0) == (0, 1)
    assert again.queries.epoch_end("t", 0, 1) == (1, 1)
    await again.stop()


async def test_listeners_hear_of_every_role_open_or_not() -> None:
    stack = await Stack().start()
    await stack.topic(partitions=2)
    heard: list[tuple[TopicPartition, object]] = []
    stack.partitions.on_role(lambda place, role: heard.append((place, role)))
    await assign(stack, led_by(THERE, 1, HERE, THERE), partition=1)
    await assign(stack, led_by(HERE, 2), partition=1)
    await assign(stack, led_by(THERE, 3), partition=1)
    place = TopicPartition("t", 1)
    assert heard == [(place, Following(1, THERE)), (place, Leading(2, (HERE,))), (place, None)]
    assert stack.partitions.all_open() == []
    await stack.stop()


async def test_leadership_that_comes_back_finds_all_that_was_written() -> None:
    stack = await Stack().start()
    await stack.topic()
    await stack.write(b"a")
    await assign(stack, led_by(THERE, 1))
    await assign(stack, led_by(HERE, 2, HERE))
    await stack.write(b"b")
    assert [record.value for record in await stack.read_all()] == [b"a", b"b"]
    assert stack.queries.epoch_end("t", 0, 1) == (0, 1)
    await stack.stop()
