"""Messages that carry a count within their partition, and what must be true of them in the end.

What was acknowledged must be there, what is there must have been sent, and counts must not go back within a partition.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

PARTITIONS = 6
_READ_SECONDS_MAX = 240


class NumberedMessages:
    """The account of one topic: what was sent and acknowledged, and what is read back."""

    def __init__(self, servers: str, topic: str) -> None:
        self._servers = servers
        self._topic = topic
        self.sent: Counter[int] = Counter()
        self.acknowledged: dict[int, set[int]] = defaultdict(set)
        # Whatever reached the application as an error.
        self.failed: list[str] = []

    @property
    def acknowledged_count(self) -> int:
        """Over all partitions."""
        return sum(map(len, self.acknowledged.values()))

    def check(self) -> None:
        """Read everything back and compare."""
        for partition, counts in self._read().items():
            where = f"partition {partition} of {self._topic}"
            assert counts == sorted(counts), f"{where} is out of order"
            assert len(counts) == len(set(counts)), f"{where} has a message twice"
            assert set(counts) <= set(range(self.sent[partition])), f"{where} has what nobody sent"
            lost = self.acknowledged[partition] - set(counts)
            assert not lost, f"{where} lost {len(lost)} acknowledged messages: {sorted(lost)[:5]}"
        # Last: what was lost or stored twice matters more.
        assert not self.failed, f"{self._topic}: {len(self.failed)} failed: {self.failed[:5]}"

    def check_seen(self, seen: dict[int, set[int]], group: str) -> None:
        """A group that commits was given all of it at least once, and nothing that nobody sent."""
        for partition, acknowledged in self.acknowledged.items():
            where = f"partition {partition} of {self._topic}"
            unseen = acknowledged - seen[partition]
            assert not unseen, f"group {group} did not see {len(unseen)} of {where}: {sorted(unseen)[:5]}"
            assert seen[partition] <= set(range(self.sent[partition])), f"group {group} saw what nobody sent in {where}"

    def _read(self) -> dict[int, list[int]]:
        settings = {"bootstrap.servers": self._servers, "group.id": "checker", "enable.auto.commit": False}
        consumer = Consumer({**settings, "isolation.level": "read_committed"})
        places = [TopicPartition(self._topic, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)]
        ends = {place.partition: consumer.get_watermark_offsets(place, timeout=30)[1] for place in places}
        found: dict[int, list[int]] = {partition: [] for partition in ends}
        consumer.assign(places)
        deadline = time.monotonic() + _READ_SECONDS_MAX
        while any(len(found[partition]) < end for partition, end in ends.items()) and time.monotonic() < deadline:
            for message in consumer.consume(10_000, 1.0):
                if message.error() is None:
                    found[message.partition()].append(int(message.value()))
        consumer.close()
        return found
