"""Transaction version 2 (KIP-890) in raw requests: no client of the tests' speaks it yet."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from goqueue.codec.batch_encode import encode_batch
from goqueue.records import Isolation, NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.transactions.transitions import EPOCH_MAX

from .conftest import Call

PRODUCE, API_VERSIONS, CREATE_TOPICS, OFFSET_FETCH, INIT = 0, 18, 19, 9, 22
ADD_PARTITIONS, END, TXN_OFFSET_COMMIT = 24, 26, 28
INVALID_EPOCH, INVALID_STATE, FENCED = 47, 48, 90

Ids = dict[str, Any]


@pytest.fixture(autouse=True)
async def topics(call: Call) -> None:
    await call(CREATE_TOPICS, 7, topics=[{"name": "a", "num_partitions": 2, "replication_factor": 1}], timeout=5000)


async def init(call: Call) -> Ids:
    reply = await call(INIT, 5, transactional_id="tx", transaction_timeout=60_000)
    return {"producer_id": reply["producer_id"], "producer_epoch": reply["producer_epoch"]}


async def produce(call: Call, ids: Ids, value: bytes, *, partition: int = 0, sequence: int = 0) -> int:
    batch = encode_batch(
        [NewRecord(None, value)],
        producer_id=ids["producer_id"],
        producer_epoch=ids["producer_epoch"],
        base_sequence=sequence,
        transactional=True,
        now_ms=1_700_000_000_000,
    )
    data = [{"name": "a", "partition_data": [{"index": partition, "records": batch}]}]
    reply = await call(PRODUCE, 12, transactional_id="tx", acks=-1, timeout=5000, topic_data=data)
    return int(reply["responses"][0]["partition_responses"][0]["error_code"])


async def end(call: Call, ids: Ids, *, commit: bool = True) -> tuple[int, Ids]:
    reply = await call(END, 5, transactional_id="tx", **ids, committed=commit)
    return reply["error_code"], {"producer_id": reply["producer_id"], "producer_epoch": reply["producer_epoch"]}


async def until_seen(services: Services, wanted: list[bytes], partition: int = 0) -> None:
    place = TopicPartition("a", partition)
    deadline = time.monotonic() + 5
    while True:
        read = await services.reads.read({place: 0}, limit=99, max_bytes=99_999, isolation=Isolation.READ_COMMITTED)
        if (found := [record.value for record in read[place].records]) == wanted:
            return
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.001)


async def test_the_feature_is_finalised_for_clients_that_look(call: Call) -> None:
    reply = await call(API_VERSIONS, 4, client_software_name="test", client_software_version="1")
    (feature,) = reply["finalized_features"]
    assert (feature["name"], feature["max_version_level"]) == ("transaction.version", 2)
    versions = {row["api_key"]: row["max_version"] for row in reply["api_keys"]}
    assert [versions[key] for key in (ADD_PARTITIONS, END, TXN_OFFSET_COMMIT)] == [5, 5, 5]
    assert versions[PRODUCE] >= 12


async def test_partitions_are_added_by_producing_and_each_transaction_has_its_epoch(
    call: Call, services: Services
) -> None:
    ids = await init(call)
    for number, commit in enumerate([True, False, True]):
        assert await produce(call, ids, b"%d" % number) == 0
        assert await produce(call, ids, b"%d" % number, partition=1) == 0
        code, following = await end(call, ids, commit=commit)
        assert (code, following["producer_epoch"]) == (0, ids["producer_epoch"] + 1)
        ids = following
    for partition in (0, 1):
        await until_seen(services, [b"0", b"2"], partition)


async def test_a_late_request_of_one_transaction_cannot_land_in_the_next(call: Call, services: Services) -> None:
    first = await init(call)
    assert await produce(call, first, b"first") == 0
    _, second = await end(call, first)
    assert await produce(call, first, b"late, between", sequence=1) == INVALID_EPOCH
    assert await produce(call, second, b"second") == 0
    assert await produce(call, first, b"late, within", sequence=1) == INVALID_EPOCH
    assert (await end(call, first))[0] == FENCED
    await end(call, second)
    await until_seen(services, [b"first", b"second"])


async def test_an_end_that_is_asked_for_again_is_answered_the_same(call: Call) -> None:
    first = await init(call)
    await produce(call, first, b"x")
    answered = await end(call, first)
    assert await end(call, first) == answered
    assert (await end(call, first, commit=False))[0] == INVALID_STATE


async def test_an_empty_transaction_can_be_aborted_for_a_new_epoch_but_not_committed(call: Call) -> None:
    first = await init(call)
    assert (await end(call, first))[0] == INVALID_STATE
    code, second = await end(call, first, commit=False)
    assert (code, second["producer_epoch"]) == (0, first["producer_epoch"] + 1)
    assert await produce(call, second, b"x") == 0


async def test_when_epochs_are_used_up_the_producer_gets_another_id(call: Call, services: Services) -> None:
    """The first requests under the new id wait for the markers under the old one."""
    ids = await init(call)
    while ids["producer_epoch"] < EPOCH_MAX - 1:
        _, ids = await end(call, ids, commit=False)
    assert await produce(call, ids, b"last") == 0
    code, following = await end(call, ids)
    assert (code, following["producer_epoch"]) == (0, 0)
    assert following["producer_id"] != ids["producer_id"]
    assert await produce(call, following, b"first") == 0
    assert await produce(call, ids, b"late", sequence=1) in {INVALID_EPOCH, INVALID_STATE}
    assert (await end(call, following))[0] == 0
    await until_seen(services, [b"last", b"first"])


async def test_offsets_are_added_by_committing_them(call: Call) -> None:
    ids = await init(call)
    rows = [{"name": "a", "partitions": [{"partition_index": 0, "committed_offset": 7, "committed_metadata": ""}]}]
    reply = await call(TXN_OFFSET_COMMIT, 5, transactional_id="tx", group_id="g", **ids, topics=rows)
    assert reply["topics"][0]["partitions"][0]["error_code"] == 0
    assert (await end(call, ids))[0] == 0
    groups = [{"group_id": "g", "topics": [{"name": "a", "partition_indexes": [0]}]}]
    deadline = time.monotonic() + 5
    while True:
        reply = await call(OFFSET_FETCH, 8, groups=groups, require_stable=False)
        if reply["groups"][0]["topics"][0]["partitions"][0]["committed_offset"] == 7:
            break
        assert time.monotonic() < deadline
        await asyncio.sleep(0.001)
    reply = await call(TXN_OFFSET_COMMIT, 5, transactional_id="tx", group_id="g", **ids, topics=rows)
    assert reply["topics"][0]["partitions"][0]["error_code"] == FENCED


@pytest.mark.parametrize("version", [4, 5])
async def test_many_transactions_in_one_request_are_added_to_or_only_looked_at(call: Call, version: int) -> None:
    ids = await init(call)

    async def ask(*, verify_only: bool, partitions: list[int], **other: Any) -> list[int]:
        topics = [{"name": "a", "partitions": partitions}]
        one = {"transactional_id": "tx", **ids, **other, "verify_only": verify_only, "topics": topics}
        reply = await call(ADD_PARTITIONS, version, transactions=[one])
        (row,) = reply["results_by_transaction"]
        return [each["partition_error_code"] for each in row["topic_results"][0]["results_by_partition"]]

    assert await ask(verify_only=True, partitions=[0]) == [INVALID_STATE]
    assert await ask(verify_only=False, partitions=[0]) == [0]
    assert await ask(verify_only=True, partitions=[0, 1]) == [0, INVALID_STATE]
    assert await ask(verify_only=True, partitions=[0], producer_epoch=5) == [FENCED]
