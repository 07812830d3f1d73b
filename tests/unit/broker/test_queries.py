"""Questions about partitions."""

from __future__ import annotations

import pytest
from tests.unit.broker.stack import Stack, values_in

from goqueue.broker.reading.queries import EARLIEST, EARLIEST_LOCAL, HIGH_WATERMARK, LATEST, MAX_TIMESTAMP
from goqueue.codec.batch_encode import encode_batch
from goqueue.errors import (
    FencedLeaderEpoch,
    InternalTopic,
    InvalidRequest,
    NotLeader,
    OffsetOutOfRange,
    PartitionNotFound,
    UnknownLeaderEpoch,
)
from goqueue.metadata.events import Assignment, AssignmentsChanged
from goqueue.records import Acks, Isolation, NewRecord
from goqueue.testing.disk import Survival
from goqueue.testing.memory_files import MemoryFiles


def write_at(stack: Stack, *timestamps_ms: int, partition: int = 0, **producer: int) -> None:
    batch = encode_batch(
        [NewRecord(None, b"v", (), at) for at in timestamps_ms],
        now_ms=0,
        transactional="producer_id" in producer,
        **producer,
    )
    stack.publish.append("t", partition, batch, acks=Acks.LEADER)


async def test_the_ends_of_a_log() -> None:
    stack = Stack()
    await stack.topic()
    for spec in (EARLIEST, EARLIEST_LOCAL, LATEST):
        found = stack.queries.list_offset("t", 0, spec)
        assert found is not None
        assert (found.offset, found.timestamp_ms) == (0, -1)
    write_at(stack, 1, 2, 3)
    latest = stack.queries.list_offset("t", 0, LATEST)
    assert latest is not None
    assert (latest.offset, latest.leader_epoch) == (3, 0)
    offsets = stack.queries.offsets("t", 0)
    assert (offsets.log_start_offset, offsets.high_watermark, offsets.end_offset) == (0, 3, 3)


async def test_the_first_record_not_before_a_time() -> None:
    stack = Stack()
    await stack.topic()
    write_at(stack, 100, 200)
    write_at(stack, 300)
    assert stack.queries.list_offset("t", 0, 0).offset == 0  # type: ignore[union-attr]
    assert stack.queries.list_offset("t", 0, 150)[:2] == (1, 200)  # type: ignore[index]
    assert stack.queries.list_offset("t", 0, 300)[:2] == (2, 300)  # type: ignore[index]
    assert stack.queries.list_offset("t", 0, 301) is None


async def test_the_record_with_the_largest_timestamp() -> None:
    stack = Stack()
    await stack.topic()
    assert stack.queries.list_offset("t", 0, MAX_TIMESTAMP) is None
    write_at(stack, 100, 900)
    write_at(stack, 300)
    assert stack.queries.list_offset("t", 0, MAX_TIMESTAMP)[:2] == (1, 900)  # type: ignore[index]


async def test_latest_depends_on_what_the_reader_may_see() -> None:
    stack = Stack(transactions=True)
    await stack.topic()
    write_at(stack, 1)
    write_at(stack, 2, producer_id=5, producer_epoch=0, base_sequence=0)
    assert stack.queries.list_offset("t", 0, LATEST).offset == 2  # type: ignore[union-attr]
    assert stack.queries.list_offset("t", 0, LATEST, Isolation.READ_COMMITTED).offset == 1  # type: ignore[union-attr]
    assert stack.queries.list_offset("t", 0, 2, Isolation.READ_COMMITTED) is None
    assert stack.queries.offsets("t", 0).last_stable_offset == 1


async def test_questions_that_mean_nothing_are_refused() -> None:
    stack = Stack()
    await stack.topic()
    with pytest.raises(InvalidRequest):
        stack.queries.list_offset("t", 0, -9)
    with pytest.raises(PartitionNotFound):
        stack.queries.list_offset("t", 1, LATEST)
    with pytest.raises(UnknownLeaderEpoch):
        stack.queries.list_offset("t", 0, LATEST, leader_epoch=1)
    stack.partitions.leader("t", 0).leader_epoch = 2
    with pytest.raises(FencedLeaderEpoch):
        stack.queries.epoch_end("t", 0, 0, leader_epoch=1)


async def test_records_are_deleted_below_an_offset_for_good() -> None:
    files = MemoryFiles()
    stack = Stack(files)
    await stack.topic()
    for number in range(5):
        await stack.write(b"%d" % number)
    assert await stack.queries.delete_records("t", 0, 3) == 3
    assert await stack.queries.delete_records("t", 0, 1) == 3
    assert stack.queries.list_offset("t", 0, EARLIEST).offset == 3  # type: ignore[union-attr]
    assert isinstance((await stack.read(2)).error, OffsetOutOfRange)
    assert values_in(await stack.read(3)) == [b"3", b"4"]
    again = Stack(files.crash(Survival.NOTHING))
    assert again.queries.offsets("t", 0).log_start_offset == 3
    assert await again.queries.delete_records("t", 0, HIGH_WATERMARK) == 5
    assert values_in(await again.read(5)) == []


