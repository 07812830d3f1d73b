"""A refused batch names the records that are the reason (KIP-467)."""

from __future__ import annotations

from typing import Any

import pytest

from goqueue.codec.batch_encode import encode_batch
from goqueue.codec.compression import Codec
from goqueue.records import NewRecord
from goqueue.testing.clock import ManualClock

from .conftest import Call

PRODUCE, CREATE_TOPICS = 0, 19
INVALID_RECORD, INVALID_TIMESTAMP = 87, 32


async def refused(call: Call, records: list[NewRecord], *, now_ms: int, version: int = 9, **config: str) -> Any:
    """The answer to a batch that a topic with these settings refuses."""
    settings = [{"name": name.replace("_", "."), "value": value} for name, value in config.items()]
    topic = {"name": "t", "num_partitions": 1, "replication_factor": 1, "configs": settings}
    (made,) = (await call(CREATE_TOPICS, 7, topics=[topic]))["topics"]
    assert made["error_code"] in {0, 36}, made
    codec = Codec.GZIP if version % 2 else Codec.NONE
    data = encode_batch(records, now_ms=now_ms, codec=codec)
    partitions = [{"index": 0, "records": data}]
    reply = await call(PRODUCE, version, acks=1, timeout=1000, topic_data=[{"name": "t", "partition_data": partitions}])
    return reply["responses"][0]["partition_responses"][0]


@pytest.mark.parametrize("version", range(8, 13))
async def test_records_without_a_key_are_named_in_a_compacted_topic(
    call: Call, clock: ManualClock, version: int
) -> None:
    records = [NewRecord(b"k", b"0"), NewRecord(None, b"1"), NewRecord(b"k", b"2"), NewRecord(None, b"3")]
    row = await refused(call, records, now_ms=clock.now_ms(), version=version, cleanup_policy="compact")
    assert row["error_code"] == INVALID_RECORD
    assert [one["batch_index"] for one in row["record_errors"]] == [1, 3]
    assert row["record_errors"][0]["batch_index_error_message"] == "record 1 has no key, and the topic is compacted"
    assert "2 records of the batch are refused" in row["error_message"]


async def test_versions_without_record_errors_have_the_code_alone(call: Call, clock: ManualClock) -> None:
    row = await refused(call, [NewRecord(None, b"1")], now_ms=clock.now_ms(), version=7, cleanup_policy="compact")
    assert row["error_code"] == INVALID_RECORD


async def test_records_from_the_future_are_named(call: Call, clock: ManualClock) -> None:
    now_ms = clock.now_ms()
    records = [NewRecord(None, b"0", (), now_ms), NewRecord(None, b"1", (), now_ms + 7_200_000)]
    row = await refused(call, records, now_ms=now_ms)
    assert row["error_code"] == INVALID_TIMESTAMP
    assert [one["batch_index"] for one in row["record_errors"]] == [1]


async def test_records_whose_delay_cannot_be_read_are_named(call: Call, clock: ManualClock) -> None:
    wrong = (("goqueue-delay-ms", b"soon"),)
    records = [NewRecord(None, b"0"), NewRecord(None, b"1", wrong), NewRecord(None, b"2"), NewRecord(None, b"3", wrong)]
    row = await refused(call, records, now_ms=clock.now_ms(), goqueue_delay_headers="true")
    assert row["error_code"] == INVALID_RECORD
    assert [one["batch_index"] for one in row["record_errors"]] == [1, 3]
    assert "goqueue-delay-ms is 'soon'" in row["record_errors"][0]["batch_index_error_message"]
