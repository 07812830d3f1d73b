"""Incremental fetch sessions (KIP-227): what a reader fetches, so that it names, and is told, only what changed.

A session begins with epoch 0 and its requests count up from 1. It is known by its id alone and outlives its
connection. The cache is bounded in sessions and in partitions; when it is full, the session that was not used
for the longest time goes, if that is two minutes, or else the newcomer fetches without one.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from goqueue.broker.reading.fetch import FetchedPartition, PartitionRead

FULL_EPOCH = 0
FINAL_EPOCH = -1
FETCH_SESSION_ID_NOT_FOUND = 70
INVALID_FETCH_SESSION_EPOCH = 71
FETCH_SESSION_TOPIC_ID_ERROR = 106

EVICTABLE_MS = 120_000
# Of all sessions together; some 300 bytes each.
PARTITIONS_MAX = 200_000
_EPOCH_MAX = 2**31 - 1

# A topic as requests of the session name it: by id from version 13 on, by name before.
TopicKey = UUID | str | None


class SessionKey(NamedTuple):
    """One partition of a session."""

    topic: TopicKey
    partition: int


class SessionPartition:
    """What the reader last asked of a partition, and what it was last told."""

    __slots__ = ("high_watermark", "key", "log_start_offset", "read")

    def __init__(self, key: SessionKey, read: PartitionRead) -> None:
        self.key = key
        self.read = read
        self.high_watermark = -1
        self.log_start_offset = -1

    def is_news(self, fetched: FetchedPartition) -> bool:
        """Whether the reader must hear of this; it is taken to have heard it."""
        if fetched.error is not None:
            # Whatever comes after an error is news again.
            self.high_watermark = -1
            return True
        news = bool(fetched.batches) or (
            fetched.high_watermark != self.high_watermark or fetched.log_start_offset != self.log_start_offset
        )
        self.high_watermark = fetched.high_watermark
        self.log_start_offset = fetched.log_start_offset
        return news


class FetchSession:
    """One reader's session; its partitions in the order in which they are read."""

    __slots__ = ("epoch", "id", "partitions", "used_ms", "uses_ids")

    def __init__(self, session_id: int, *, uses_ids: bool, now_ms: int) -> None:
        self.id = session_id
        self.epoch = 1
        self.uses_ids = uses_ids
        self.used_ms = now_ms
        self.partitions: dict[SessionKey, SessionPartition] = {}

    def put(self, key: SessionKey, read: PartitionRead) -> None:
        """Add a partition, or read it from elsewhere."""
        known = self.partitions.get(key)
        if known is None:
            self.partitions[key] = SessionPartition(key, read)
        else:
            known.read = read

    def give_way(self, keys: Iterable[SessionKey]) -> None:
        """Read these last from now on: they had their turn, and others may not have fitted beside them."""
        for key in keys:
            one = self.partitions.pop(key, None)
            if one is not None:
                self.partitions[key] = one


class FetchSessions:
    """All sessions of a node, the one that was not used for the longest time first."""

    def __init__(self, sessions_max: int = 1_000, *, partitions_max: int = PARTITIONS_MAX) -> None:
        self._sessions_max = sessions_max
        self._partitions_max = partitions_max
        self._sessions: dict[int, FetchSession] = {}
        self._partition_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def open(
        self, reads: Sequence[tuple[SessionKey, PartitionRead]], *, uses_ids: bool, now_ms: int
    ) -> FetchSession | None:
        """Begin a session; None when there is no room for it."""
        if not reads or not self._make_room(len(reads), now_ms):
            return None
        session = FetchSession(self._new_id(), uses_ids=uses_ids, now_ms=now_ms)
        for key, read in reads:
            session.put(key, read)
        self._sessions[session.id] = session
        self._partition_count += len(session.partitions)
        return session

    def go_on(self, session_id: int, epoch: int, *, uses_ids: bool, now_ms: int) -> FetchSession | int:
        """The session of a request with this epoch, whose next must have the one that follows; or an error code."""
        session = self._sessions.get(session_id)
        if session is None:
            return FETCH_SESSION_ID_NOT_FOUND
        if epoch != session.epoch:
            return INVALID_FETCH_SESSION_EPOCH
        if uses_ids != session.uses_ids:
            return FETCH_SESSION_TOPIC_ID_ERROR
        session.epoch = 1 if epoch == _EPOCH_MAX else epoch + 1
        session.used_ms = now_ms
        del self._sessions[session_id]
        self._sessions[session_id] = session
        return session

    def change(
        self,
        session: FetchSession,
        reads: Sequence[tuple[SessionKey, PartitionRead]],
        forgotten: Iterable[SessionKey],
    ) -> bool:
        """Add, move and forget partitions. False when the cache has no room for them: the session is closed."""
        before = len(session.partitions)
        for key in forgotten:
            session.partitions.pop(key, None)
        for key, read in reads:
            session.put(key, read)
        self._partition_count += len(session.partitions) - before
        if session.partitions and self._partition_count <= self._partitions_max:
            return True
        self.close(session.id)
        return not session.partitions

    def close(self, session_id: int) -> None:
        """End a session, if there is one."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partition_count -= len(session.partitions)

    def _make_room(self, partitions: int, now_ms: int) -> bool:
        while self._is_full(partitions):
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now_ms - oldest.used_ms < EVICTABLE_MS:
                return False
            self.close(oldest.id)
        return True

    def _is_full(self, partitions: int) -> bool:
        return len(self._sessions) >= self._sessions_max or self._partition_count + partitions > self._partitions_max

    def _new_id(self) -> int:
        while True:
            session_id = secrets.randbelow(2**31 - 1) + 1
            if session_id not in self._sessions:
                return session_id
