"""What happened in the cluster, as this node saw it: kept for operators, counted for the metrics.

Everything is worked out from the metadata, so that every node tells the same story. Nodes: `NodeJoined` (first
session), `NodeRecovered` (a session again), `NodeLeft` (after a clean stop), `NodeDied`, `NodeSuspect` (registered anew
and still fenced). Controllers: `ControllerChanged`, `BecameController`, `LostController`. Partitions: `LeaderElected`,
`LeaderLost`, `UncleanLeaderElected`, `IsrShrunk`, `IsrExpanded`.

Of this node itself: `BootstrapStarted` (it reads the metadata and registers), `JoinedCluster` (it has a session and
opens its replicas), `BootstrapComplete` (they have caught up), `QuorumLost` (no session with the metadata store),
`QuorumRestored`, `LeftCluster`. `BootstrapFailed` is in the node's log alone: there is nobody to ask for its events.
Of what it leads after an unclean election: `RecordsLost` (a replica came back with records that it does not have).
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from goqueue.histogram import Histogram
from goqueue.metadata.events import (
    Assignment,
    AssignmentsChanged,
    ControllerChanged,
    Delta,
    NodeChanged,
    PartitionsAdded,
    SessionChanged,
    TopicCreated,
    TopicDeleted,
)

if TYPE_CHECKING:
    from goqueue.clock import Clock
    from goqueue.cluster.replication.counts import Surplus
    from goqueue.metadata.image import Image
    from goqueue.records import TopicPartition

EVENTS_MAX = 1_000


class ClusterEvent(NamedTuple):
    """One thing that happened; `node_id` is -1 and `topic` empty where they say nothing."""

    at_ms: int
    kind: str
    node_id: int = -1
    topic: str = ""
    partition: int = -1
    detail: str = ""


# Told of each event, for the node's log; it must not raise.
OnEvent = Callable[[ClusterEvent], None]


class ClusterEvents:
    """The newest events, and how many there were of each kind."""

    def __init__(self, node_id: int, image: Image, clock: Clock, on_event: OnEvent | None = None) -> None:
        self._node_id = node_id
        self._clock = clock
        self._on_event = on_event
        # One failover has as many events of partitions as the node had leaders: they must not push out those of nodes.
        self._of_nodes: deque[ClusterEvent] = deque(maxlen=EVENTS_MAX)
        self._of_partitions: deque[ClusterEvent] = deque(maxlen=EVENTS_MAX)
        self.counts: Counter[str] = Counter()
        # Leaders elected, by topic; the topics are those that there are.
        self.elected: Counter[str] = Counter()
        self.elected_unclean: Counter[str] = Counter()
        # From the end of a leader's session, or of its term, to the election of the next one.
        self.election_seconds = Histogram()
        self._ended_ms: dict[int, int] = {}
        self._leaderless_ms: dict[tuple[UUID, int], int] = {}
        # The epochs of the last unclean leaders, by partition.
        self._unclean: dict[tuple[str, int], int] = {}
        self._nodes = dict(image.nodes())
        self._seen = set(image.sessions)
        self._controller = -1 if image.controller is None else image.controller[0]
        self.controller_since_ms = clock.now_ms()
        self._assignments: dict[UUID, tuple[Assignment, ...]] = {
            topic.topic_id: image.assignments(topic.topic_id) for topic in image.topics()
        }

    def newest(self, limit: int = 2 * EVENTS_MAX) -> list[ClusterEvent]:
        """The newest events, the newest first."""
        # Each of them is in order, and so are two at the same millisecond of the same kind.
        found = list(heapq.merge(self._of_nodes, self._of_partitions, key=lambda event: event.at_ms))
        return found[::-1][:limit]

    def on_delta(self, delta: Delta) -> None:
        """Take in a change of the metadata."""
        now_ms = self._clock.now_ms()
        for event in delta.events:
            for found in self._found(event, now_ms):
                self._add(found)

    def note(self, kind: str, node_id: int, detail: str = "", place: TopicPartition | None = None) -> None:
        """Add what the metadata does not tell."""
        topic, partition = ("", -1) if place is None else (place.topic, place.partition)
        self._add(ClusterEvent(self._clock.now_ms(), kind, node_id, topic, partition, detail))

    def note_surplus(self, found: Surplus) -> bool:
        """Note what a replica has and its leader has not, if an unclean election is why: it is lost then.

        What was written after that election is no more than what nobody was told is safe, as in every failover.
        """
        place = found.place
        if found.last_epoch >= self._unclean.get((place.topic, place.partition), -1):
            return False
        last = found.offset + found.records - 1
        detail = f"{found.records} records, offsets {found.offset} to {last}, which an unclean election left behind"
        self.note("RecordsLost", found.follower, f"node {found.follower} came back with {detail}", place)
        return True

    def _add(self, event: ClusterEvent) -> None:
        (self._of_partitions if event.topic else self._of_nodes).append(event)
        self.counts[event.kind] += 1
        if self._on_event is not None:
            self._on_event(event)

    def _found(self, event: object, now_ms: int) -> Iterable[ClusterEvent]:
        match event:
            case NodeChanged(node_id, node):
                if node is None:
                    self._nodes.pop(node_id, None)
                    return (ClusterEvent(now_ms, "NodeRemoved", node_id),)
                before = self._nodes.get(node_id)
                self._nodes[node_id] = node
                if node.fenced and before is not None and not before.fenced:
                    return (ClusterEvent(now_ms, "NodeSuspect", node_id, detail="fenced until its replicas are known"),)
            case SessionChanged(node_id, epoch):
                return self._session(node_id, epoch, now_ms)
            case ControllerChanged(node_id, epoch):
                return list(self._controller_is(node_id if epoch else -1, epoch, now_ms))
            case TopicCreated(topic, assignments):
                self._assignments[topic.topic_id] = assignments
            case PartitionsAdded(_, topic_id, _, added):
                self._assignments[topic_id] = self._assignments.get(topic_id, ()) + added
            case TopicDeleted(name, topic_id):
                self.elected.pop(name, None)
                self.elected_unclean.pop(name, None)
                self._unclean = {one: epoch for one, epoch in self._unclean.items() if one[0] != name}
                for number in range(len(self._assignments.pop(topic_id, ()))):
                    self._leaderless_ms.pop((topic_id, number), None)
            case AssignmentsChanged(name, topic_id, changed):
                return list(self._assigned(name, topic_id, changed.items(), now_ms))
        return ()

    def _session(self, node_id: int, epoch: int, now_ms: int) -> Iterable[ClusterEvent]:
        if epoch:
            self._ended_ms.pop(node_id, None)
            kind = "NodeRecovered" if node_id in self._seen else "NodeJoined"
            self._seen.add(node_id)
            return (ClusterEvent(now_ms, kind, node_id, detail=f"broker epoch {epoch}"),)
        self._ended_ms[node_id] = now_ms
        node = self._nodes.get(node_id)
        is_clean = node is not None and bool(node.clean_token)
        return (ClusterEvent(now_ms, "NodeLeft" if is_clean else "NodeDied", node_id),)

    def _time_election(self, place: tuple[UUID, int], before: int, after: int, now_ms: int) -> None:
        if after < 0:
            self._leaderless_ms[place] = self._ended_ms.get(before, now_ms)
            return
        # A leader that lives on was asked to hand over: nobody had to wait.
        since_ms = self._leaderless_ms.pop(place, self._ended_ms.get(before, now_ms))
        self.election_seconds.add(max(0, now_ms - since_ms) / 1000)

    def _controller_is(self, node_id: int, epoch: int, now_ms: int) -> Iterator[ClusterEvent]:
        before, self._controller = self._controller, node_id
        if before == node_id:
            return
        self.controller_since_ms = now_ms
        yield ClusterEvent(now_ms, "ControllerChanged", node_id, detail=f"controller epoch {epoch}")
        if node_id == self._node_id:
            yield ClusterEvent(now_ms, "BecameController", node_id)
        elif before == self._node_id:
            yield ClusterEvent(now_ms, "LostController", before)

    def _assigned(
        self, topic: str, topic_id: UUID, changed: Iterable[tuple[int, Assignment]], now_ms: int
    ) -> Iterator[ClusterEvent]:
        known = list(self._assignments.get(topic_id, ()))
        for number, after in changed:
            if not 0 <= number < len(known):
                continue
            before, known[number] = known[number], after
            if after.leader != before.leader:
                self._time_election((topic_id, number), before.leader, after.leader, now_ms)
                kind = "LeaderElected" if after.leader >= 0 else "LeaderLost"
                detail = f"leader epoch {after.leader_epoch}"
                if after.leader >= 0 and after.leader not in (*before.isr, *before.eligible):
                    kind, detail = "UncleanLeaderElected", f"{detail}: acknowledged records may be lost"
                    self._unclean[topic, number] = after.leader_epoch
                if after.leader >= 0:
                    (self.elected if kind == "LeaderElected" else self.elected_unclean)[topic] += 1
                yield ClusterEvent(now_ms, kind, after.leader, topic, number, detail)
            gone, came = set(before.isr) - set(after.isr), set(after.isr) - set(before.isr)
            if gone:
                yield ClusterEvent(now_ms, "IsrShrunk", after.leader, topic, number, f"without {sorted(gone)}")
            if came:
                yield ClusterEvent(now_ms, "IsrExpanded", after.leader, topic, number, f"with {sorted(came)}")
        self._assignments[topic_id] = tuple(known)
