"""How far a consumer is in each partition: fetched, processed, committed.

fetched >= processed >= committed. Only what was processed is ever committed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from goqueue.client.types import Message
from goqueue.records import TopicPartition


class Positions:
    """The buffer of fetched messages and the three positions of every partition."""

    def __init__(self) -> None:
        self._fetched: dict[TopicPartition, int] = {}
        self._processed: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        # The first message handed out since the last commit: where an aborted transaction goes back to.
        self._first: dict[TopicPartition, int] = {}
        self._buffer: deque[Message] = deque()
        self._returned: list[Message] = []

    def __bool__(self) -> bool:
        return bool(self._buffer)

    def take_in(self, messages: Iterable[Message], next_offsets: Mapping[TopicPartition, int]) -> None:
        """Buffer what a fetch brought."""
        self._buffer.extend(messages)
        self._fetched.update(next_offsets)

    def hand_out(self, limit: int) -> list[Message]:
        """Give messages to the program. They count as processed when it comes back for more."""
        self.settle()
        self._returned = [self._buffer.popleft() for _ in range(min(limit, len(self._buffer)))]
        for message in self._returned:
            self._first.setdefault(TopicPartition(message.topic, message.partition), message.offset)
        return self._returned

    def settle(self) -> None:
        """The program has come back: what it was given is processed."""
        for message in self._returned:
            self._processed[TopicPartition(message.topic, message.partition)] = message.offset + 1
        self._returned = []

    def to_fetch(self, partitions: Iterable[TopicPartition]) -> dict[str, dict[str, int]]:
        """Where to read on, as the poll route takes it; partitions never read are left to their commit."""
        wanted: dict[str, dict[str, int]] = {}
        for at in partitions:
            if (offset := self._fetched.get(at)) is not None:
                wanted.setdefault(at.topic, {})[str(at.partition)] = offset
        return wanted

    def to_commit(self) -> dict[TopicPartition, int]:
        """What was processed since the last commit."""
        return {at: offset for at, offset in self._processed.items() if self._committed.get(at) != offset}

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """The broker has stored these."""
        self._committed.update(offsets)
        for at in offsets:
            self._first.pop(at, None)

    def rewind(self) -> None:
        """Read again all that was handed out since the last commit."""
        for at, offset in list(self._first.items()):
            committed = self._committed.get(at)
            self.seek(at, offset)
            if committed is not None:
                self._committed[at] = committed

    def seek(self, at: TopicPartition, offset: int) -> None:
        """Read this partition from `offset` next, whatever was fetched of it."""
        self.forget(frozenset({at}))
        self._fetched[at] = offset

    def forget(self, lost: frozenset[TopicPartition]) -> None:
        """These partitions belong to somebody else now."""
        for at in lost:
            for table in (self._fetched, self._processed, self._committed, self._first):
                table.pop(at, None)
        self._buffer = deque(m for m in self._buffer if (m.topic, m.partition) not in lost)
        self._returned = [m for m in self._returned if (m.topic, m.partition) not in lost]
