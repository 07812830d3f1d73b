"""Prepared transactions as bytes: open, stage, decide, and every refusal."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.unit.codec.kafka.kio_values import read_response, request_frame
from tests.unit.servers.kafka.private_wire import decide_request, decide_response, open_request, open_response

from goqueue.codec.batch_encode import encode_batch
from goqueue.coordinator.runtime import Coordinator
from goqueue.errors import CoordinatorUnavailable
from goqueue.records import Isolation, NewRecord, TopicPartition
from goqueue.servers.kafka.connections.peer import Peer
from goqueue.servers.kafka.dispatch import Dispatcher, Later
from goqueue.servers.services import Services

from .conftest import Call

PRODUCE, API_VERSIONS, CREATE_TOPICS = 0, 18, 19
INVALID_REQUEST, INVALID_STATE, FENCED, NOT_FOUND, UNAVAILABLE, UNKNOWN_TOPIC = 42, 48, 90, 105, 15, 3

Ask = Callable[[bytes], Awaitable[bytes]]


@pytest.fixture(autouse=True)
async def topics(call: Call) -> None:
    rows = [{"name": name, "num_partitions": 2, "replication_factor": 1} for name in ("a", "b")]
    await call(CREATE_TOPICS, 7, topics=rows, timeout=5000)


@pytest.fixture
def ask(services: Services) -> Ask:
    dispatcher = Dispatcher(services)

    async def send(frame: bytes) -> bytes:
        answered = dispatcher.take(frame, Peer("127.0.0.1"))
        if isinstance(answered, Later):
            answered = await answered.frame
        assert answered is not None
        return b"".join(answered)[4:]

    return send


async def open_participant(ask: Ask, epoch: int, task: str) -> dict[str, Any]:
    return open_response(await ask(open_request("w", epoch, task)))


async def decide(ask: Ask, epoch: int, *tasks: Any, commit: bool = True) -> dict[str, Any]:
    return decide_response(await ask(decide_request("w", epoch, tasks, commit=commit)))


def batch(producer: dict[str, Any], sequence: int, *values: bytes) -> bytes:
    return encode_batch(
        [NewRecord(None, value) for value in values],
        producer_id=producer["producer_id"],
        producer_epoch=producer["producer_epoch"],
        base_sequence=sequence,
        transactional=True,
        now_ms=1_700_000_000_000,
    )


def produce_frame(batches: dict[TopicPartition, bytes], acks: int = -1) -> bytes:
    data = [
        {"name": place.topic, "partition_data": [{"index": place.partition, "records": records}]}
        for place, records in batches.items()
    ]
    return request_frame(PRODUCE, 9, {"transactional_id": "w/1/t", "acks": acks, "timeout": 5000, "topic_data": data})


def codes(frame: bytes) -> list[int]:
    reply = read_response(PRODUCE, 9, frame)
    return [row["error_code"] for topic in reply["responses"] for row in topic["partition_responses"]]


async def stage(ask: Ask, producer: dict[str, Any], place: TopicPartition, sequence: int, *values: bytes) -> int:
    (code,) = codes(await ask(produce_frame({place: batch(producer, sequence, *values)})))
    return code


A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


async def seen(services: Services, place: TopicPartition) -> list[bytes | None]:
    read = (await services.reads.read({place: 0}, limit=99, max_bytes=99_999, isolation=Isolation.READ_COMMITTED))[
        place
    ]
    return [record.value for record in read.records]


async def until_seen(services: Services, place: TopicPartition, wanted: list[bytes]) -> None:
    deadline = time.monotonic() + 5
    while (found := await seen(services, place)) != wanted:
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.001)


async def test_staged_records_are_seen_once_the_epoch_is_committed(ask: Ask, services: Services) -> None:
    producers = [await open_participant(ask, 1, task) for task in ("0", "1", "1-again")]
    for at, producer in enumerate(producers):
        for place in (A0, B0):
            assert await stage(ask, producer, place, 0, b"%d" % at) == 0
    assert await seen(services, A0) == []
    assert await decide(ask, 1, "0", "1") == {
        "error_code": 0,
        "error_message": None,
        "already_decided": False,
        "committed": 2,
        "aborted": 1,
    }
    for place in (A0, B0):
        await until_seen(services, place, [b"0", b"1"])
    again = await decide(ask, 1, "0", "1")
    assert (again["error_code"], again["already_decided"], again["committed"]) == (0, True, 0)
    late = await open_participant(ask, 1, "late")
    assert (late["already_committed"], late["producer_id"]) == (True, -1)


async def test_requests_that_wait_for_their_partitions_are_written_in_the_order_sent(
    ask: Ask, services: Services
) -> None:
    producer = await open_participant(ask, 1, "0")
    frames = [
        {A0: batch(producer, 0, b"0"), B0: batch(producer, 0, b"0")},
        {A0: batch(producer, 1, b"1")},
        {A0: batch(producer, 2, b"2"), A1: batch(producer, 0, b"0")},
        {A1: batch(producer, 1, b"1")},
        {B0: batch(producer, 1, b"1"), A0: batch(producer, 3, b"3")},
    ]
    answers = await asyncio.gather(*(ask(produce_frame(frame)) for frame in frames))
    assert [codes(one) for one in answers] == [[0, 0], [0], [0, 0], [0], [0, 0]]
    await decide(ask, 1, "0")
    await until_seen(services, A0, [b"0", b"1", b"2", b"3"])
    await until_seen(services, A1, [b"0", b"1"])
    await until_seen(services, B0, [b"0", b"1"])


async def test_what_a_participant_may_no_longer_do_is_refused(ask: Ask) -> None:
    first = await open_participant(ask, 1, "0")
    assert await stage(ask, first, A0, 0, b"x") == 0
    second = await open_participant(ask, 1, "0")
    assert second["error_code"] == 0
    assert await stage(ask, first, A0, 1, b"y") == INVALID_STATE
    assert (await decide(ask, 1, ("0", first["producer_id"], 0)))["error_code"] == FENCED
    assert (await decide(ask, 1, ("0", second["producer_id"], 0)))["error_code"] == 0
    assert await stage(ask, second, A0, 0, b"z") == INVALID_STATE
    assert (await decide(ask, 1, commit=False))["error_code"] == INVALID_STATE


async def test_refusals_name_what_is_wrong(ask: Ask) -> None:
    assert (await open_participant(ask, -1, "0"))["error_code"] == INVALID_REQUEST
    refused = await decide(ask, 1, "never opened")
    assert refused["error_code"] == NOT_FOUND
    assert "w/1/never opened" in refused["error_message"]
    await decide(ask, 5)
    assert (await open_participant(ask, 4, "0"))["error_code"] == FENCED
    producer = await open_participant(ask, 6, "0")
    assert await stage(ask, producer, TopicPartition("nowhere", 0), 0, b"x") == UNKNOWN_TOPIC
    assert await stage(ask, producer, TopicPartition("a", 9), 0, b"x") == UNKNOWN_TOPIC
    assert await stage(ask, producer, A0, 0, b"x") == 0


async def test_a_partition_that_could_not_be_added_takes_no_batch_and_can_be_added_later(
    ask: Ask, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = await open_participant(ask, 1, "0")
    submit_to = Coordinator.submit_to

    def failing(self: Coordinator, partition: int, command: Any) -> Any:
        if type(command).__name__ == "AddPartitions":
            failed = asyncio.get_running_loop().create_future()
            failed.set_exception(CoordinatorUnavailable("the disk is away"))
            return failed
        return submit_to(self, partition, command)

    monkeypatch.setattr(Coordinator, "submit_to", failing)
    frames = [produce_frame({A0: batch(producer, 0, b"0")}), produce_frame({A0: batch(producer, 1, b"1")})]
    answers = await asyncio.gather(*map(ask, frames))
    assert [codes(one) for one in answers] == [[UNAVAILABLE], [UNAVAILABLE]]
    monkeypatch.undo()
    assert [codes(await ask(frame)) for frame in frames] == [[0], [0]]
    await decide(ask, 1, "0")
    await until_seen(services, A0, [b"0", b"1"])


async def test_our_own_apis_are_not_advertised(call: Call) -> None:
    reply = await call(API_VERSIONS, 3, client_software_name="test", client_software_version="1")
    assert max(row["api_key"] for row in reply["api_keys"]) < 10_000
