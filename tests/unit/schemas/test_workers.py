"""The process that runs schemas: it is replaced when it dies, given up when it takes too long, and bounded."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest
import uvloop

from goqueue.errors import InvalidSchema, ShuttingDown, TooBusy
from goqueue.formats.jobs import CheckSchema, CheckValues
from goqueue.formats.source import Checked, SchemaType, Source
from goqueue.schemas.workers import WorkerProcess, result_of

SCHEMA = Source(SchemaType.JSON, '{"type": "integer"}')


@pytest.fixture
async def worker():
    process = WorkerProcess(seconds_max=10, memory_bytes_max=2**31, cache_size=2, waiting_max=3)
    yield process
    await process.close()


async def test_a_worker_that_was_killed_is_replaced(worker):
    assert result_of(await worker.run(CheckSchema(SCHEMA)), Checked).text == SCHEMA.text
    os.kill(worker._process.pid, signal.SIGKILL)
    assert result_of(await worker.run(CheckSchema(SCHEMA)), Checked).text == SCHEMA.text
    assert worker.is_running


def test_a_worker_that_died_before_it_was_given_anything_is_replaced():
    """On the event loop of a broker, which refuses to write to what is closed with an error of its own."""

    async def story():
        worker = WorkerProcess(seconds_max=10, memory_bytes_max=2**31, cache_size=2)
        (await worker._started()).stdin.close()
        try:
            assert result_of(await worker.run(CheckSchema(SCHEMA)), Checked).text == SCHEMA.text
        finally:
            await worker.close()

    uvloop.run(story())


async def test_a_schema_is_sent_once_and_forgotten_when_others_are_used(worker):
    assert (await worker.run(CheckValues("1", None, (b"1",)))).unknown
    assert result_of(await worker.run(CheckValues("1", SCHEMA, (b"1", b"x"))), list[str])[0] == ""
    assert not (await worker.run(CheckValues("1", None, (b"1",)))).unknown
    for key in ("2", "3"):
        await worker.run(CheckValues(key, SCHEMA, ()))
    assert (await worker.run(CheckValues("1", None, (b"1",)))).unknown


async def test_an_avro_value_that_claims_to_be_endless_is_refused(worker):
    worker._seconds_max = 1.0
    nulls = Source(SchemaType.AVRO, '{"type": "array", "items": "null"}')
    endless = b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f" + b"\x00"
    with pytest.raises(InvalidSchema):
        result_of(await worker.run(CheckValues("1", nulls, (endless,))), list[str])
    assert not (await worker.run(CheckValues("2", SCHEMA, (b"1",)))).unknown


async def test_only_so_many_jobs_wait(worker):
    jobs = [asyncio.create_task(worker.run(CheckSchema(SCHEMA))) for _ in range(3)]
    await asyncio.sleep(0)
    with pytest.raises(TooBusy):
        await worker.run(CheckSchema(SCHEMA))
    await asyncio.gather(*jobs)


async def test_a_stop_blames_no_schema(worker):
    job = asyncio.create_task(worker.run(CheckSchema(SCHEMA)))
    await asyncio.sleep(0)
    await worker.close()
    with pytest.raises(ShuttingDown):
        await job
    with pytest.raises(ShuttingDown):
        await worker.run(CheckSchema(SCHEMA))
