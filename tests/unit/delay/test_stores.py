"""Loading the store of a partition whose terms come and go."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from goqueue.broker.replicas.roles import Leading
from goqueue.delay.holding.store import Store
from goqueue.delay.holding.stores import Stores
from goqueue.errors import NotLeader
from goqueue.records import TopicPartition
from goqueue.testing.clock import ManualClock

PLACE = TopicPartition("orders", 0)


async def test_whoever_waits_for_a_load_is_told_that_its_term_is_over_also_if_this_node_leads_again() -> None:
    async def endlessly(_place: TopicPartition) -> Store:
        await asyncio.Event().wait()
        raise AssertionError

    partitions = cast("Any", SimpleNamespace(has_member=lambda *_: True))
    nobody = cast("Any", None)
    stores = Stores(partitions, nobody, endlessly, [], nobody, nobody, ManualClock(), lambda *_: None)
    asking = asyncio.create_task(stores.get(PLACE))
    await asyncio.sleep(0)
    stores._on_role(PLACE, Leading(7, (1, 2, 3)))
    with pytest.raises(NotLeader, match="ended while"):
        await asking
    stores.load(PLACE).cancel()