@pytest.mark.parametrize("offset", [6, -2])
async def test_deleting_beyond_the_log_is_refused(offset: int) -> None:
    stack = Stack()
    await stack.topic()
    await stack.write(b"a")
    with pytest.raises(OffsetOutOfRange):
        await stack.queries.delete_records("t", 0, offset)


async def test_records_are_deleted_only_where_that_is_the_topics_way() -> None:
    stack = Stack()
    await stack.topic("t", cleanup_policy="compact")
    with pytest.raises(InvalidRequest, match="compacted"):
        await stack.queries.delete_records("t", 0, 0)
    await stack.topics.ensure_internal("__own", 1, {})
    with pytest.raises(InternalTopic):
        await stack.queries.delete_records("__own", 0, 0)


async def test_the_end_of_a_leader_epoch() -> None:
    stack = Stack()
    await stack.topic()
    await stack.write(b"a")
    assert stack.queries.epoch_end("t", 0, 0) == (0, 1)


async def test_producers_are_shown() -> None:
    stack = Stack(transactions=True)
    await stack.topic()
    write_at(stack, 1, producer_id=5, producer_epoch=2, base_sequence=0)
    (producer,) = stack.queries.producers("t", 0)
    assert (producer.producer_id, producer.epoch, producer.last_sequence) == (5, 2, 0)


async def test_sizes_are_known_without_opening_anything() -> None:
    files = MemoryFiles(capacity_bytes=100_000_000)
    stack = Stack(files)
    topic = await stack.topic("t", 2)
    await stack.write(bytes(1000), partition=1)
    await stack.stop()
    again = Stack(files)
    (directory,) = again.queries.log_dirs()
    assert again.partitions.all_open() == []
    assert directory.path == "data"
    assert [(one.topic, one.partition, one.topic_id) for one in directory.partitions] == [
        ("t", 0, topic.topic_id),
        ("t", 1, topic.topic_id),
    ]
    assert directory.partitions[0].size_bytes == 0
    assert 1000 < directory.partitions[1].size_bytes < 3000
    assert directory.total_bytes == directory.usable_bytes + directory.partitions[1].size_bytes
    again.partitions.leader("t", 1)
    assert 1000 < again.queries.size_bytes("t", 1) < 3000


async def test_who_read_what_a_power_cut_took_away_learns_where_its_epoch_ended() -> None:
    files = MemoryFiles()
    stack = Stack(files)
    await stack.topic()
    write_at(stack, 1, 2)
    await stack.flusher.flush()
    write_at(stack, 3, 4, 5)
    again = Stack(files.crash(Survival.NOTHING))

    # A reader at offset 5 knows epoch 0. It is told so before and after others got the offsets.
    assert again.queries.epoch_end("t", 0, 0, leader_epoch=1) == (0, 2)
    assert again.queries.epoch_end("t", 0, 1, leader_epoch=1) == (1, 2)
    assert again.queries.epoch_end("t", 0, 2, leader_epoch=1) == (-1, -1)
    write_at(again, 6, 7, 8, 9)
    assert again.queries.epoch_end("t", 0, 0, leader_epoch=1) == (0, 2)
    assert again.queries.epoch_end("t", 0, 1, leader_epoch=1) == (1, 6)
    with pytest.raises(FencedLeaderEpoch):
        again.queries.list_offset("t", 0, LATEST, leader_epoch=0)


async def test_a_node_tells_sizes_and_producers_of_its_own_replicas_alone() -> None:
    """Partition 0 is here, 1 is followed here, and 2 is on another node alone."""
    stack = await Stack(transactions=True).start()
    topic = await stack.topic("t", 3)
    write_at(stack, 1, producer_id=5, producer_epoch=2, base_sequence=0, partition=1)
    elsewhere = {
        1: Assignment(leader=2, leader_epoch=1, replicas=(1, 2), isr=(1, 2)),
        2: Assignment(leader=2, leader_epoch=1, replicas=(2,), isr=(2,)),
    }
    await stack.metadata.commit([AssignmentsChanged("t", topic.topic_id, elsewhere)])
    (directory,) = stack.queries.log_dirs()
    assert [one.partition for one in directory.partitions] == [0, 1]
    assert [one.producer_id for one in stack.queries.producers("t", 1)] == [5], "a follower is asked, too"
    with pytest.raises(NotLeader):
        stack.queries.producers("t", 2)
    await stack.stop()
