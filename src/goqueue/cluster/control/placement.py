"""Placement: on which nodes new partitions live. Leaders and copies are spread, over racks first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from uuid import UUID

from goqueue.cluster.control.elections import NO_LEADER
from goqueue.cluster.control.plan import nodes_of
from goqueue.errors import InvalidReplicaAssignment, InvalidReplicationFactor
from goqueue.metadata.eligibility import MIN_INSYNC
from goqueue.metadata.events import Assignment
from goqueue.metadata.image import Image

COPIES_DEFAULT = 3
MIN_INSYNC_DEFAULT = 2


class Load:
    """How many partitions each node leads and holds, counted on as they are placed."""

    def __init__(self, image: Image, *, without: Mapping[UUID, Collection[int]] | None = None) -> None:
        """`without` has partitions, by topic, that are not counted."""
        left_out = without or {}
        self.leads: Counter[int] = Counter()
        self.holds: Counter[int] = Counter()
        # How often a node is the first to take over from a leader.
        self.heirs: Counter[tuple[int, int]] = Counter()
        for topic in image.topics():
            for number, one in enumerate(image.assignments(topic.topic_id)):
                if number not in left_out.get(topic.topic_id, ()):
                    self.add(one)

    def add(self, one: Assignment) -> None:
        """Count a partition."""
        # By preference, not by who happens to lead: that is where leaders return to.
        self.leads[one.replicas[0] if one.replicas else NO_LEADER] += 1
        if len(one.replicas) > 1:
            self.heirs[one.replicas[0], one.replicas[1]] += 1
        self.holds.update((*one.replicas, *one.adding))


class ClusterPlacement:
    """`broker.assigning.Assigning` for a cluster."""

    def __init__(
        self, image: Callable[[], Image], configured: Collection[int], *, copies_default: int, min_insync: int
    ) -> None:
        """`configured` are the nodes that the settings name: they count, registered or not, living or not."""
        self._image = image
        self._configured = frozenset(configured)
        self._copies_default = copies_default
        self._min_insync = min_insync

    def copies(self, asked: int | None) -> int:
        """See `Assigning.copies`."""
        there = len(self._nodes())
        copies = (self._copies_default or min(COPIES_DEFAULT, there)) if asked is None else asked
        if not 1 <= copies <= there:
            raise InvalidReplicationFactor(
                f"replication factor {copies} is not possible with {there} nodes",
                field="replication_factor",
                hint=f"use 1 to {there}, or -1 for the default",
            )
        return copies

    def settings(self, copies: int) -> Mapping[str, str]:
        """See `Assigning.settings`: the minimum is written down, so that every node obeys the same one."""
        least = min(self._min_insync or MIN_INSYNC_DEFAULT, copies)
        return {MIN_INSYNC: str(least)} if least > 1 else {}

    def place(self, count: int, copies: int) -> tuple[Assignment, ...]:
        """See `Assigning.place`."""
        image = self._image()
        load, racks = Load(image), self._racks(image)
        electable = nodes_of(image).electable
        placed = []
        # Within a topic first: a node that leads less than others does not get all leaders of the next topic.
        leads: Counter[int] = Counter()
        for _ in range(count):
            first = min(
                self._nodes(),
                key=lambda node: (node not in electable, leads[node], load.leads[node], load.holds[node], node),
            )
            leads[first] += 1
            one = _assignment(_further(load, self._nodes(), electable, racks, (first,), copies), electable)
            load.add(one)
            placed.append(one)
        return tuple(placed)

    def given(self, replicas: Mapping[int, Sequence[int]]) -> tuple[Assignment, ...]:
        """See `Assigning.given`."""
        nodes, electable = self._nodes(), nodes_of(self._image()).electable
        for partition, wanted in replicas.items():
            unknown = sorted(set(wanted) - nodes)
            if unknown or not wanted or len(set(wanted)) != len(wanted):
                why = f"there is no node {unknown[0]}" if unknown else "each replica needs a node of its own"
                raise InvalidReplicaAssignment(
                    f"partition {partition} is assigned to {list(wanted)}: {why}", field="assignments"
                )
        return tuple(_assignment(tuple(replicas[number]), electable) for number in sorted(replicas))

    def more(self, one: Assignment, copies: int, load: Load) -> tuple[int, ...]:
        """Nodes for further copies of a partition, up to so many in all."""
        image = self._image()
        electable, racks = nodes_of(image).electable, self._racks(image)
        chosen = (*one.replicas, *one.adding)
        return _further(load, self._nodes(), electable, racks, chosen, copies)[len(chosen) :]

    def _nodes(self) -> frozenset[int]:
        return self._configured | frozenset(self._image().nodes())

    def _racks(self, image: Image) -> Mapping[int, str]:
        return {node_id: node.rack for node_id, node in image.nodes().items()}


def spread_evenly(one: Assignment, leads: Mapping[int, int], load: Load) -> tuple[int, ...]:
    """A partition's replicas in another order: who leads least is preferred as leader, in its topic (`leads`) first.

    Only of those that are in sync: the others cannot lead now, and nobody knows for how long.
    """
    in_sync = [node for node in one.replicas if node in one.isr]
    others = [node for node in one.replicas if node not in one.isr]
    if not in_sync:
        return one.replicas
    first = min(in_sync, key=lambda node: (leads.get(node, 0), load.leads[node], in_sync.index(node)))
    rest = sorted((node for node in in_sync if node != first), key=lambda node: load.heirs[first, node])
    return (first, *rest, *others)


def _further(
    load: Load,
    nodes: Collection[int],
    electable: Collection[int],
    racks: Mapping[int, str],
    chosen: tuple[int, ...],
    copies: int,
) -> tuple[int, ...]:
    """The nodes of one partition; the first of those chosen is its preferred leader, the second its heir."""
    leader = chosen[0]
    while len(chosen) < copies:
        used = Counter(racks.get(node, "") for node in chosen)
        left = [node for node in nodes if node not in chosen]
        if not left:
            break
        best = min(
            left,
            key=lambda node: (
                node not in electable,
                used[racks.get(node, "")],
                load.holds[node],
                load.heirs[leader, node],
                node,
            ),
        )
        chosen = (*chosen, best)
    return chosen


def _assignment(replicas: tuple[int, ...], electable: Collection[int]) -> Assignment:
    """A new partition: those of its nodes that live are in sync with the empty log."""
    isr = tuple(node for node in replicas if node in electable)
    # Nobody lives: whoever of them comes first leads.
    return Assignment(leader=isr[0] if isr else NO_LEADER, leader_epoch=0, replicas=replicas, isr=isr or replicas)
