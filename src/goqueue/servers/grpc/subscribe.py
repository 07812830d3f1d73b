"""ConsumeService.Subscribe: a member of a stream group for as long as a stream is open.

The broker joins the group for the reader and sends its heartbeats, so a client needs no second connection and no
timer. Offsets are committed with OffsetService.CommitOffsets, with the member id and the generation that the last
assignment named. Partitions that move to another member are announced first and given up one heartbeat later, so that
what was read of them can be committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from goqueue.errors import (
    CoordinatorUnavailable,
    GoQueueError,
    InvalidRequest,
    NotLeader,
    PeerUnreachable,
    RequestTimedOut,
    StaleMemberEpoch,
    UnknownMember,
)
from goqueue.groups.commands import JOIN_EPOCH, LEAVE_EPOCH, ConsumerHeartbeat
from goqueue.groups.descriptions import ConsumerDescription, ConsumerMemberDescription
from goqueue.groups.polls import Poll
from goqueue.groups.subscription.topic_partitions import NO_PARTITIONS, PartitionSet
from goqueue.protos import common_pb2, consume_pb2
from goqueue.records import TopicPartition
from goqueue.servers.grpc.callers import address_of
from goqueue.servers.grpc.consume import HEARTBEAT_MS, batching_of, heartbeat
from goqueue.servers.grpc.sending import Sending
from goqueue.servers.grpc.values import message_of, unreadable_ranges
from goqueue.servers.services import Services

_MOMENT_SECONDS = 0.05
_PAUSE_SECONDS = 0.2
T = TypeVar("T")


async def subscribe(services: Services, request: Any, context: Any) -> None:
    """Serve one member."""
    if not request.topics and not request.HasField("pattern"):
        raise InvalidRequest("a member must name topics or a pattern", field="topics")
    member = _Member(services, request, context)
    await member.join()
    beating = asyncio.create_task(member.beat())
    reading = asyncio.create_task(member.read())
    try:
        await asyncio.wait((beating, reading), return_when=asyncio.FIRST_COMPLETED)
        for task in (beating, reading):
            if task.done():
                task.result()
    finally:
        for task in (beating, reading):
            task.cancel()
        try:
            # Not awaited one by one: a write to a client that has just gone raises what grpcio likes, and the member
            # would stay in the group, and keep its partitions from others, until its session ends.
            await asyncio.gather(beating, reading, return_exceptions=True)
        finally:
            await asyncio.shield(asyncio.ensure_future(member.leave()))


class _Member:
    """One member: its id and generation, and what it owns."""

    def __init__(self, services: Services, request: Any, context: Any) -> None:
        self._services = services
        self._request = request
        self._context = context
        self._batching = batching_of(services, request)
        self._sending = Sending(context, services.answers)
        self._id = ""
        self._generation = 0
        self._beat_seconds = 3.0
        # What this stream told its client that it owns.
        self._told: frozenset[TopicPartition] | None = None
        self._owned: PartitionSet = NO_PARTITIONS

    async def join(self) -> None:
        """Enter the group, and tell the client what it got."""
        request, config = self._request, self._services.config
        beat = await self._services.groups.consumer_heartbeat(
            ConsumerHeartbeat(
                group=request.group,
                member_id="",
                member_epoch=JOIN_EPOCH,
                instance_id=request.instance_id if request.HasField("instance_id") else None,
                rebalance_timeout_ms=config.groups.revocation_timeout_ms,
                topics=tuple(request.topics),
                regex=request.pattern if request.HasField("pattern") else None,
                owned=NO_PARTITIONS,
                client_id=request.client_id or "grpc",
                client_host=address_of(self._context.peer()),
                as_queue=None,
            )
        )
        self._id, self._generation = beat.member_id, beat.member_epoch
        self._beat_seconds = beat.heartbeat_interval_ms / 1000
        described = await self._described()
        self._owned = described.assigned
        await self._tell(self._named(described.assigned))

    async def beat(self) -> None:
        """Stay in the group, and follow what it assigns."""
        while True:
            await asyncio.sleep(self._beat_seconds)
            beat = await self._patiently(
                lambda: self._services.groups.consumer_heartbeat(
                    ConsumerHeartbeat(self._request.group, self._id, self._generation, owned=self._owned)
                )
            )
            is_new = beat.member_epoch != self._generation
            self._generation = beat.member_epoch
            described = await self._patiently(self._described)
            owned, revoking = self._named(described.assigned), self._named(described.revoking)
            # With the next beat it says that it has given up what is being revoked; until then it may commit.
            self._owned = described.assigned
            if revoking:
                refs = [common_pb2.TopicPartition(topic=at.topic, partition=at.partition) for at in sorted(revoking)]
                revocation = consume_pb2.Revocation(partitions=refs)
                await self._sending.write(consume_pb2.SubscribeResponse(revocation=revocation))
            if is_new or owned != self._told:
                await self._tell(owned)

    async def read(self) -> None:
        """Send messages of the partitions that are the member's."""
        services = self._services
        while True:
            await services.answers.room()
            try:
                polled = await self._patiently(lambda: services.group_polls.poll(self._poll()))
            except StaleMemberEpoch:
                # The group moved on, and a heartbeat is about to say to where.
                await asyncio.sleep(_MOMENT_SECONDS)
                continue
            batch = consume_pb2.MessageBatch()
            for at, records in polled.records.items():
                batch.messages.extend([message_of(at.topic, at.partition, record) for record in records])
            for at, offset in polled.next_offsets.items():
                batch.next_offsets.add(topic=at.topic, partition=at.partition, offset=offset)
            for at, found in polled.unreadable.items():
                batch.unreadable.extend(unreadable_ranges(at, found))
            if batch.messages or batch.unreadable:
                await self._sending.write(consume_pb2.SubscribeResponse(batch=batch))
                polled.sent()
            else:
                await self._sending.write(consume_pb2.SubscribeResponse(heartbeat=heartbeat(services)))

    def _poll(self) -> Poll:
        return Poll(
            group=self._request.group,
            member_id=self._id,
            generation=self._generation,
            limit=self._batching.messages_max,
            max_bytes=self._batching.bytes_max,
            wait_ms=HEARTBEAT_MS,
            from_latest=self._request.start_position == common_pb2.START_POSITION_LATEST,
        )

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask, and again while a coordinator or a leader is being replaced: as long as the group knows the member."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._services.config.groups.session_timeout_ms / 1000
        while True:
            try:
                return await ask()
            except (CoordinatorUnavailable, NotLeader, PeerUnreachable, RequestTimedOut):
                if loop.time() > deadline:
                    raise
            await asyncio.sleep(_PAUSE_SECONDS)

    async def leave(self) -> None:
        """Leave, so that the others get the partitions at once. One that is fenced or evicted has left already."""
        with suppress(GoQueueError):
            await self._services.groups.consumer_heartbeat(
                ConsumerHeartbeat(self._request.group, self._id, LEAVE_EPOCH)
            )
        self._services.group_polls.forget(self._request.group, self._id)

    async def _described(self) -> ConsumerMemberDescription:
        described = await self._services.groups.describe(self._request.group)
        if isinstance(described, ConsumerDescription):
            for member in described.members:
                if member.member_id == self._id:
                    return member
        raise UnknownMember(f"{self._id!r} is not a member of group {self._request.group!r}")

    async def _tell(self, owned: frozenset[TopicPartition]) -> None:
        self._told = owned
        refs = [common_pb2.TopicPartition(topic=at.topic, partition=at.partition) for at in sorted(owned)]
        assignment = consume_pb2.Assignment(member_id=self._id, generation=self._generation, partitions=refs)
        await self._sending.write(consume_pb2.SubscribeResponse(assignment=assignment))

    def _named(self, partitions: PartitionSet) -> frozenset[TopicPartition]:
        names = {topic.topic_id: topic.name for topic in self._services.topics.list()}
        return frozenset(
            TopicPartition(names[one.topic_id], one.partition) for one in partitions if one.topic_id in names
        )
