"""Polling as a member: records of the partitions that are the member's own.

Where a member stands is kept in memory and begins at what its group committed; a member
that keeps its own positions names them instead. It moves on when what was read has been sent,
and a member that did not get it reads it again by asking so. Nothing is read for whom the group
does not know, or knows under another generation.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

import msgspec

from goqueue.broker.reading.queries import EARLIEST, LATEST
from goqueue.broker.reading.record_reads import ReadsRecords, RecordsRead
from goqueue.broker.reading.unreadable import Unreadable
from goqueue.broker.replicas.partition_facts import PartitionFacts
from goqueue.broker.topics import TopicService
from goqueue.caller import ANONYMOUS, Caller
from goqueue.clock import Clock
from goqueue.errors import (
    GroupModeMismatch,
    IllegalGeneration,
    OffsetOutOfRange,
    PartitionNotFound,
    StaleMemberEpoch,
    TopicIdNotFound,
    TopicNotFound,
    UnknownMember,
)
from goqueue.groups.classic.client_metadata import assigned_partitions
from goqueue.groups.commands import Heartbeat
from goqueue.groups.descriptions import ClassicDescription, ConsumerDescription, GroupType
from goqueue.groups.queue.settings import Mode
from goqueue.groups.service import GroupService
from goqueue.records import Isolation, Record, TopicPartition

# Members are looked at again this often while a poll waits, so that a lost partition is not read for long.
_SLICE_MS = 3_000
# A member that owns nothing has nothing else to notice by that it was given something.
_IDLE_SLICE_MS = 100
# Positions of members that vanished without leaving; the longest quiet goes first.
_MEMBERS_MAX = 10_000


class Poll(msgspec.Struct, frozen=True):
    """What a member asks for."""

    group: str
    member_id: str
    generation: int
    limit: int
    max_bytes: int
    wait_ms: int
    from_latest: bool = False
    positions: Mapping[TopicPartition, int] | None = None
    # Read once more from where the last poll began: its answer was lost.
    again: bool = False
    paused: Collection[TopicPartition] = frozenset()


# Beside each position the topic that it was reached in: one made again under the name begins anew.
_Places = dict[TopicPartition, tuple[UUID, int]]


@dataclass(slots=True)
class _Standing:
    """Where a member's last poll began, and where it ended. It counts as ended once it is sent."""

    began: _Places = field(default_factory=dict)
    ended: _Places = field(default_factory=dict)
    is_sent: bool = False


class Polled(msgspec.Struct, frozen=True):
    """Records by partition, and where each partition is to be read on."""

    records: dict[TopicPartition, list[Record]]
    next_offsets: dict[TopicPartition, int]
    generation: int
    _standing: _Standing
    # What was passed over because nobody can read it.
    unreadable: dict[TopicPartition, Sequence[Unreadable]]

    def sent(self) -> None:
        """The member has been sent this: its next poll reads on behind it."""
        self._standing.is_sent = True


