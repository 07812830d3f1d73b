"""Messages that are held in several parts, of which one cannot be written: what was written is held, and said to be."""

from __future__ import annotations

import pytest

from goqueue.broker.topics import NewTopic
from goqueue.delay.holding.store import BATCH_RECORDS_MAX, Store
from goqueue.delay.values import Held, SlotId
from goqueue.errors import DiskFull
from goqueue.records import NewRecord
from goqueue.servers.services import Services
from goqueue.testing.sim_node import SimNode


def test_what_was_written_before_the_disk_was_full_is_not_called_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("t", 1))
        write, parts = Store.write, 0

        def full_at_the_second(store: Store, pairs: object) -> int:
            nonlocal parts
            parts += 1
            if parts == 2:
                raise DiskFull("no room")
            return write(store, pairs)  # type: ignore[arg-type]

        monkeypatch.setattr(Store, "write", full_at_the_second)
        due_ms = services.clock.now_ms() + 60_000
        count = BATCH_RECORDS_MAX + 3
        found = await services.delay.hold("t", [Held(NewRecord(None, b"v"), due_ms, 0) for _ in range(count)])
        assert [isinstance(one, SlotId) for one in found] == [True] * BATCH_RECORDS_MAX + [False] * 3
        assert all(isinstance(one, DiskFull) for one in found[BATCH_RECORDS_MAX:])
        assert len(await services.delay.list("t", limit=1000)) == BATCH_RECORDS_MAX
        assert services.delay.stats().scheduled == {"t": BATCH_RECORDS_MAX}
        parts = 1
        found = await services.delay.hold("t", [Held(NewRecord(None, b"v"), due_ms, 0)])
        assert [type(one) for one in found] == [DiskFull], "nothing of it was written"

    assert SimNode(1).live(story)
