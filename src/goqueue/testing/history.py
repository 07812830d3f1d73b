"""History: what clients were promised, and whether a node still keeps it.

Every message carries a value of its own, so what is read can be told apart. A promise is
noted when the reply came; an attempt when it was made, for after a crash it may or may not
have happened. `check` reads everything back and names the first broken promise.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from goqueue.records import TopicPartition
from goqueue.servers.services import Services

_READ_BYTES = 64 * 1024
_READ_RECORDS = 1000


class BrokenPromise(AssertionError):
    """The node said that something was done, and now it is not; or did what nobody asked for."""


@dataclass(slots=True)
class History:
    """All that happened between clients and a node, over all its lives."""

    # Every value that was ever sent to a partition.
    sent: dict[TopicPartition, set[bytes]] = field(default_factory=lambda: defaultdict(set))
    # Offset to value, acknowledged with acks=all.
    acknowledged: dict[TopicPartition, dict[int, bytes]] = field(default_factory=lambda: defaultdict(dict))
    # Its timestamp, from which its age counts; and how long each topic keeps what it has, if not for ever.
    stamped_ms: dict[TopicPartition, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    retention_ms: dict[str, int] = field(default_factory=dict)
    # Of compacted topics: the values that were sent for a key, in order, and how many are acknowledged for sure.
    updates: dict[tuple[TopicPartition, bytes], list[bytes]] = field(default_factory=lambda: defaultdict(list))
    updates_acknowledged: dict[tuple[TopicPartition, bytes], int] = field(default_factory=dict)
    # Offsets that a group tried to commit, in order, and how many of them were acknowledged for sure.
    commits: dict[tuple[str, TopicPartition], list[int]] = field(default_factory=lambda: defaultdict(list))
    commits_acknowledged: dict[tuple[str, TopicPartition], int] = field(default_factory=dict)
    topics: set[str] = field(default_factory=set)
    topics_deleted: set[str] = field(default_factory=set)
    producer_ids: list[int] = field(default_factory=list)

    def acknowledge(self, at: TopicPartition, offset: int, value: bytes, stamped_ms: int) -> None:
        """A message was acknowledged with acks=all."""
        self.acknowledged[at][offset] = value
        self.stamped_ms[at][offset] = stamped_ms

    def try_update(self, at: TopicPartition, key: bytes, value: bytes) -> None:
        """A key of a compacted topic is about to get a new value."""
        self.updates[at, key].append(value)

    def updated(self, at: TopicPartition, key: bytes) -> None:
        """The key's last update was acknowledged."""
        self.updates_acknowledged[at, key] = len(self.updates[at, key])

    def try_commit(self, group: str, at: TopicPartition, offset: int) -> None:
        """A group is about to commit."""
        self.commits[group, at].append(offset)

    def committed(self, group: str, at: TopicPartition) -> None:
        """The group's last commit was acknowledged."""
        self.commits_acknowledged[group, at] = len(self.commits[group, at])

    async def check(self, services: Services) -> None:
        """Read everything back and compare."""
        names = {topic.name for topic in services.topics.list()}
        if missing := self.topics - names:
            raise BrokenPromise(f"topics {sorted(missing)} were created and are gone")
        if back := self.topics_deleted & names:
            raise BrokenPromise(f"topics {sorted(back)} were deleted and are back")
        if len(set(self.producer_ids)) != len(self.producer_ids):
            raise BrokenPromise(f"a producer id was given out twice: {sorted(self.producer_ids)}")
        now_ms = services.clock.now_ms()
        for at in sorted(self.sent):
            if at.topic in names:
                start, stored = await _read_all(services, at)
                self._check_messages(at, start, {offset: value for offset, (_, value) in stored.items()}, now_ms)
        for at in sorted({at for at, _ in self.updates}):
            _, stored = await _read_all(services, at)
            self._check_table(at, dict(stored.values()))
        for group, at in sorted(self.commits):
            if at.topic in names:
                await self._check_commit(services, group, at)

    def _check_messages(self, at: TopicPartition, start: int, stored: dict[int, bytes], now_ms: int) -> None:
        for offset, value in stored.items():
            if value not in self.sent[at]:
                raise BrokenPromise(f"{at} has {value!r} at {offset}, which nobody sent there")
        if len(set(stored.values())) != len(stored):
            raise BrokenPromise(f"{at} has a message twice")
        kept_since_ms = now_ms - self.retention_ms[at.topic] if at.topic in self.retention_ms else 0
        for offset, value in self.acknowledged[at].items():
            if offset < start and self.stamped_ms[at][offset] < kept_since_ms:
                continue
            if stored.get(offset) != value:
                raise BrokenPromise(f"{at} lost {value!r}, acknowledged at {offset}; there is {stored.get(offset)!r}")

    def _check_table(self, at: TopicPartition, stored: dict[bytes, bytes]) -> None:
        for (place, key), values in self.updates.items():
            if place != at:
                continue
            sure = self.updates_acknowledged.get((at, key), 0)
            possible: list[bytes | None] = [*values[max(sure - 1, 0) :]]
            if not sure:
                possible.append(None)
            if stored.get(key) not in possible:
                raise BrokenPromise(f"{at} has {stored.get(key)!r} for {key!r}, but should have one of {possible}")

    async def _check_commit(self, services: Services, group: str, at: TopicPartition) -> None:
        fetched = await services.groups.fetch_offsets(group, [at])
        stored = fetched[at].offset if at in fetched else None
        attempts, sure = self.commits[group, at], self.commits_acknowledged.get((group, at), 0)
        possible: list[int | None] = [*attempts[max(sure - 1, 0) :]]
        if not sure:
            possible.append(None)
        if stored not in possible:
            raise BrokenPromise(f"group {group} is at {stored} in {at}, but should be at one of {possible}")
        # From now on it is known which of the attempts happened.
        if stored is not None:
            self.commits[group, at] = [stored]
            self.commits_acknowledged[group, at] = 1


async def _read_all(services: Services, at: TopicPartition) -> tuple[int, dict[int, tuple[bytes, bytes]]]:
    """Where the partition starts, and every record's key and value by its offset."""
    start = services.queries.offsets(at.topic, at.partition).log_start_offset
    stored: dict[int, tuple[bytes, bytes]] = {}
    offset = start
    while True:
        read = (await services.reads.read({at: offset}, limit=_READ_RECORDS, max_bytes=_READ_BYTES))[at]
        if read.error is not None:
            raise BrokenPromise(f"{at} cannot be read at {offset}: {read.error}") from read.error
        stored |= {record.offset: (record.key or b"", record.value or b"") for record in read.records}
        if read.next_offset == offset:
            return start, stored
        offset = read.next_offset
