"""The transaction APIs as bytes: every version, every refusal, and what readers see."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from goqueue.codec.batch_encode import encode_batch
from goqueue.records import NewRecord
from goqueue.servers.services import Services
from goqueue.testing.clock import ManualClock

from .conftest import Call

PRODUCE, FETCH, OFFSET_FETCH, FIND_COORDINATOR, CREATE_TOPICS, INIT = 0, 1, 9, 10, 19, 22
ADD_PARTITIONS, ADD_OFFSETS, END, TXN_OFFSET_COMMIT, DESCRIBE, LIST = 24, 25, 26, 28, 65, 66
INVALID_EPOCH, INVALID_STATE, INVALID_MAPPING, INVALID_TIMEOUT, CONCURRENT = 47, 48, 49, 50, 51
WRITE_MARKERS = 27
NOT_ATTEMPTED, UNSTABLE, FENCED, ID_NOT_FOUND = 55, 88, 90, 105


@pytest.fixture(autouse=True)
async def topics(call: Call) -> None:
    rows = [{"name": name, "num_partitions": 2, "replication_factor": 1} for name in ("a", "b")]
    await call(CREATE_TOPICS, 7, topics=rows, timeout=5000)


async def init(call: Call, name: str = "tx", version: int = 4, **more: Any) -> dict[str, Any]:
    reply = await call(INIT, version, transactional_id=name, transaction_timeout=more.pop("timeout", 60_000), **more)
    while reply["error_code"] == CONCURRENT:
        await asyncio.sleep(0)
        reply = await call(INIT, version, transactional_id=name, transaction_timeout=60_000, **more)
    return reply


def of(producer: dict[str, Any], name: str = "tx", prefix: str = "") -> dict[str, Any]:
    fields = {
        "transactional_id": name,
        "producer_id": producer["producer_id"],
        "producer_epoch": producer["producer_epoch"],
    }
    return {f"{prefix}{field}": value for field, value in fields.items()}


async def add(
    call: Call, producer: dict[str, Any], *, version: int = 3, topic: str = "a", partitions: Any = (0,)
) -> int:
    rows = [{"name": topic, "partitions": list(partitions)}]
    reply = await call(ADD_PARTITIONS, version, **of(producer, prefix="v3_and_below_"), v3_and_below_topics=rows)
    (row,) = reply["results_by_topic_v3_and_below"]
    return int(row["results_by_partition"][0]["partition_error_code"])


async def end(call: Call, producer: dict[str, Any], *, commit: bool, version: int = 4) -> int:
    return int((await call(END, version, **of(producer), committed=commit))["error_code"])


async def produce(call: Call, producer: dict[str, Any], *, partition: int = 0, sequence: int = 0, **more: Any) -> int:
    batch = encode_batch(
        [NewRecord(None, b"value")],
        producer_id=producer["producer_id"],
        producer_epoch=producer["producer_epoch"],
        base_sequence=sequence,
        transactional=more.get("transactional", True),
        now_ms=1_700_000_000_000,
    )
    data = [{"name": "a", "partition_data": [{"index": partition, "records": batch}]}]
    reply = await call(PRODUCE, 9, transactional_id="tx", acks=-1, timeout=5000, topic_data=data)
    return int(reply["responses"][0]["partition_responses"][0]["error_code"])


async def stable_offset(call: Call, partition: int = 0) -> int:
    read = {"partition": partition, "fetch_offset": 0, "partition_max_bytes": 1_000_000}
    reply = await call(
        FETCH, 12, max_bytes=1_000_000, min_bytes=0, max_wait=0, isolation_level=1,
        topics=[{"topic": "a", "partitions": [read]}],
    )  # fmt: skip
    return int(reply["responses"][0]["partitions"][0]["last_stable_offset"])


async def ended(call: Call) -> str:
    """The state, once no decision is being carried out any more."""
    while (state := await state_of(call)).startswith("Prepare"):  # noqa: ASYNC110 - a client can only ask
        await asyncio.sleep(0)
    return state


async def state_of(call: Call, name: str = "tx") -> str:
    rows = (await call(LIST, 0, state_filters=[], producer_id_filters=[]))["transaction_states"]
    return next(str(row["transaction_state"]) for row in rows if row["transactional_id"] == name)


async def test_the_coordinator_of_every_transactional_id_is_this_node(call: Call) -> None:
    (reply,) = (await call(FIND_COORDINATOR, 4, coordinator_keys=["tx"], key_type=1))["coordinators"]
    assert (reply["error_code"], reply["host"], reply["port"]) == (0, "broker.test", 9092)


@pytest.mark.parametrize("version", range(7))
async def test_every_version_initialises_a_transactional_id(call: Call, version: int) -> None:
    replies = [await init(call, version=version) for _ in range(2)]
    assert [reply["error_code"] for reply in replies] == [0, 0]
    assert [reply["producer_epoch"] for reply in replies] == [0, 1]


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
async def test_a_timeout_outside_the_limits_is_refused(call: Call, timeout_ms: int) -> None:
    assert (await init(call, timeout=timeout_ms))["error_code"] == INVALID_TIMEOUT


async def test_two_phase_commit_is_refused_so_that_clients_give_up(call: Call) -> None:
    assert (await init(call, version=6, enable2_pc=True))["error_code"] == 53


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", range(4))
async def test_a_transaction_from_begin_to_end_in_every_version(call: Call, version: int, commit: bool) -> None:
    producer = await init(call)
    assert await add(call, producer, version=version, partitions=(0, 1)) == 0
    assert [await produce(call, producer, partition=one) for one in (0, 1)] == [0, 0]
    assert await stable_offset(call) == 0
    assert await end(call, producer, commit=commit, version=version) == 0
    assert await ended(call) == ("CompleteCommit" if commit else "CompleteAbort")
    assert [await stable_offset(call, one) for one in (0, 1)] == [2, 2]


async def test_what_is_in_no_transaction_is_not_stored(call: Call) -> None:
    producer = await init(call)
    assert await produce(call, producer) == INVALID_STATE
    assert await add(call, producer) == 0
    assert await produce(call, producer, partition=1) == INVALID_STATE
    assert await produce(call, producer, transactional=False) == INVALID_STATE
    assert await produce(call, producer, sequence=-1) == 87
    await end(call, producer, commit=True)
    assert await produce(call, producer) == INVALID_STATE


@pytest.mark.parametrize(("version", "code"), [(1, INVALID_EPOCH), (2, FENCED)])
async def test_a_zombie_is_told_as_its_version_knows_it(call: Call, version: int, code: int) -> None:
    zombie = await init(call)
    await init(call)
    assert await add(call, zombie, version=version) == code
    assert await end(call, zombie, commit=True, version=version) == code
    assert (await call(ADD_OFFSETS, version, **of(zombie), group_id="g"))["error_code"] == code
    assert await produce(call, zombie) == INVALID_EPOCH
    known = {"producer_id": zombie["producer_id"], "producer_epoch": zombie["producer_epoch"]}
    assert (await init(call, version=3, **known))["error_code"] == INVALID_EPOCH
    assert (await init(call, version=4, **known))["error_code"] == FENCED


async def test_a_producer_of_another_id_is_refused(call: Call) -> None:
    other = await init(call, "other")
    assert await add(call, other) == INVALID_MAPPING
    await init(call)
    assert await add(call, other) == INVALID_MAPPING
    assert await end(call, other, commit=True) == INVALID_MAPPING


async def test_one_unknown_partition_keeps_the_others_out(call: Call) -> None:
    producer = await init(call)
    rows = [{"name": "a", "partitions": [0, 7]}, {"name": "nowhere", "partitions": [0]}]
    reply = await call(ADD_PARTITIONS, 3, **of(producer, prefix="v3_and_below_"), v3_and_below_topics=rows)
    codes = [
        [one["partition_error_code"] for one in row["results_by_partition"]]
        for row in reply["results_by_topic_v3_and_below"]
    ]
    assert codes == [[NOT_ATTEMPTED, 3], [3]]
    assert await produce(call, producer) == INVALID_STATE


async def test_internal_topics_cannot_be_part_of_a_clients_transaction(call: Call) -> None:
    producer = await init(call)
    assert await add(call, producer, topic="__transaction_state") == 17


@pytest.mark.parametrize("version", range(5))
async def test_offsets_wait_for_the_commit(call: Call, version: int) -> None:
    producer = await init(call)
    assert await commit_offset(call, producer, 5, version=version) == INVALID_STATE
    assert (await call(ADD_OFFSETS, min(version, 4), **of(producer), group_id="g"))["error_code"] == 0
    assert await commit_offset(call, producer, 5, version=version) == 0
    assert await committed(call) == (-1, 0)
    assert await committed(call, require_stable=True) == (-1, UNSTABLE)
    await end(call, producer, commit=True)
    await ended(call)
    assert await committed(call, require_stable=True) == (5, 0)


async def test_offsets_of_an_abort_are_forgotten_and_a_zombies_are_refused(call: Call) -> None:
    zombie = await init(call)
    await call(ADD_OFFSETS, 3, **of(zombie), group_id="g")
    assert await commit_offset(call, zombie, 5) == 0
    await init(call)  # aborts what the zombie left open
    assert await commit_offset(call, zombie, 6) == INVALID_EPOCH
    assert await committed(call, require_stable=True) == (-1, 0)


async def test_offsets_of_a_member_that_is_none_are_refused(call: Call) -> None:
    producer = await init(call)
    await call(ADD_OFFSETS, 3, **of(producer), group_id="g")
    assert await commit_offset(call, producer, 5, generation_id=3, member_id="nobody") == 22


async def commit_offset(call: Call, producer: dict[str, Any], offset: int, *, version: int = 3, **more: Any) -> int:
    row = {"partition_index": 0, "committed_offset": offset, "committed_metadata": None}
    reply = await call(
        TXN_OFFSET_COMMIT, version, **of(producer), group_id="g", topics=[{"name": "a", "partitions": [row]}], **more
    )
    return int(reply["topics"][0]["partitions"][0]["error_code"])


async def committed(call: Call, *, require_stable: bool = False) -> tuple[int, int]:
    reply = await call(
        OFFSET_FETCH, 7, group_id="g", topics=[{"name": "a", "partition_indexes": [0]}], require_stable=require_stable
    )
    row = reply["topics"][0]["partitions"][0]
    return row["committed_offset"], row["error_code"]


async def test_transactions_are_described_and_listed(call: Call, clock: ManualClock) -> None:
    producer = await init(call)
    await init(call, "idle")
    await add(call, producer, partitions=(0, 1))
    clock.advance(ms=5000)
    (row, missing) = (await call(DESCRIBE, 0, transactional_ids=["tx", "nobody"]))["transaction_states"]
    assert (row["transaction_state"], row["producer_id"]) == ("Ongoing", producer["producer_id"])
    assert row["topics"] == [{"topic": "a", "partitions": [0, 1]}]
    assert missing["error_code"] == ID_NOT_FOUND

    async def listed(version: int = 1, **filters: Any) -> list[str]:
        fields = {"state_filters": [], "producer_id_filters": [], **filters}
        reply = await call(LIST, version, **fields)
        return [one["transactional_id"] for one in reply["transaction_states"]]

    assert await listed(0) == ["idle", "tx"]
    assert await listed(state_filters=["Ongoing"]) == ["tx"]
    assert await listed(producer_id_filters=[producer["producer_id"]]) == ["tx"]
    assert await listed(duration_filter=4999) == ["tx"]
    assert await listed(duration_filter=5000) == []


async def write_marker(
    call: Call, producer: dict[str, Any], *, partition: int = 0, commit: bool = False, version: int = 2
) -> int:
    marker = {
        "producer_id": producer["producer_id"],
        "producer_epoch": producer["producer_epoch"],
        "transaction_result": commit,
        "topics": [{"name": "a", "partition_indexes": [partition]}],
        "coordinator_epoch": 0,
    }
    reply = await call(WRITE_MARKERS, version, markers=[marker])
    return int(reply["markers"][0]["topics"][0]["partitions"][0]["error_code"])


async def test_an_admin_client_may_not_tear_a_transaction_that_is_known(call: Call) -> None:
    producer = await init(call)
    await add(call, producer)
    await produce(call, producer)
    assert await write_marker(call, producer) == INVALID_STATE
    assert await write_marker(call, producer, commit=True) == INVALID_STATE
    assert await end(call, producer, commit=True) == 0


@pytest.mark.parametrize("version", [1, 2])
async def test_an_admin_client_aborts_what_hangs(call: Call, services: Services, version: int) -> None:
    producer = {"producer_id": 4711, "producer_epoch": 0}
    batch = encode_batch(
        [NewRecord(None, b"hangs")],
        producer_id=4711,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
        now_ms=1_700_000_000_000,
    )
    # Nobody's batch: how it came to be there does not matter.
    partitions = services.queries._partitions
    partitions.leader("a", 0).writer.append(batch, now_ms=1_700_000_000_000)
    assert await stable_offset(call) == 0
    assert await write_marker(call, producer, partition=1, version=version) == INVALID_STATE
    assert await write_marker(call, producer, version=version) == 0
    assert await stable_offset(call) == 2
    assert await write_marker(call, producer, version=version) == INVALID_STATE
