"""Whether records are safe at their leader, for the coordinator of the group that commits an offset behind them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from goqueue.anywhere.asking import Asking, PeerMethod
from goqueue.caller import INTERNAL, Caller
from goqueue.groups.offsets.commits import DataSynced
from goqueue.records import TopicPartition


class _Below(msgspec.Struct, frozen=True, array_like=True):
    place: TopicPartition
    offset: int


_SYNCED: PeerMethod[_Below, None] = PeerMethod("data.synced", _Below, None)


def synced_anywhere(local: DataSynced, asking: Asking) -> DataSynced:
    """A `DataSynced` for partitions that any node leads."""

    async def here(asked: _Below, _caller: Caller) -> None:
        wait = local(*asked.place, asked.offset)
        if wait is not None:
            await wait

    def ask(asked: _Below) -> Callable[[int], Awaitable[None]]:
        return lambda node: asking.ask(node, _SYNCED, asked, INTERNAL)

    def synced(topic: str, partition: int, offset: int) -> Awaitable[None] | None:
        place = TopicPartition(topic, partition)
        if asking.homes.is_here(place):
            return local(topic, partition, offset)
        return asking.at_home(lambda: asking.homes.leader_of(place), ask(_Below(place, offset)), is_repeatable=True)

    asking.answer(_SYNCED, here)
    return synced
