"""Delivery, as groups see it, with what it was told laid open. Like a disk it outlives a node that crashes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from goqueue.errors import GroupNotEmpty
from goqueue.records import TopicPartition


class FakeDelivery:
    def __init__(self) -> None:
        self.offsets: dict[str, dict[TopicPartition, int]] = {}
        self.in_flight: set[str] = set()
        self.released: list[tuple[str, str]] = []
        self.forgotten: list[str] = []

    def deliver(self, group: str, at: TopicPartition, lowest_unsettled: int) -> None:
        self.offsets.setdefault(group, {})[at] = lowest_unsettled

    async def committed(self, group: str, places: Sequence[TopicPartition] | None) -> Mapping[TopicPartition, int]:
        known = self.offsets.get(group, {})
        return {at: offset for at, offset in known.items() if places is None or at in places}

    async def unsettled(self, _group: str, _places: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {}

    async def reset(self, group: str, offsets: Mapping[TopicPartition, int], incarnation: int = 0) -> None:
        if group in self.in_flight:
            raise GroupNotEmpty("messages are in flight")
        self.offsets.setdefault(group, {}).update(offsets)

    async def forget(self, group: str) -> None:
        self.offsets.pop(group, None)
        self.forgotten.append(group)

    async def release_consumer(self, group: str, consumer: str) -> None:
        self.released.append((group, consumer))
