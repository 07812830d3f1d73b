"""Producer ids: unique for ever, cheap most of the time."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.broker.stack import Stack

from goqueue.broker.arrivals.producer_ids import is_plain
from goqueue.errors import StorageError
from goqueue.testing.disk import Survival
from goqueue.testing.memory_files import MemoryFiles


async def test_ids_are_never_given_out_twice() -> None:
    """Over power cuts and many askers."""
    files = MemoryFiles()
    seen: set[int] = set()
    for _ in range(4):
        stack = Stack(files)
        given = await asyncio.gather(*(stack.producer_ids.allocate() for _ in range(700)))
        assert len(set(given)) == 700
        assert not seen & set(given)
        seen |= set(given)
        files = files.crash(Survival.NOTHING)


async def test_the_disk_is_asked_once_per_block() -> None:
    files = MemoryFiles()
    stack = Stack(files)
    await stack.producer_ids.allocate()
    before = files.faults.counts["sync"]
    for _ in range(999):
        await stack.producer_ids.allocate()
    assert files.faults.counts["sync"] == before
    await asyncio.gather(*(stack.producer_ids.allocate() for _ in range(500)))
    assert stack.metadata.image.next_producer_id == 2000


async def test_an_id_that_is_not_durable_is_not_given_out() -> None:
    files = MemoryFiles()
    stack = Stack(files)
    files.faults.fail("sync", "metadata/*")
    with pytest.raises(StorageError):
        await stack.producer_ids.allocate()


async def test_an_asker_that_goes_away_costs_nobody_else_an_id() -> None:
    stack = Stack()
    impatient = asyncio.create_task(stack.producer_ids.allocate())
    await asyncio.sleep(0)
    impatient.cancel()
    given = await asyncio.gather(*(stack.producer_ids.allocate() for _ in range(1500)))
    assert len(set(given)) == 1500


async def test_an_id_says_whether_it_was_given_out_to_write_no_transactions() -> None:
    """To every node, also to those that did not give it out."""
    stack = Stack(MemoryFiles())
    plain, other = await stack.producer_ids.allocate_plain(), await stack.producer_ids.allocate()
    assert (is_plain(plain), is_plain(other)) == (True, False)
    assert plain < 2**53
