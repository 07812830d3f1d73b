"""OpenPartitions: the replicas of this node that are open, and those of them that it leads."""

from __future__ import annotations

from goqueue.broker.replicas.partition import Partition

_Key = tuple[str, int]


class OpenPartitions:
    """Two tables that agree: whoever is in `leading` is in `all`, and leads here."""

    __slots__ = ("all", "leading")

    def __init__(self) -> None:
        self.all: dict[_Key, Partition] = {}
        self.leading: dict[_Key, Partition] = {}

    def put(self, partition: Partition) -> None:
        """The partition is open from now on, or its role has changed."""
        self.all[partition.key] = partition
        if partition.is_led_here:
            self.leading[partition.key] = partition
        else:
            self.leading.pop(partition.key, None)

    def remove(self, key: _Key) -> None:
        """The partition is not open any more."""
        del self.all[key]
        self.leading.pop(key, None)

    def clear(self) -> list[Partition]:
        """Nothing is open any more; returns what was."""
        former = list(self.all.values())
        self.all.clear()
        self.leading.clear()
        return former

    def is_open(self, partition: Partition) -> bool:
        """Whether this very partition is open: another one of its name may be."""
        return self.all.get(partition.key) is partition

    def of_topic(self, name: str) -> list[Partition]:
        """The open partitions of a topic."""
        return [partition for partition in self.all.values() if partition.topic_name == name]
