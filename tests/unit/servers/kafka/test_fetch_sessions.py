"""Incremental fetch sessions: only what changed is asked, and only what changed is answered."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.codec.kafka.kio_values import read_response, request_frame

from goqueue.broker.reading.fetch import PartitionRead
from goqueue.servers.kafka.connections.peer import Peer
from goqueue.servers.kafka.dispatch import Dispatcher, Later
from goqueue.servers.kafka.reading.fetch_sessions import (
    EVICTABLE_MS,
    FETCH_SESSION_ID_NOT_FOUND,
    FETCH_SESSION_TOPIC_ID_ERROR,
    INVALID_FETCH_SESSION_EPOCH,
    FetchSession,
    FetchSessions,
    SessionKey,
)
from goqueue.servers.services import Services

from .batches import batch, records_of
from .conftest import Call
from .test_produce import produce

FETCH = 1
UNKNOWN_TOPIC_ID = 100
VERSIONS = (7, 12, 13, 18)


@pytest.fixture(autouse=True)
async def topic(call: Call) -> str:
    await call(19, 7, topics=[{"name": "t", "num_partitions": 3, "replication_factor": 1}])
    return "t"


class Reader:
    """A client with a session; `fetch` names the partitions given, by offset."""

    def __init__(self, call: Call, services: Services, version: int = 12) -> None:
        self._call = call
        self._version = version
        self._topic = {"topic_id": services.topics.get("t").topic_id} if version >= 13 else {"topic": "t"}
        self.session_id, self.epoch = 0, 0

    async def fetch(self, offsets: dict[int, int] | None = None, *, forget: tuple[int, ...] = (), **more: Any) -> Any:
        partitions = [
            {"partition": at, "fetch_offset": offset, "partition_max_bytes": 1_000_000}
            for at, offset in (offsets or {}).items()
        ]
        fields = {
            "max_bytes": 1_000_000,
            "min_bytes": 1,
            "session_id": self.session_id,
            "session_epoch": self.epoch,
            "topics": [{**self._topic, "partitions": partitions}] if partitions else [],
            "forgotten_topics_data": [{**self._topic, "partitions": list(forget)}] if forget else [],
            **more,
        }
        reply = await self._call(FETCH, self._version, **fields)
        if reply["error_code"] == 0:
            self.session_id = reply["session_id"]
            self.epoch += 1
        return reply

    async def rows(self, *given: Any, **more: Any) -> dict[int, Any]:
        """The partitions of the answer."""
        reply = await self.fetch(*given, **more)
        assert reply["error_code"] == 0
        return {row["partition_index"]: row for one in reply["responses"] for row in one["partitions"]}


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_session_answers_everything_once_and_then_what_changed(
    call: Call, services: Services, version: int
) -> None:
    reader = Reader(call, services, version)
    assert sorted(await reader.rows({0: 0, 1: 0, 2: 0})) == [0, 1, 2]
    assert reader.session_id > 0
    assert await reader.rows() == {}
    await produce(call, batch(b"a"), partition=1)
    changed = await reader.rows()
    assert sorted(changed) == [1]
    assert [one.value for one in records_of(changed[1]["records"])] == [b"a"]
    assert sorted(await reader.rows()) == [1], "the reader has not moved on, so the records are there still"
    assert await reader.rows({1: 1}) == {}


async def test_records_are_sent_from_where_the_reader_says(call: Call, services: Services) -> None:
    for value in (b"a", b"b", b"c"):
        await produce(call, batch(value))
    reader = Reader(call, services)
    assert records_of((await reader.rows({0: 1}))[0]["records"])[0].offset == 1
    assert records_of((await reader.rows({0: 2}))[0]["records"])[0].offset == 2


async def test_partitions_are_added_and_forgotten(call: Call, services: Services) -> None:
    reader = Reader(call, services)
    await reader.rows({0: 0})
    assert sorted(await reader.rows({1: 0})) == [1], "what is new is answered though it is empty"
    await produce(call, batch(b"a"), partition=0)
    await produce(call, batch(b"a"), partition=1)
    assert sorted(await reader.rows(forget=(0,))) == [1]


async def test_a_session_without_partitions_ends(call: Call, services: Services) -> None:
    reader = Reader(call, services)
    await reader.rows({0: 0})
    reply = await reader.fetch(forget=(0,))
    assert (reply["session_id"], reply["responses"]) == (0, [])


async def test_a_new_log_start_and_a_new_high_watermark_are_news(call: Call, services: Services) -> None:
    await produce(call, batch(b"a"))
    await produce(call, batch(b"b"))
    reader = Reader(call, services)
    await reader.rows({0: 2})
    await services.queries.delete_records("t", 0, 1)
    assert (await reader.rows())[0]["log_start_offset"] == 1
    assert await reader.rows() == {}


async def test_an_error_is_repeated_until_it_is_gone(call: Call, services: Services) -> None:
    reader = Reader(call, services)
    assert (await reader.rows({0: 7}))[0]["error_code"] == 1
    assert (await reader.rows())[0]["error_code"] == 1
    assert (await reader.rows({0: 0}))[0]["error_code"] == 0
    assert await reader.rows() == {}


async def test_a_deleted_topic_is_told_by_its_id_though_another_has_its_name(call: Call, services: Services) -> None:
    reader = Reader(call, services, version=13)
    await reader.rows({0: 0})
    await services.topics.delete("t")
    await call(19, 7, topics=[{"name": "t", "num_partitions": 1, "replication_factor": 1}])
    await produce(call, batch(b"of another topic"))
    assert (await reader.rows())[0]["error_code"] == UNKNOWN_TOPIC_ID


async def test_a_full_request_ends_the_session_before(call: Call, services: Services) -> None:
    reader = Reader(call, services)
    await reader.rows({0: 0})
    first = reader.session_id
    reader.epoch = 0
    await reader.rows({0: 0})
    assert reader.session_id != first
    stale = Reader(call, services)
    stale.session_id, stale.epoch = first, 1
    assert (await stale.fetch())["error_code"] == FETCH_SESSION_ID_NOT_FOUND


async def test_a_request_out_of_turn_is_refused(call: Call, services: Services) -> None:
    reader = Reader(call, services)
    await reader.rows({0: 0})
    reader.epoch = 3
    assert (await reader.fetch())["error_code"] == INVALID_FETCH_SESSION_EPOCH


async def test_a_session_by_name_is_not_continued_by_id(call: Call, services: Services) -> None:
    by_name = Reader(call, services, version=12)
    await by_name.rows({0: 0})
    by_id = Reader(call, services, version=13)
    by_id.session_id, by_id.epoch = by_name.session_id, by_name.epoch
    assert (await by_id.fetch())["error_code"] == FETCH_SESSION_TOPIC_ID_ERROR


async def test_a_waiting_session_is_answered_when_records_come(services: Services, call: Call) -> None:
    dispatcher = Dispatcher(services)

    async def ask(**fields: Any) -> Any:
        answered = dispatcher.take(request_frame(FETCH, 12, fields), Peer("127.0.0.1"))
        answered = await answered.frame if isinstance(answered, Later) else answered
        return read_response(FETCH, 12, b"".join(answered or [])[4:])

    read = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000_000}
    opened = await ask(max_bytes=10_000, session_epoch=0, topics=[{"topic": "t", "partitions": [read]}])
    more = {"session_id": opened["session_id"], "session_epoch": 1, "max_wait": 60_000, "min_bytes": 1}
    waiting = asyncio.create_task(ask(max_bytes=10_000, topics=[], **more))
    await asyncio.sleep(0)
    await produce(call, batch(b"a"))
    async with asyncio.timeout(5):
        (answered,) = (await waiting)["responses"]
    assert records_of(answered["partitions"][0]["records"])[0].value == b"a"


async def test_what_does_not_fit_is_read_first_the_next_time(call: Call, services: Services) -> None:
    for partition in range(3):
        await produce(call, batch(bytes(1000)), partition=partition)
    reader = Reader(call, services)
    first = await reader.rows({0: 0, 1: 0, 2: 0}, max_bytes=100)
    seen = [at for at, row in first.items() if row["records"]]
    for _ in range(2):
        seen += [at for at, row in (await reader.rows(max_bytes=100)).items() if row["records"]]
    assert sorted(seen) == [0, 1, 2], "each had its turn"


# --- the cache ------------------------------------------------------------------------


def reads_of(*partitions: int) -> list[tuple[SessionKey, PartitionRead]]:
    return [(SessionKey("t", at), PartitionRead("t", at, 0, 1)) for at in partitions]


def opened(sessions: FetchSessions, *partitions: int, now_ms: int = 0) -> FetchSession | None:
    return sessions.open(reads_of(*partitions), uses_ids=False, now_ms=now_ms)


def test_a_full_cache_keeps_sessions_in_use_and_lets_idle_ones_go() -> None:
    sessions = FetchSessions(sessions_max=2)
    idle, used = opened(sessions, 0), opened(sessions, 0)
    assert idle is not None
    assert used is not None
    assert opened(sessions, 0, now_ms=EVICTABLE_MS - 1) is None
    sessions.go_on(used.id, 1, uses_ids=False, now_ms=EVICTABLE_MS - 1)
    assert opened(sessions, 0, now_ms=EVICTABLE_MS) is not None
    assert sessions.go_on(idle.id, 1, uses_ids=False, now_ms=0) == FETCH_SESSION_ID_NOT_FOUND
    assert isinstance(sessions.go_on(used.id, 2, uses_ids=False, now_ms=0), FetchSession)


def test_the_cache_is_bounded_in_partitions_too() -> None:
    sessions = FetchSessions(partitions_max=4)
    first = opened(sessions, 0, 1, 2)
    assert first is not None
    assert opened(sessions, 0, 1) is None
    assert not sessions.change(first, reads_of(3, 4), [])
    assert len(sessions) == 0
    assert opened(sessions, 0, 1, 2, 3) is not None, "all of it is free again"


def test_without_sessions_none_is_opened() -> None:
    assert opened(FetchSessions(sessions_max=0), 0) is None
