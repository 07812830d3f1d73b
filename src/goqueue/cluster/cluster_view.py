"""The cluster as front-ends show it, read from the image: nodes, controller, coordinators, partitions in trouble."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import mmh3

from goqueue.metadata.eligibility import min_insync_asked
from goqueue.records import TopicPartition

if TYPE_CHECKING:
    from collections import Counter

    from goqueue.cluster.cluster_events import ClusterEvent, ClusterEvents
    from goqueue.cluster.peer_watch import PeerWatch
    from goqueue.histogram import Histogram
    from goqueue.metadata.events import Assignment, Node, Topic
    from goqueue.metadata.image import Image

NOBODY = -1


class KafkaNode(NamedTuple):
    """A node as Kafka's clients are told of it."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class PartitionState(NamedTuple):
    """One partition, as an operator looks at it."""

    place: TopicPartition
    assignment: Assignment
    min_insync: int

    @property
    def is_offline(self) -> bool:
        """Nobody leads it."""
        return self.assignment.leader < 0

    @property
    def is_under_replicated(self) -> bool:
        """A replica is not in sync."""
        return len(self.assignment.isr) < len(self.assignment.replicas)

    @property
    def is_below_minimum(self) -> bool:
        """Fewer replicas are in sync than acks=all needs."""
        return len(self.assignment.isr) < self.min_insync


class Lags(NamedTuple):
    """Replicas that are behind, by partition and node; of partitions whose leader has not answered nothing is known."""

    behind: Mapping[TopicPartition, Mapping[int, int]]
    answered: frozenset[int]

    def of(self, place: TopicPartition, assignment: Assignment) -> dict[int, int | None]:
        """Records that each replica but the leader is behind; None where that is not known."""
        followers = [node for node in (*assignment.replicas, *assignment.adding) if node != assignment.leader]
        if assignment.leader not in self.answered:
            return dict.fromkeys(followers)
        behind = self.behind.get(place, {})
        return {node: None if behind.get(node, 0) < 0 else behind.get(node, 0) for node in followers}


class ClusterView:
    """What this node knows of all nodes. On its own it knows itself."""

    def __init__(
        self,
        here: KafkaNode,
        image: Callable[[], Image],
        events: ClusterEvents,
        listener: str = "kafka",
        watch: PeerWatch | None = None,
    ) -> None:
        """`watch` is that of a node in a cluster."""
        self._listener = listener
        self.watch = watch
        self._here = here
        self._image = image
        self._events = events

    def through(self, listener: str, host: str, port: int) -> ClusterView:
        """The same for clients of that listener: each node's address there, or its usual one if it has none."""
        return ClusterView(self._here._replace(host=host, port=port), self._image, self._events, listener, self.watch)

    @property
    def node_id(self) -> int:
        """This node."""
        return self._here.node_id

    def nodes(self) -> Mapping[int, Node]:
        """Every node that registered, living or not."""
        return self._image().nodes()

    def is_alive(self, node_id: int) -> bool:
        """Whether a node has a session."""
        return node_id in self._image().sessions

    def epoch_of(self, node_id: int) -> int:
        """The broker epoch of a living node; 0 if it has no session."""
        return self._image().sessions.get(node_id, 0)

    def brokers(self) -> list[KafkaNode]:
        """The living nodes, by id, with the addresses that Kafka's clients can use."""
        image = self._image()
        found = [self.broker(node_id) for node_id in sorted(image.sessions)]
        return [one for one in found if one is not None] or [self._here]

    def broker(self, node_id: int) -> KafkaNode | None:
        """Where a node listens for Kafka's clients, if that is known."""
        if node_id == self._here.node_id:
            return self._here
        node = self._image().nodes().get(node_id)
        if node is None:
            return None
        address = node.addresses.get(self._listener) or node.addresses.get("kafka", "")
        host, _, port = address.rpartition(":")
        if not port.isdigit():
            return None
        return KafkaNode(node_id, host.strip("[]"), int(port), node.rack or None)

    def controller(self) -> int:
        """The node that decides who leads; -1 while none does."""
        found = self._image().controller
        return NOBODY if found is None else found[0]

    def controller_epoch(self) -> int:
        """How often another node became the controller, as it counts."""
        found = self._image().controller
        return 0 if found is None else found[1]

    def coordinator(self, topic: str, key: str) -> KafkaNode | None:
        """Who coordinates a key of an internal topic; this node while there is no such topic, None while no one leads.

        The first use of this node as a coordinator makes the topic, and says so if another node leads then.
        """
        found = self._image().topic(topic)
        if found is None:
            return self._here
        shard = int(mmh3.hash(key.encode(), signed=False)) % found.partition_count
        leader = self._image().assignments(found.topic_id)[shard].leader
        return None if leader < 0 or not self.is_alive(leader) else self.broker(leader)

    def partitions(self) -> Iterator[PartitionState]:
        """Every partition of every topic."""
        image = self._image()
        for topic in image.topics():
            for number, assignment in enumerate(image.assignments(topic.topic_id)):
                yield PartitionState(TopicPartition(topic.name, number), assignment, min_insync_asked(topic))

    def state(self, place: TopicPartition, assignment: Assignment) -> PartitionState:
        """A partition with an assignment that it has just got, which may be newer than what this node knows."""
        topic = self._image().topic(place.topic)
        return PartitionState(place, assignment, 1 if topic is None else min_insync_asked(topic))

    def revision(self) -> int:
        """The version of the metadata that this node knows."""
        return self._image().revision

    def events(self) -> list[ClusterEvent]:
        """What happened, the newest first."""
        return self._events.newest()

    def election_seconds(self) -> Histogram:
        """How long partitions waited for a new leader, as seen here."""
        return self._events.election_seconds

    def clock_skew_ms(self, node_id: int) -> int | None:
        """How far a node's clock is ahead of this node's; None if that is not known."""
        if self.watch is None:
            return 0 if node_id == self._here.node_id else None
        return self.watch.skew_ms(node_id)

    def clock_skew_ms_max(self) -> int:
        """The largest difference between this node's clock and that of a living one."""
        return max((abs(self.clock_skew_ms(node_id) or 0) for node_id in self._image().sessions), default=0)

    async def lags(self) -> Lags:
        """How many records each replica is behind its leader, as the leaders say now."""
        if self.watch is None:
            return Lags({}, frozenset({self._here.node_id}))
        return Lags(*await self.watch.lags())

    def event_counts(self) -> Counter[str]:
        """How often each kind of event happened since this node was started."""
        return self._events.counts

    def elections(self) -> Iterator[tuple[str, int, int]]:
        """Each topic, with how many leaders were elected for it since this node was started: in sync, and others."""
        for topic in self._image().topics():
            yield topic.name, self._events.elected[topic.name], self._events.elected_unclean[topic.name]

    def controller_since_ms(self) -> int:
        """When the controller changed, or this node was started."""
        return self._events.controller_since_ms

    def assignments(self, topic: Topic) -> tuple[Assignment, ...]:
        """Where a topic's partitions are."""
        return self._image().assignments(topic.topic_id)
