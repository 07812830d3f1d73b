"""Produce: batches are checked, stored in order, and answered as Kafka answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.codec.kafka.kio_values import request_frame

from goqueue.broker.arrivals.publish import Pending
from goqueue.errors import LogPoisoned, MalformedRequest
from goqueue.servers.kafka.connections.peer import Peer
from goqueue.servers.kafka.dispatch import Dispatcher, Later
from goqueue.servers.services import Services

from .batches import batch, records_of
from .conftest import Call

PRODUCE, FETCH = 0, 1
VERSIONS = range(3, 14)


@pytest.fixture
async def topic(call: Call) -> str:
    await call(19, 7, topics=[{"name": "t", "num_partitions": 2, "replication_factor": 1}])
    return "t"


def produce_fields(data: bytes | None, *, partition: int = 0, topic: str = "t", acks: int = 1, **more: Any) -> Any:
    return {
        "acks": acks,
        "timeout": 1000,
        "topic_data": [{"name": topic, "partition_data": [{"index": partition, "records": data}]}],
        **more,
    }


async def produce(call: Call, data: bytes | None, version: int = 9, **more: Any) -> dict[str, Any]:
    reply = await call(PRODUCE, version, **produce_fields(data, **more))
    (topic,) = reply["responses"]
    (row,) = topic["partition_responses"]
    return row


async def read_back(call: Call, partition: int = 0) -> list[Any]:
    reply = await call(
        FETCH,
        12,
        max_bytes=1_000_000,
        topics=[{"topic": "t", "partitions": [{"partition": partition, "partition_max_bytes": 1_000_000}]}],
    )
    return records_of(reply["responses"][0]["partitions"][0]["records"])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("acks", [1, -1])
async def test_a_batch_gets_the_next_offsets(
    call: Call, topic: str, services: Services, version: int, acks: int
) -> None:
    name = {"name": "t"} if version < 13 else {"topic_id": services.topics.get("t").topic_id}
    for base in (0, 2):
        reply = await call(
            PRODUCE,
            version,
            acks=acks,
            timeout=1000,
            topic_data=[{**name, "partition_data": [{"index": 1, "records": batch(b"a", b"b")}]}],
        )
        row = reply["responses"][0]["partition_responses"][0]
        assert (row["index"], row["error_code"], row["base_offset"]) == (1, 0, base)
        assert row["log_append_time"] == -1
        if version >= 5:
            assert row["log_start_offset"] == 0
    assert [record.offset for record in await read_back(call, 1)] == [0, 1, 2, 3]


async def test_without_acks_nothing_is_answered_and_everything_is_stored(
    call: Call, topic: str, services: Services
) -> None:
    dispatcher = Dispatcher(services)
    # The first batch waits until the partition has its first segment; the batches behind it are written at once.
    first = dispatcher.take(request_frame(PRODUCE, 9, produce_fields(batch(b"a"), acks=0)), Peer("h"))
    assert isinstance(first, Later)
    assert await first.frame is None
    frame = request_frame(PRODUCE, 9, produce_fields(batch(b"b"), acks=0))
    assert dispatcher.take(frame, Peer("h")) is None
    assert [record.value for record in await read_back(call)] == [b"a", b"b"]


async def test_without_acks_an_error_closes_the_connection(call: Call, topic: str, services: Services) -> None:
    frame = request_frame(PRODUCE, 9, produce_fields(batch(b"a"), acks=0, partition=9))
    with pytest.raises(MalformedRequest, match="no partition 9"):
        Dispatcher(services).take(frame, Peer("h"))


async def test_batches_are_written_before_the_next_request_is_looked_at(
    call: Call, topic: str, services: Services
) -> None:
    dispatcher = Dispatcher(services)
    waiting = [
        dispatcher.take(request_frame(PRODUCE, 9, produce_fields(batch(value), acks=-1)), Peer("h"))
        for value in (b"1", b"2")
    ]
    assert [record.value for record in await read_back(call)] == [b"1", b"2"]
    for one in waiting:
        assert isinstance(one, Later)
    await asyncio.gather(*(one.frame for one in waiting if isinstance(one, Later)))


async def test_a_batch_that_does_not_reach_the_disk_in_time_is_said_so(
    call: Call, topic: str, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = services.publish.append
    never: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def append_slowly(*arguments: Any, **more: Any) -> Pending:
        return Pending(append(*arguments, **more).appended, never)

    monkeypatch.setattr(type(services.publish), "append", lambda _, *args, **more: append_slowly(*args, **more))
    row = await produce(call, batch(b"a"), acks=-1, timeout=10)
    assert (row["error_code"], row["base_offset"]) == (7, -1)


async def test_a_batch_that_the_disk_refuses_is_not_acknowledged(
    call: Call, topic: str, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = services.publish.append

    async def refused() -> None:
        raise LogPoisoned("t-0", "EIO")

    def append_badly(*arguments: Any, **more: Any) -> Pending:
        return Pending(append(*arguments, **more).appended, refused())

    monkeypatch.setattr(type(services.publish), "append", lambda _, *args, **more: append_badly(*args, **more))
    row = await produce(call, batch(b"a"), acks=-1)
    assert (row["error_code"], row["base_offset"]) == (56, -1)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"topic": "nope"}, 3),
        ({"partition": 2}, 3),
        ({"partition": -1}, 3),
        ({"acks": 2}, 21),
        ({"topic": "__consumer_offsets"}, 3),
    ],
)
async def test_what_cannot_be_written_is_refused_by_number(
    call: Call, topic: str, change: dict[str, Any], code: int
) -> None:
    row = await produce(call, batch(b"a"), **change)
    assert (row["error_code"], row["base_offset"]) == (code, -1)
    assert row["error_message"]
    assert await read_back(call) == []


async def test_a_client_may_not_write_to_an_internal_topic(call: Call, services: Services) -> None:
    await services.topics.ensure_internal("__consumer_offsets", 1, {})
    assert (await produce(call, batch(b"a"), topic="__consumer_offsets"))["error_code"] == 17


def spoilt(data: bytes, position: int, value: int) -> bytes:
    return data[:position] + bytes([value]) + data[position + 1 :]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (None, 87),
        (b"", 87),
        (b"x", 2),
        (spoilt(batch(b"a"), 65, 77), 2),
        (batch(b"a")[:-1], 2),
        (spoilt(batch(b"a"), 16, 1), 43),
        (spoilt(batch(b"a"), 16, 0), 43),
        (batch(b"a" * 2_000_000), 10),
    ],
)
async def test_a_bad_batch_is_refused_by_number(call: Call, data: bytes | None, code: int) -> None:
    config = [{"name": "max.message.bytes", "value": "1000000"}]
    await call(19, 7, topics=[{"name": "t", "num_partitions": 1, "replication_factor": 1, "configs": config}])
    assert (await produce(call, data))["error_code"] == code


async def test_two_batches_for_one_partition_are_refused(call: Call, topic: str) -> None:
    row = await produce(call, batch(b"a") + batch(b"b"))
    assert row["error_code"] in {2, 87}
    assert await read_back(call) == []


async def test_one_bad_partition_does_not_spoil_the_others(call: Call, topic: str) -> None:
    reply = await call(
        PRODUCE,
        9,
        acks=-1,
        timeout=1000,
        topic_data=[
            {
                "name": "t",
                "partition_data": [
                    {"index": 0, "records": batch(b"a")},
                    {"index": 7, "records": batch(b"a")},
                    {"index": 1, "records": batch(b"b")},
                ],
            }
        ],
    )
    codes = [row["error_code"] for row in reply["responses"][0]["partition_responses"]]
    assert codes == [0, 3, 0]


async def test_a_topic_that_stamps_its_records_says_when(call: Call, clock: Any) -> None:
    config = [{"name": "message.timestamp.type", "value": "LogAppendTime"}]
    await call(19, 7, topics=[{"name": "t", "num_partitions": 1, "replication_factor": 1, "configs": config}])
    row = await produce(call, batch(b"a"))
    # kio reads whole seconds only, so the exact millisecond is checked on the record.
    assert row["log_append_time"] // 1000 == clock.now_ms() // 1000
    assert [record.timestamp_ms for record in await read_back(call)] == [clock.now_ms()]


async def test_a_transaction_is_refused_while_there_are_none(call: Call, topic: str) -> None:
    data = batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    assert (await produce(call, data, transactional_id="tx"))["error_code"] == 48


async def test_a_retried_batch_is_answered_with_its_first_offset_and_stored_once(call: Call, topic: str) -> None:
    """The retry of a stored batch is no new batch, and its offset is the true one."""
    reply = await call(22, 4, transaction_timeout=1000)
    data = batch(b"a", b"b", producer_id=reply["producer_id"], producer_epoch=0, base_sequence=0)
    await produce(call, batch(b"other"))
    assert (await produce(call, data))["base_offset"] == 1
    await produce(call, batch(b"other"))
    row = await produce(call, data)
    assert (row["error_code"], row["base_offset"]) == (0, 1)
    assert len(await read_back(call)) == 4
