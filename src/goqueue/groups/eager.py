"""Eager groups for clients that bring no assignor of their own.

They are classic groups of a protocol type of their own, so that they never share one with
Kafka's clients. Whichever member leads a generation, its assignment is made here: by range.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from goqueue.broker.topics import TopicService
from goqueue.errors import InvalidRequest
from goqueue.groups.assignors import Subscriber, assign_range
from goqueue.groups.commands import (
    JOIN_EPOCH,
    ConsumerHeartbeat,
    Heartbeat,
    Joined,
    JoinedMember,
    JoinGroup,
    LeaveGroup,
    Leaver,
    SyncGroup,
)
from goqueue.groups.embedded import assigned_partitions, encode_assignment, encode_subscription, subscribed_topics
from goqueue.groups.queue_settings import AsQueue, Sharing
from goqueue.groups.service import GroupService
from goqueue.records import TopicPartition

PROTOCOL_TYPE = "goqueue"
_PROTOCOL = "range"


@dataclass(frozen=True, slots=True)
class EagerMember:
    """A member's place in its generation. Only the leader is told who else is in it."""

    member_id: str
    generation: int
    leader: str
    partitions: frozenset[TopicPartition]
    members: tuple[str, ...]


class EagerGroups:
    """Join, beat and leave, with the assignment made on this side."""

    def __init__(self, groups: GroupService, topics: TopicService) -> None:
        self._groups = groups
        self._topics = topics

    async def join(
        self,
        group: str,
        topics: Iterable[str],
        *,
        member_id: str = "",
        client_id: str,
        client_host: str,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        as_queue: AsQueue | None = None,
    ) -> EagerMember:
        """Enter, or re-enter with one's member id; answered when all members have come back or ran out of time.

        With `as_queue` the group is a queue group; without, a stream group.
        """
        names = [self._topics.get(name).name for name in topics]
        if not names:
            raise InvalidRequest("a member must name at least one topic", field="topics")
        if as_queue is not None:
            wish = as_queue
            settings = await self._groups.ensure_queue(group, sharing=wish.sharing, key_ordered=wish.key_ordered)
            if settings.sharing == Sharing.SHARED:
                return await self._join_shared(group, names, member_id, client_id, client_host)
        joined = await self._groups.join(
            JoinGroup(
                group=group,
                member_id=member_id,
                new_member_id="",
                protocol_type=PROTOCOL_TYPE,
                protocols=((_PROTOCOL, encode_subscription(names)),),
                session_timeout_ms=session_timeout_ms,
                rebalance_timeout_ms=rebalance_timeout_ms,
                client_id=client_id,
                client_host=client_host,
                id_required=False,
                as_queue=as_queue,
            )
        )
        assignments = self._assign(joined) if joined.leader == joined.member_id else {}
        synced = await self._groups.sync(SyncGroup(group, joined.member_id, joined.generation, assignments))
        return EagerMember(
            joined.member_id,
            joined.generation,
            joined.leader,
            assigned_partitions(synced.assignment),
            tuple(member.member_id for member in joined.members),
        )

    async def _join_shared(
        self, group: str, names: Sequence[str], member_id: str, client_id: str, client_host: str
    ) -> EagerMember:
        """Members that share partitions wait for nobody and lead nobody."""
        beat = await self._groups.consumer_heartbeat(
            ConsumerHeartbeat(
                group,
                member_id,
                JOIN_EPOCH,
                topics=tuple(names),
                client_id=client_id,
                client_host=client_host,
                as_queue=AsQueue(Sharing.SHARED),
                is_share=True,
            )
        )
        topics = {self._topics.get(name).topic_id: name for name in names}
        shared = frozenset(TopicPartition(topics[one.topic_id], one.partition) for one in beat.assignment or ())
        return EagerMember(beat.member_id, beat.member_epoch, "", shared, ())

    async def heartbeat(self, group: str, member_id: str, generation: int) -> None:
        """Still here; raises `RebalanceInProgress` when the member must join again."""
        await self._groups.heartbeat(Heartbeat(group, member_id, generation))

    async def leave(self, group: str, member_id: str) -> None:
        """Go at once instead of letting the session run out."""
        (problem,) = await self._groups.leave(LeaveGroup(group, (Leaver(member_id),)))
        if problem is not None:
            raise problem

    def _assign(self, joined: Joined) -> dict[str, bytes]:
        topics = {}
        for name in frozenset().union(*map(_topics_of, joined.members)):
            if (topic := self._topics.find(name)) is not None:
                topics[topic.topic_id] = topic
        ids: dict[str, UUID] = {topic.name: topic_id for topic_id, topic in topics.items()}
        subscribers = [
            Subscriber(member.member_id, frozenset(ids[name] for name in _topics_of(member) if name in ids))
            for member in joined.members
        ]
        shares = assign_range(subscribers, {topic_id: len(topic.partitions) for topic_id, topic in topics.items()})
        return {
            member: encode_assignment(TopicPartition(topics[topic_id].name, partition) for topic_id, partition in share)
            for member, share in shares.items()
        }


def _topics_of(member: JoinedMember) -> frozenset[str]:
    return subscribed_topics(member.metadata) or frozenset()
