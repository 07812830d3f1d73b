"""What a share consumer is sent of large batches: the stretch it acquired, and hardly more."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from tests.unit.servers.kafka.share_client import ACCEPT, BATCH_OPTIMIZED, RELEASE, ShareClient, acquired, values
from tests.unit.servers.kafka.test_share import simulated

from goqueue.broker.topics import NewTopic
from goqueue.codec.batch_decode import decode_records
from goqueue.codec.batch_encode import encode_batch
from goqueue.codec.compression import Codec
from goqueue.delivery.reading import acquired_batches as stretches
from goqueue.log.partition_log import PartitionLog
from goqueue.records import Acks, NewRecord, Record, TopicPartition
from goqueue.servers.services import Services

from .conftest import Call

COUNT = 1_000


def _value(number: int) -> bytes:
    return b"%04d" % number + bytes(number % 90)


async def _publish(services: Services, first: int = 0, count: int = COUNT, **more: Any) -> int:
    """One batch; returns its size."""
    records = [NewRecord(None, _value(one)) for one in range(first, first + count)]
    batch = encode_batch(records, now_ms=services.clock.now_ms(), **more)
    pending = services.publish.append("jobs", 0, batch, acks=Acks.ALL)
    if pending.durable is not None:
        await pending.durable
    return len(batch)


def _sent(reply: dict[str, Any]) -> list[list[Record]]:
    """All records of an answer by batches, whether acquired or not."""
    (row,) = [row for topic in reply["responses"] for row in topic["partitions"]]
    data, found = memoryview(row["records"]), []
    while data:
        size = int.from_bytes(data[8:12], "big") + 12
        found.append(decode_records(data[:size]))
        data = data[size:]
    return found


def _offsets(reply: dict[str, Any]) -> list[list[int]]:
    return [[record.offset for record in batch] for batch in _sent(reply)]


@simulated
async def test_of_a_large_batch_each_poll_is_sent_its_own_stretch(client: ShareClient, services: Services) -> None:
    await _publish(services)

    for first in range(0, COUNT, 100):
        reply = await client.fetch(max_records=100)
        assert acquired(reply) == [(first, first + 99, 1)]
        assert _offsets(reply) == [list(range(first, first + 100))]
        assert values(reply) == [_value(one) for one in range(first, first + 100)]
        await client.acknowledge({0: [(first, first + 99, [ACCEPT])]})
    assert acquired(await client.fetch()) == []


@simulated
async def test_a_stretch_goes_on_in_the_next_batch(client: ShareClient, services: Services) -> None:
    await _publish(services, 0, 150)
    await _publish(services, 150, 150)

    first = await client.fetch(max_records=100)
    second = await client.fetch(max_records=100)

    assert _offsets(first) == [list(range(100))]
    assert _offsets(second) == [list(range(100, 150)), list(range(150, 200))]
    assert values(second) == [_value(one) for one in range(100, 200)]


@simulated
async def test_scattered_messages_of_one_batch_come_in_one_stretch(client: ShareClient, services: Services) -> None:
    await _publish(services)
    await client.fetch(max_records=100)
    kinds = [RELEASE if one in {3, 40} else ACCEPT for one in range(100)]
    await client.acknowledge({0: [(0, 99, kinds)]})

    again = await client.fetch(max_records=2)
    fresh = await client.fetch(max_records=100)

    assert (acquired(again), _offsets(again)) == ([(3, 3, 2), (40, 40, 2)], [list(range(3, 41))])
    assert values(again) == [_value(3), _value(40)]
    assert (acquired(fresh), _offsets(fresh)) == ([(100, 199, 1)], [list(range(100, 200))])


@simulated
async def test_two_groups_stand_in_different_places(client: ShareClient, call: Call, services: Services) -> None:
    await _publish(services)
    other = ShareClient(call, client.topic_id, group="other", member_id="o")

    for first in range(0, 400, 100):
        assert _offsets(await client.fetch(max_records=100)) == [list(range(first, first + 100))]
        half = first // 2
        assert _offsets(await other.fetch(max_records=50)) == [list(range(half, half + 50))]


@simulated
async def test_nearly_all_of_a_batch_and_what_is_packed_goes_whole(client: ShareClient, services: Services) -> None:
    await _publish(services, 0, 100)
    await _publish(services, 100, 100, codec=Codec.GZIP)

    most = await client.fetch(max_records=90)
    rest = await client.fetch(max_records=60)

    assert _offsets(most) == [list(range(100))]
    assert _offsets(rest) == [list(range(90, 100)), list(range(100, 200))]
    assert (acquired(rest), values(rest)) == ([(90, 149, 1)], [_value(one) for one in range(90, 150)])


@simulated
async def test_what_is_sent_is_what_is_counted(client: ShareClient, services: Services) -> None:
    size = await _publish(services)
    traffic = services.delivery.acquired_reads._partitions.traffic.of("jobs")

    reply = await client.fetch(max_records=100)

    (row,) = reply["responses"][0]["partitions"]
    assert (traffic.messages_out, traffic.bytes_out) == (100, len(row["records"]))
    assert traffic.bytes_out < size / 5


@simulated
async def test_a_batch_is_read_from_the_log_once(client: ShareClient, services: Services) -> None:
    await _publish(services)
    with patch.object(PartitionLog, "read_batches", autospec=True, side_effect=PartitionLog.read_batches) as reads:
        for _ in range(5):
            await client.fetch(max_records=100)

    assert [call.args[1] for call in reads.call_args_list] == [0]


@simulated
async def test_what_was_deleted_meanwhile_is_settled_and_what_is_left_is_sent(
    client: ShareClient, services: Services
) -> None:
    await _publish(services)
    await client.fetch(max_records=100)
    await _publish(services, COUNT, 10)
    await services.queries.delete_records("jobs", 0, COUNT - 50)

    reply = await client.fetch(max_records=100)
    rest = await client.fetch(max_records=100)

    assert values(reply) + values(rest) == [_value(one) for one in range(COUNT - 50, COUNT + 10)]
    await client.acknowledge({0: [(0, COUNT + 9, [ACCEPT])]})
    at = TopicPartition("jobs", 0)
    assert await services.delivery.positions.committed("g", [at]) == {at: COUNT + 10}


@simulated
async def test_a_topic_made_anew_has_nothing_of_the_old_one(
    client: ShareClient, call: Call, services: Services
) -> None:
    await _publish(services)
    await client.fetch(max_records=100)
    await services.topics.delete("jobs")
    topic = await services.topics.create(NewTopic("jobs", partitions=1))
    await _publish(services, 5_000)

    reply = await ShareClient(call, topic.topic_id, member_id="n").fetch(max_records=100)

    assert values(reply) == [_value(one) for one in range(5_000, 5_100)]


@simulated
async def test_no_more_is_kept_than_there_is_room_for(client: ShareClient, call: Call, services: Services) -> None:
    await _publish(services)
    kept = services.delivery.acquired_reads
    for number in range(400):
        other = ShareClient(call, client.topic_id, group=f"g{number}", member_id="m")
        assert len(values(await other.fetch(max_records=10))) == 10

    assert kept._kept_bytes == sum(len(one.data) for one in kept._kept.values()) <= stretches._KEPT_BYTES_MAX
    assert 0 < len(kept._kept) < 400


# --- whole batches ---------------------------------------------------------------------


@simulated
async def test_a_batch_is_given_whole_though_a_poll_asks_for_fewer_as_in_kafka(
    client: ShareClient, services: Services
) -> None:
    for first in range(0, 90, 30):
        await _publish_run(services, first, 30)

    within_one = await client.fetch(max_records=10, share_acquire_mode=BATCH_OPTIMIZED)
    over_two = await client.fetch(max_records=31, share_acquire_mode=BATCH_OPTIMIZED)

    assert acquired(within_one) == [(0, 29, 1)]
    assert acquired(over_two) == [(30, 89, 1)]
    assert values(over_two) == [b"%d" % one for one in range(30, 90)]


@simulated
async def test_version_1_has_no_mode_and_gets_whole_batches(client: ShareClient, services: Services) -> None:
    client.version = 1
    await _publish_run(services, 0, 30)

    assert acquired(await client.fetch(max_records=1)) == [(0, 29, 1)]


@simulated
async def test_no_consumer_gets_more_than_it_may_hold(client: ShareClient, call: Call, services: Services) -> None:
    await _publish_run(services, 0, 1_500)
    other = ShareClient(call, client.topic_id, member_id="other")

    mine = await client.fetch(max_records=10, share_acquire_mode=BATCH_OPTIMIZED)
    rest = await other.fetch(max_records=10, share_acquire_mode=BATCH_OPTIMIZED)

    assert (acquired(mine), acquired(rest)) == ([(0, 999, 1)], [(1_000, 1_499, 1)])
    assert values(rest) == [b"%d" % one for one in range(1_000, 1_500)]


@simulated
async def test_a_consumer_may_ask_for_more_than_one_receive_gives(client: ShareClient, services: Services) -> None:
    await _publish_run(services, 0, 30)

    assert acquired(await client.fetch(max_records=5_000)) == [(0, 29, 1)]


@simulated
async def test_what_was_released_comes_with_the_rest_of_its_batch(client: ShareClient, services: Services) -> None:
    await _publish_run(services, 0, 30)
    await client.fetch(max_records=10)
    await client.acknowledge({0: [(0, 9, [RELEASE, *[ACCEPT] * 9])]})

    again = await client.fetch(max_records=2, share_acquire_mode=BATCH_OPTIMIZED)

    assert acquired(again) == [(0, 0, 2), (10, 29, 1)]
    assert values(again) == [b"0", *(b"%d" % one for one in range(10, 30))]


async def _publish_run(services: Services, first: int, count: int) -> None:
    """One batch of numbers."""
    records = [NewRecord(None, b"%d" % one) for one in range(first, first + count)]
    pending = services.publish.append("jobs", 0, encode_batch(records, now_ms=services.clock.now_ms()), acks=Acks.ALL)
    if pending.durable is not None:
        await pending.durable
