"""Replication: the streams of this node, as its roles want them.

As a follower it has up to two streams to every leader: one for the partitions in which it is in sync, and one for those
in which it is catching up. As a leader it serves the streams that its followers open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count

from goqueue.broker.replicas.local_writer import Syncer
from goqueue.broker.replicas.partitions import Partitions
from goqueue.broker.replicas.roles import Following, Role, role_of
from goqueue.clock import Clock
from goqueue.cluster.network import CATCHING_UP, REPLICATION, PeerConnection, PeerNetwork
from goqueue.cluster.replication.counts import CopyCounts
from goqueue.cluster.replication.follower_stream import FollowerStream
from goqueue.cluster.replication.leader_stream import LeaderStream
from goqueue.cluster.replication.terms import Terms
from goqueue.metadata.events import (
    Assignment,
    AssignmentsChanged,
    Delta,
    PartitionsAdded,
    SessionChanged,
    TopicCreated,
    TopicDeleted,
)
from goqueue.metadata.store import MetadataStore
from goqueue.ports import Offload
from goqueue.records import TopicPartition


class Replication:
    """Copies to and from this node."""

    def __init__(
        self,
        *,
        node_id: int,
        network: PeerNetwork,
        partitions: Partitions,
        terms: Terms,
        metadata: MetadataStore,
        syncer: Syncer,
        offload: Offload,
        clock: Clock,
        broker_epoch: Callable[[], int],
        catch_up_bytes_per_s_max: int,
    ) -> None:
        self._node_id = node_id
        self._network = network
        self._partitions = partitions
        self._terms = terms
        self._metadata = metadata
        self._syncer = syncer
        self._offload = offload
        self._clock = clock
        self._broker_epoch = broker_epoch
        self._catch_up_bytes_per_s_max = catch_up_bytes_per_s_max
        self._streams: dict[tuple[int, int], FollowerStream] = {}
        self._closed = False
        # Of subscriptions.
        self._numbers = count(1)
        self.counts = CopyCounts()

    def start(self) -> None:
        """Follow what the metadata says, from now on."""
        self._metadata.subscribe(self._on_delta)
        image = self._metadata.image
        for topic in image.topics():
            for number, assignment in enumerate(image.assignments(topic.topic_id)):
                self._assign(TopicPartition(topic.name, number), assignment)

    async def close(self) -> None:
        """End every stream of this node as a follower. Those of its followers end with the network."""
        self._closed = True
        await asyncio.gather(*(stream.close() for stream in self._streams.values()))

    def resubscribe(self, place: TopicPartition) -> None:
        """Tell the leader of a partition anew how its logs stand here."""
        for stream in self._streams.values():
            stream.resubscribe(place)

    async def serve(self, connection: PeerConnection, purpose: int) -> None:
        """Serve the stream of a follower, until it ends."""
        stream = LeaderStream(
            connection,
            terms=self._terms,
            partitions=self._partitions,
            metadata=self._metadata,
            offload=self._offload,
            clock=self._clock,
            counts=self.counts,
            bytes_per_s_max=self._catch_up_bytes_per_s_max if purpose == CATCHING_UP else None,
        )
        await stream.run()

    def _on_delta(self, delta: Delta) -> None:
        image = self._metadata.image
        for event in delta.events:
            if isinstance(event, AssignmentsChanged):
                for number in event.assignments:
                    self._assign(TopicPartition(event.name, number), image.assignments(event.topic_id)[number])
            elif isinstance(event, TopicCreated):
                for number, assignment in enumerate(event.assignments):
                    self._assign(TopicPartition(event.topic.name, number), assignment)
            elif isinstance(event, PartitionsAdded):
                for number, assignment in enumerate(event.assignments, event.first):
                    self._assign(TopicPartition(event.name, number), assignment)
            elif isinstance(event, TopicDeleted):
                for stream in self._streams.values():
                    stream.unfollow_topic(event.name)
                self.counts.forget(event.name)
            elif isinstance(event, SessionChanged) and event.node_id == self._node_id:
                for stream in self._streams.values():
                    stream.renew()

    def _assign(self, place: TopicPartition, assignment: Assignment) -> None:
        if self._closed:
            return
        role: Role | None = role_of(assignment, self._node_id)
        wanted = None
        if isinstance(role, Following) and role.leader >= 0:
            wanted = (role.leader, REPLICATION if self._node_id in assignment.isr else CATCHING_UP)
        for key, stream in self._streams.items():
            if key != wanted:
                stream.unfollow(place)
        if wanted is not None and role is not None:
            self._stream(*wanted).follow(place, role.epoch)

    def _stream(self, leader: int, purpose: int) -> FollowerStream:
        found = self._streams.get((leader, purpose))
        if found is None:
            found = self._streams[leader, purpose] = FollowerStream(
                leader,
                purpose=purpose,
                network=self._network,
                partitions=self._partitions,
                syncer=self._syncer,
                offload=self._offload,
                broker_epoch=self._broker_epoch,
                counts=self.counts,
                numbers=self._numbers,
            )
        return found
