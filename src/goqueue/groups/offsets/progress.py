"""How far groups are: lag in messages and in seconds, and moving offsets by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import msgspec

from goqueue.broker.reading.queries import EARLIEST, LATEST, PartitionOffsets
from goqueue.broker.reading.record_reads import ReadsRecords
from goqueue.broker.replicas.partition_facts import PartitionFacts
from goqueue.broker.topics import TopicService
from goqueue.clock import Clock
from goqueue.errors import (
    GroupNotEmpty,
    GroupNotFound,
    InvalidRequest,
    PartitionNotFound,
    TopicIdNotFound,
    TopicNotFound,
)
from goqueue.groups.classic.client_metadata import subscribed_topics
from goqueue.groups.descriptions import ClassicMemberDescription
from goqueue.groups.service import GroupService, NewOffset
from goqueue.groups.subscription.topic_partitions import PartitionSet
from goqueue.records import Isolation, TopicPartition

_ONE_RECORD_BYTES = 64 * 1024


class PartitionProgress(msgspec.Struct, frozen=True):
    """One partition of a group. `lag_seconds` is the age of the oldest message not yet read.

    `committed` is None where the group has committed nothing yet: there all messages count as not read.
    """

    topic: str
    partition: int
    committed: int | None
    end: int
    lag: int
    lag_seconds: float
    metadata: str
    committed_ms: int


class Target(msgspec.Struct, frozen=True):
    """Where offsets are to go: exactly one of these is given."""

    earliest: bool = False
    latest: bool = False
    timestamp_ms: int | None = None
    offset: int | None = None
    shift: int | None = None


class Change(msgspec.Struct, frozen=True):
    """One partition's offset before and after; None before means that there was none."""

    topic: str
    partition: int
    before: int | None
    after: int


class GroupProgress:
    """Lag of groups, and resets of their offsets."""

    def __init__(
        self,
        groups: GroupService,
        topics: TopicService,
        facts: PartitionFacts,
        reads: ReadsRecords,
        clock: Clock,
    ) -> None:
        self._groups = groups
        self._topics = topics
        self._facts = facts
        self._reads = reads
        self._clock = clock

    async def of(self, group: str) -> list[PartitionProgress]:
        """Every partition of the topics that the group reads or has committed, in order."""
        committed = await self._groups.fetch_offsets(group)
        places = await self._read_by(group, {at.topic for at in committed})
        unsettled = await self._groups.unsettled(group, sorted(places | committed.keys()))
        rows = []
        for at in sorted(places | committed.keys()):
            try:
                bounds = (await self._facts.bounds([at]))[at]
            except (TopicNotFound, PartitionNotFound):
                # The topic has gone since; its offsets follow when they expire.
                continue
            last = committed.get(at)
            end, start = bounds.last_stable_offset, bounds.log_start_offset
            offset = start if last is None else last.offset
            lag = max(0, end - max(offset, start)) if at not in unsettled else unsettled[at]
            seconds = await self._lag_seconds(at, max(offset, start)) if lag else 0.0
            rows.append(
                PartitionProgress(
                    *at,
                    None if last is None else last.offset,
                    end,
                    lag,
                    seconds,
                    "" if last is None else last.metadata,
                    0 if last is None else last.committed_ms,
                )
            )
        return rows

    async def _read_by(self, group: str, topics: set[str]) -> set[TopicPartition]:
        """The partitions of these topics, and of those that the members read."""
        try:
            described = await self._groups.describe(group)
        except GroupNotFound:
            return set()
        for member in described.members:
            if isinstance(member, ClassicMemberDescription):
                topics |= subscribed_topics(member.metadata) or frozenset()
            else:
                topics |= frozenset(member.topics) | self._named(member.target)
        found = [(name, self._topics.find(name)) for name in topics]
        return {
            TopicPartition(name, number)
            for name, topic in found
            if topic is not None and not topic.internal
            for number in range(topic.partition_count)
        }

    def _named(self, partitions: PartitionSet) -> set[str]:
        """The topics of partitions that were assigned by pattern."""
        names = set()
        for topic_id in {one.topic_id for one in partitions}:
            with suppress(TopicIdNotFound):
                names.add(self._topics.by_id(topic_id).name)
        return names

    async def reset(
        self,
        group: str,
        target: Target,
        *,
        topic: str | None = None,
        partitions: Sequence[int] | None = None,
        dry_run: bool = False,
    ) -> list[Change]:
        """Move the offsets of a group without members; with `dry_run`, only say how."""
        committed = await self._groups.fetch_offsets(group)
        wanted = self._wanted(group, committed.keys(), topic, partitions)
        await self._check_inactive(group)
        changes = []
        for at, bounds in (await self._facts.bounds(wanted)).items():
            before = committed[at].offset if at in committed else None
            changes.append(Change(*at, before, await self._aim(at, before, target, bounds)))
        if not dry_run and changes:
            moved = [NewOffset(one.topic, one.partition, one.after) for one in changes]
            for problem in await self._groups.commit(group, moved):
                if problem is not None:
                    raise problem
        return changes

    def _wanted(
        self, group: str, committed: Iterable[TopicPartition], topic: str | None, partitions: Sequence[int] | None
    ) -> list[TopicPartition]:
        if topic is None:
            if partitions:
                raise InvalidRequest("a partition is given without its topic: name the topic too", field="topic")
            known = sorted(committed)
            if not known:
                raise GroupNotFound(group)
            return known
        count = self._topics.get(topic).partition_count
        for partition in partitions or ():
            if not 0 <= partition < count:
                raise PartitionNotFound(topic, partition)
        return [TopicPartition(topic, one) for one in (partitions or range(count))]

    async def _check_inactive(self, group: str) -> None:
        try:
            described = await self._groups.describe(group)
        except GroupNotFound:
            return
        if described.members:
            raise GroupNotEmpty(f"group {group!r} has {len(described.members)} active members: stop them first")

    async def _aim(self, at: TopicPartition, before: int | None, target: Target, bounds: PartitionOffsets) -> int:
        at_time = 0 if target.timestamp_ms is None else await self._at_time(at, target.timestamp_ms)
        aims: list[tuple[object, Callable[[], int]]] = [
            (target.earliest or None, lambda: bounds.log_start_offset),
            (target.latest or None, lambda: bounds.last_stable_offset),
            (target.timestamp_ms, lambda: at_time),
            (target.offset, lambda: target.offset or 0),
            (target.shift, lambda: (before if before is not None else bounds.log_start_offset) + (target.shift or 0)),
        ]
        given = [aim for value, aim in aims if value is not None]
        if len(given) != 1:
            raise InvalidRequest("name exactly one target: earliest, latest, timestamp, offset or shift", field="to")
        # Kafka's tool does the same: an aim outside the log means its nearest end.
        return min(max(given[0](), bounds.log_start_offset), bounds.last_stable_offset)

    async def _at_time(self, at: TopicPartition, timestamp_ms: int) -> int:
        for spec in (timestamp_ms, LATEST, EARLIEST):
            found = await self._facts.offset_at(at, spec, Isolation.READ_COMMITTED)
            if found is not None:
                return found.offset
        return 0

    async def _lag_seconds(self, at: TopicPartition, offset: int) -> float:
        found = (await self._reads.read({at: offset}, limit=1, max_bytes=_ONE_RECORD_BYTES, is_counted=False))[at]
        if not found.records:
            return 0.0
        since_ms = found.records[0].timestamp_ms
        if since_ms <= 0:  # not a time: the producer sent none
            since_ms = await self._facts.append_time_ms(at, found.records[0].offset)
        return max(0, self._clock.now_ms() - since_ms) / 1000
