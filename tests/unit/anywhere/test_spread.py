"""Items of one partition follow its leader together, unless something was done for one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from goqueue.anywhere.asking import Asking
from goqueue.anywhere.homes import Homes
from goqueue.anywhere.spread import Spread
from goqueue.errors import DiskFull, GoQueueError, InvalidRequest, NotLeader
from goqueue.records import TopicPartition

PLACE = TopicPartition("t", 0)
_REFUSED = InvalidRequest("it is too large")


class Moving(Homes):
    """Node 7 led the partition when it was looked up, and node 8 does now."""

    def __init__(self) -> None:
        self.node_id = 1

    def by_leader(self, places: Any) -> Mapping[int, Sequence[TopicPartition]]:
        return {7: list(places)}

    def leader_of(self, _place: TopicPartition) -> int:
        return 8


async def know_all() -> None:
    """Nothing is to be caught up with."""


@pytest.mark.parametrize(
    ("first", "asked"),
    [
        ([_REFUSED, NotLeader("node 8 does")], [7, 8]),
        ([NotLeader("node 8 does"), _REFUSED], [7, 8]),
        ([None, DiskFull("no room")], [7]),
        ([_REFUSED, _REFUSED], [7]),
    ],
)
async def test_items_are_asked_again_at_the_next_leader(first: list[GoQueueError | None], asked: list[int]) -> None:
    nodes: list[int] = []

    async def ask(node: int, items: Sequence[int]) -> list[GoQueueError | None]:
        nodes.append(node)
        return first if node == 7 else [_REFUSED if one is _REFUSED else None for one in first]

    spread: Spread[int, GoQueueError | None] = Spread(
        Asking(cast("Any", None), Moving(), know_all), ask, lambda _, error: error, lambda one: one
    )
    found = (await spread.of({PLACE: [1, 2]}))[PLACE]
    assert nodes == asked
    assert found == (first if len(asked) == 1 else [_REFUSED if one is _REFUSED else None for one in first])
