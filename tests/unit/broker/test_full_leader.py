"""A leader whose disk is full says so to its writer, which lets another replica lead."""

from __future__ import annotations

import pytest
from tests.unit.broker.stack import Stack

from goqueue.broker.arrivals.disk_guard import DiskGuard
from goqueue.broker.replicas.local_writer import LocalWriter
from goqueue.errors import DiskFull, StorageError
from goqueue.testing.memory_files import MemoryFiles


async def test_a_batch_that_is_refused_for_want_of_room_is_told_to_the_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    guard = DiskGuard(MemoryFiles(), free_bytes_min=2**62)
    stack = await Stack(asked_of_clients=[guard]).start()
    await stack.topic()
    told: list[StorageError] = []
    monkeypatch.setattr(LocalWriter, "cannot_write", lambda _writer, reason: told.append(reason))
    with pytest.raises(DiskFull) as refused:
        await stack.write(b"a")
    assert told == [refused.value]
    await stack.stop()
