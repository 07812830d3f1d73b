"""Fetch and ListOffsets: the right bytes from the right place, now or later."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest
from tests.unit.codec.kafka.kio_values import read_response, request_frame

from goqueue.servers.kafka.connections.peer import Peer
from goqueue.servers.kafka.dispatch import Dispatcher, Later
from goqueue.servers.services import Services

from .batches import batch, records_of
from .conftest import Call
from .test_produce import produce

FETCH, LIST_OFFSETS = 1, 2
BASE_MS = 1_700_000_000_000


@pytest.fixture(autouse=True)
async def topic(call: Call) -> str:
    await call(19, 7, topics=[{"name": "t", "num_partitions": 2, "replication_factor": 1}])
    return "t"


def fetch_fields(*offsets: int, version: int = 12, topic_id: UUID | None = None, **more: Any) -> dict[str, Any]:
    """A fetch of partitions 0, 1, ... from these offsets."""
    name = {"topic": "t"} if version < 13 else {"topic_id": topic_id}
    partitions = [
        {"partition": at, "fetch_offset": offset, "partition_max_bytes": 1_000_000} for at, offset in enumerate(offsets)
    ]
    return {"max_bytes": 1_000_000, "min_bytes": 1, "topics": [{**name, "partitions": partitions}], **more}


async def fetch(call: Call, *offsets: int, **more: Any) -> list[dict[str, Any]]:
    reply = await call(FETCH, 12, **fetch_fields(*offsets, **more))
    assert reply["error_code"] == 0
    return list(reply["responses"][0]["partitions"])


@pytest.mark.parametrize("version", range(4, 19))
async def test_stored_batches_come_back_in_every_version(call: Call, services: Services, version: int) -> None:
    await produce(call, batch(b"a", b"b"))
    await produce(call, batch(b"c"))
    reply = await call(
        FETCH, version, **fetch_fields(0, 0, version=version, topic_id=services.topics.get("t").topic_id)
    )
    (answer,) = reply["responses"]
    full, empty = answer["partitions"]
    assert [(one.offset, one.value) for one in records_of(full["records"])] == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert (full["error_code"], full["high_watermark"], full["last_stable_offset"]) == (0, 3, 3)
    assert (empty["error_code"], empty["high_watermark"], empty["records"]) == (0, 0, b"")
    assert reply.get("session_id", 0) == 0


async def test_a_fetch_from_the_middle_of_a_batch_gets_the_whole_batch(call: Call) -> None:
    await produce(call, batch(b"a", b"b", b"c"))
    (row,) = await fetch(call, 2)
    assert [one.offset for one in records_of(row["records"])] == [0, 1, 2]


@pytest.mark.parametrize("offset", [4, -1, 2**40])
async def test_an_offset_outside_the_log_is_refused_by_number(call: Call, offset: int) -> None:
    await produce(call, batch(b"a", b"b", b"c"))
    (row,) = await fetch(call, offset, max_wait=10_000)
    assert (row["error_code"], row["records"]) == (1, b"")


async def test_a_partition_that_is_not_there_does_not_hide_the_others(call: Call) -> None:
    await produce(call, batch(b"a"))
    first, second, third = await fetch(call, 0, 0, 0, max_wait=10_000)
    assert (first["error_code"], second["error_code"], third["error_code"]) == (0, 0, 3)
    assert records_of(first["records"])


async def test_an_unknown_topic_id_is_answered_beside_the_known(call: Call, services: Services) -> None:
    await produce(call, batch(b"a"))
    known = fetch_fields(0, version=15, topic_id=services.topics.get("t").topic_id)["topics"]
    unknown = fetch_fields(0, version=15, topic_id=UUID(int=7))["topics"]
    reply = await call(FETCH, 15, max_bytes=1_000_000, min_bytes=1, max_wait=10_000, topics=unknown + known)
    first, second = reply["responses"]
    assert first["partitions"][0]["error_code"] == 100
    assert first["topic_id"] == UUID(int=7)
    assert records_of(second["partitions"][0]["records"])


@pytest.mark.parametrize(("session_id", "epoch", "code"), [(5, 1, 70), (0, 1, 70), (5, -1, 0), (0, -1, 0)])
async def test_a_session_that_is_not_there_is_refused_by_number(
    call: Call, session_id: int, epoch: int, code: int
) -> None:
    await produce(call, batch(b"a"))
    reply = await call(FETCH, 12, **fetch_fields(0, session_id=session_id, session_epoch=epoch))
    assert (reply["error_code"], reply["session_id"]) == (code, 0)
    assert bool(reply["responses"]) == (code == 0)


@pytest.mark.parametrize(("epoch", "code"), [(-1, 0), (0, 0), (1, 75)])
async def test_a_reader_with_another_leader_epoch_is_told(call: Call, epoch: int, code: int) -> None:
    fields = fetch_fields(0)
    fields["topics"][0]["partitions"][0]["current_leader_epoch"] = epoch
    reply = await call(FETCH, 12, **fields)
    assert reply["responses"][0]["partitions"][0]["error_code"] == code


async def test_at_most_max_bytes_come_but_always_one_batch(call: Call) -> None:
    for _ in range(5):
        await produce(call, batch(b"x" * 1000))
    (row,) = await fetch(call, 0, max_bytes=2500)
    assert len(records_of(row["records"])) == 2
    (row,) = await fetch(call, 0, max_bytes=1)
    assert len(records_of(row["records"])) == 1


async def test_a_long_poll_ends_when_enough_has_come(call: Call, services: Services) -> None:
    dispatcher = Dispatcher(services)
    frame = request_frame(FETCH, 12, fetch_fields(0, max_wait=60_000, min_bytes=200))
    answered = dispatcher.take(frame, Peer("h"))
    assert isinstance(answered, Later)
    waiting = asyncio.create_task(answered.frame)
    await produce(call, batch(b"x" * 20))
    await asyncio.sleep(0)
    assert not waiting.done()
    await produce(call, batch(b"x" * 200))
    reply = read_response(FETCH, 12, b"".join(await waiting or ())[4:])
    assert len(records_of(reply["responses"][0]["partitions"][0]["records"])) == 2


async def test_a_long_poll_may_end_with_its_client(call: Call, services: Services) -> None:
    answered = Dispatcher(services).take(request_frame(FETCH, 12, fetch_fields(0, max_wait=60_000)), Peer("h"))
    assert isinstance(answered, Later)
    assert answered.ends_with_client
    waiting = asyncio.create_task(answered.frame)
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (await produce(call, batch(b"a")))["base_offset"] == 0


async def test_a_long_poll_ends_when_its_time_is_up(call: Call) -> None:
    (row,) = await fetch(call, 0, max_wait=20)
    assert (row["error_code"], row["records"]) == (0, b"")


async def list_offset(call: Call, timestamp: int, version: int = 7, partition: int = 0, **more: Any) -> Any:
    reply = await call(
        LIST_OFFSETS,
        version,
        replica_id=-1,
        topics=[{"name": "t", "partitions": [{"partition_index": partition, "timestamp": timestamp, **more}]}],
    )
    return reply["topics"][0]["partitions"][0]


@pytest.mark.parametrize(
    ("timestamp", "offset", "found_ms"),
    [
        (-1, 3, -1),
        (-2, 0, -1),
        (-3, 2, BASE_MS + 200),
        (0, 0, BASE_MS),
        (BASE_MS + 1, 1, BASE_MS + 100),
        (BASE_MS + 200, 2, BASE_MS + 200),
        (BASE_MS + 201, -1, -1),
    ],
)
async def test_an_offset_is_found_by_time(call: Call, timestamp: int, offset: int, found_ms: int) -> None:
    for at in range(3):
        await produce(call, batch(b"x", now_ms=BASE_MS + 100 * at))
    row = await list_offset(call, timestamp)
    assert (row["error_code"], row["offset"], row["timestamp"]) == (0, offset, found_ms)


@pytest.mark.parametrize("version", range(1, 12))
async def test_every_version_lists_the_ends(call: Call, version: int) -> None:
    await produce(call, batch(b"a", b"b"))
    assert (await list_offset(call, -2, version))["offset"] == 0
    assert (await list_offset(call, -1, version))["offset"] == 2


async def test_an_empty_partition_has_no_largest_timestamp(call: Call) -> None:
    row = await list_offset(call, -3)
    assert (row["error_code"], row["offset"]) == (0, -1)


@pytest.mark.parametrize(
    ("timestamp", "version", "code"), [(-3, 6, 35), (-4, 7, 35), (-4, 8, 0), (-5, 9, 0), (-7, 11, 42)]
)
async def test_special_points_are_known_from_their_version_on(
    call: Call, timestamp: int, version: int, code: int
) -> None:
    assert (await list_offset(call, timestamp, version))["error_code"] == code


@pytest.mark.parametrize("point", [-5, -6])
async def test_a_point_of_another_tier_is_nowhere(call: Call, point: int) -> None:
    await produce(call, batch(b"a"))
    row = await list_offset(call, point, 11)
    assert (row["error_code"], row["offset"], row["timestamp"]) == (0, -1, -1)


async def test_offsets_of_what_is_not_there_are_refused_by_number(call: Call) -> None:
    assert (await list_offset(call, -1, partition=5))["error_code"] == 3
    assert (await list_offset(call, -1, current_leader_epoch=9))["error_code"] == 75


async def test_a_disk_that_fails_is_a_failure_of_storage(
    call: Call, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(type(services.queries), "list_offset", fail)
    assert (await list_offset(call, 0))["error_code"] == 56


@pytest.mark.parametrize("version", [2, 3, 4])
async def test_the_end_of_a_leaders_time_is_told(call: Call, version: int) -> None:
    await produce(call, batch(b"a", b"b"))
    reply = await call(
        23, version, topics=[{"topic": "t", "partitions": [{"partition": 0, "leader_epoch": 0}, {"partition": 9}]}]
    )
    known, unknown = reply["topics"][0]["partitions"]
    assert (known["error_code"], known["leader_epoch"], known["end_offset"]) == (0, 0, 2)
    assert unknown["error_code"] == 3