class GroupPolls:
    """Reads for members of groups of either protocol."""

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
        self._held: OrderedDict[tuple[str, str], _Standing] = OrderedDict()

    async def poll(self, poll: Poll, *, caller: Caller = ANONYMOUS) -> Polled:
        """Records of the member's partitions, waiting for the first up to `wait_ms`.

        Whoever hands them on says so by `sent`; without that the next poll begins here again.
        """
        until_ms = self._clock.monotonic_ms() + poll.wait_ms
        known, standing = self._known(poll), _Standing()
        while True:
            described = await self._groups.describe(poll.group)
            if described.queue is not None:
                raise GroupModeMismatch(poll.group, Mode.QUEUE)
            owned, generation = await self._owned(described, poll.member_id, poll.generation)
            positions = await self._positions(poll, self._offsets(known), owned - frozenset(poll.paused))
            # What is paused keeps its place; what is no longer owned may have been read on by another.
            known = {at: place for at, place in {**known, **self._places(positions)}.items() if at in owned}
            standing.began = {at: standing.began.get(at, place) for at, place in known.items()}
            if poll.positions is None:
                self._remember(poll, standing)
            left_ms = max(0, until_ms - self._clock.monotonic_ms())
            slice_ms = min(left_ms, _SLICE_MS if positions else _IDLE_SLICE_MS)
            if positions:
                found = await self._reads.read(
                    positions,
                    limit=poll.limit,
                    max_bytes=poll.max_bytes,
                    wait_ms=slice_ms,
                    isolation=Isolation.READ_COMMITTED,
                    caller=caller,
                )
            else:
                # A read of nothing is answered at once: without a pause this loop would hold up the whole node.
                found = {}
                await asyncio.sleep(slice_ms / 1000)
            next_offsets = {at: await self._next(at, one, poll) for at, one in found.items() if not _is_deleted(one)}
            # Control records and compacted holes move a position without bringing a record.
            known.update(self._places(next_offsets))
            records = {at: one.records for at, one in found.items() if one.records}
            unreadable = {at: one.unreadable for at, one in found.items() if one.unreadable}
            if records or unreadable or left_ms <= slice_ms:
                standing.ended = known
                return Polled(records, next_offsets, generation, standing, unreadable)

    async def assignment(self, group: str, member_id: str, generation: int) -> tuple[frozenset[TopicPartition], int]:
        """What the member owns now; refused to strangers and under an old generation."""
        return await self._owned(await self._groups.describe(group), member_id, generation)

    def forget(self, group: str, member_id: str) -> None:
        """The member has left: its position goes with it."""
        self._held.pop((group, member_id), None)

    async def _owned(
        self, described: ClassicDescription | ConsumerDescription, member_id: str, generation: int
    ) -> tuple[frozenset[TopicPartition], int]:
        if isinstance(described, ConsumerDescription):
            if described.type is GroupType.SHARE:
                # A member that polls is alive; what it may read depends on no other member, so no epoch can be old.
                await self._groups.heartbeat(Heartbeat(described.group, member_id, generation))
                generation = described.epoch
            return self._cooperative(described, member_id, generation)
        return await self._eager(described, member_id, generation)

    def _cooperative(
        self, described: ConsumerDescription, member_id: str, generation: int
    ) -> tuple[frozenset[TopicPartition], int]:
        for member in described.members:
            if member.member_id == member_id:
                if generation != member.member_epoch:
                    raise StaleMemberEpoch(
                        f"generation {generation} is not the member's, which is {member.member_epoch}: send a heartbeat"
                    )
                owned = set()
                for topic_id, partition in member.assigned:
                    try:
                        owned.add(TopicPartition(self._topics.by_id(topic_id).name, partition))
                    except TopicIdNotFound:
                        continue
                return frozenset(owned), member.member_epoch
        raise UnknownMember(f"{member_id!r} is not a member of group {described.group!r}")

    async def _eager(
        self, described: ClassicDescription, member_id: str, generation: int
    ) -> tuple[frozenset[TopicPartition], int]:
        for member in described.members:
            if member.member_id == member_id:
                if generation != described.generation:
                    raise IllegalGeneration(f"generation {generation} is over; the group is at {described.generation}")
                # A member that polls is alive, and must hear of a rebalance.
                await self._groups.heartbeat(Heartbeat(described.group, member_id, generation))
                # Until the group has rebalanced, what a deleted topic had is still part of the assignment.
                owned = frozenset(filter(self._exists, assigned_partitions(member.assignment)))
                return owned, described.generation
        raise UnknownMember(f"{member_id!r} is not a member of group {described.group!r}")

    async def _positions(
        self, poll: Poll, known: Mapping[TopicPartition, int], wanted: frozenset[TopicPartition]
    ) -> dict[TopicPartition, int]:
        positions = {at: known[at] for at in wanted if at in known}
        fresh = sorted(wanted - positions.keys())
        if fresh:
            committed = await self._groups.fetch_offsets(poll.group, fresh)
            for at in filter(self._exists, fresh):
                positions[at] = committed[at].offset if at in committed else await self._reset(at, poll)
        return positions

    def _exists(self, at: TopicPartition) -> bool:
        topic = self._topics.find(at.topic)
        return topic is not None and at.partition < topic.partition_count

    async def _reset(self, at: TopicPartition, poll: Poll) -> int:
        spec = LATEST if poll.from_latest else EARLIEST
        found = await self._facts.offset_at(at, spec, Isolation.READ_COMMITTED)
        return 0 if found is None else found.offset

    async def _next(self, at: TopicPartition, found: RecordsRead, poll: Poll) -> int:
        if isinstance(found.error, OffsetOutOfRange):
            # What the member stood at is gone, by retention or by a deletion: begin where it said.
            return await self._reset(at, poll)
        if found.error is not None:
            raise found.error
        return found.next_offset

    def _known(self, poll: Poll) -> _Places:
        """Where the member stands, by its own word or by ours."""
        if poll.positions is not None:
            return self._places(poll.positions)
        standing = self._held.get((poll.group, poll.member_id))
        if standing is None:
            return {}
        return standing.ended if standing.is_sent and not poll.again else standing.began

    def _places(self, offsets: Mapping[TopicPartition, int]) -> _Places:
        found = {at: (self._topics.find(at.topic), offset) for at, offset in offsets.items()}
        return {at: (topic.topic_id, offset) for at, (topic, offset) in found.items() if topic is not None}

    def _offsets(self, places: _Places) -> dict[TopicPartition, int]:
        found = {at: (self._topics.find(at.topic), place) for at, place in places.items()}
        return {
            at: offset
            for at, (topic, (topic_id, offset)) in found.items()
            if topic is not None and topic.topic_id == topic_id
        }

    def _remember(self, poll: Poll, standing: _Standing) -> None:
        key = (poll.group, poll.member_id)
        self._held[key] = standing
        self._held.move_to_end(key)
        if len(self._held) > _MEMBERS_MAX:
            self._held.popitem(last=False)


def _is_deleted(found: RecordsRead) -> bool:
    """Whether the topic went while it was read: the member's other partitions are read all the same."""
    return isinstance(found.error, TopicNotFound | PartitionNotFound)
