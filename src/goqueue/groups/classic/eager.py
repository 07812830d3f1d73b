"""Eager groups for clients that bring no assignor of their own.

They are classic groups of a protocol type of their own, so that they never share one with
Kafka's clients. Whichever member leads a generation, its assignment is made here: by range.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from goqueue.broker.topics import TopicService
from goqueue.errors import InvalidRequest, TopicNotFound
from goqueue.groups.classic.client_metadata import (
    EAGER_PROTOCOL_TYPE,
    assigned_partitions,
    encode_assignment,
    encode_subscription,
    subscribed_topics,
)
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
from goqueue.groups.queue.settings import AsQueue, Sharing
from goqueue.groups.service import GroupService
from goqueue.groups.subscription.assignors import Subscriber, assign_range
from goqueue.records import TopicPartition

_PROTOCOL = "range"


@dataclass(frozen=True, slots=True)
class EagerMember:
    """A member's place in its generation. Only the leader is told who else is in it."""

    member_id: str
    generation: int
    leader: str
    partitions: frozenset[TopicPartition]
    members: tuple[str, ...]
    # Topics that the member named and that do not exist: it reads them once they do.
    missing_topics: tuple[str, ...] = ()


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
        names = list(topics)
        if not names:
            raise InvalidRequest("a member must name at least one topic", field="topics")
        missing = missing_topics(self._topics, names, is_member=bool(member_id))
        if as_queue is not None:
            wish = as_queue
            settings = await self._groups.ensure_queue(group, sharing=wish.sharing, key_ordered=wish.key_ordered)
            if settings.sharing == Sharing.SHARED:
                return await self._join_shared(group, names, missing, member_id, client_id, client_host)
        joined = await self._groups.join(
            JoinGroup(
                group=group,
                member_id=member_id,
                new_member_id="",
                protocol_type=EAGER_PROTOCOL_TYPE,
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
            missing,
        )

    async def _join_shared(
        self,
        group: str,
        names: Sequence[str],
        missing: tuple[str, ...],
        member_id: str,
        client_id: str,
        client_host: str,
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
        found = filter(None, map(self._topics.find, names))
        topics = {topic.topic_id: topic.name for topic in found}
        shared = frozenset(
            TopicPartition(topics[one.topic_id], one.partition)
            for one in beat.assignment or ()
            # A topic may have been deleted since the coordinator answered.
            if one.topic_id in topics
        )
        return EagerMember(beat.member_id, beat.member_epoch, "", shared, (), missing)

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
        shares = assign_range(subscribers, {topic_id: topic.partition_count for topic_id, topic in topics.items()})
        return {
            member: encode_assignment(TopicPartition(topics[topic_id].name, partition) for topic_id, partition in share)
            for member, share in shares.items()
        }


def missing_topics(topics: TopicService, names: Iterable[str], *, is_member: bool) -> tuple[str, ...]:
    """Those of the names that no topic has. A newcomer none of whose topics exists is refused: it misspelt them.

    A topic that is deleted must not keep the members of its group from the others, nor from coming back.
    """
    wanted = list(dict.fromkeys(names))
    missing = tuple(name for name in wanted if topics.find(name) is None)
    if missing and len(missing) == len(wanted) and not is_member:
        raise TopicNotFound(missing[0])
    return missing


def _topics_of(member: JoinedMember) -> frozenset[str]:
    return subscribed_topics(member.metadata) or frozenset()
