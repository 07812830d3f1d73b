"""ScriptedController: decides who leads, at once and by the rules of the design. It never fails and is never two.

The real controller is a node's; this one stands outside of the simulated nodes, so that what goes wrong with
replication can be told from what goes wrong with elections.
"""

from __future__ import annotations

from msgspec import structs

from goqueue.cluster.isr import with_isr
from goqueue.errors import GuardFailed
from goqueue.metadata.events import Assignment, AssignmentsChanged, Topic
from goqueue.metadata.keys import partition_key, session_key
from goqueue.metadata.shared.kv import Put
from goqueue.metadata.shared.kv_store import KvMetadata
from goqueue.metadata.store import Guard
from goqueue.testing.cluster.replica_node import PREFIX
from goqueue.testing.kv_model import KvModel


class ScriptedController:
    """Sessions and elections."""

    def __init__(self, model: KvModel, metadata: KvMetadata, *, min_insync: int) -> None:
        self._model = model
        self._metadata = metadata
        self._min_insync = min_insync
        self._leases: dict[int, int] = {}

    def expect(self, node_id: int) -> None:
        """The node is about to start for the first time: it is not taken for dead until then."""
        self._leases[node_id] = self._model.grant()

    def has_session(self, node_id: int) -> bool:
        """Whether the node's session lasts."""
        return node_id in self._leases

    async def end_session(self, node_id: int) -> None:
        """The node's lease is over: it leaves every ISR, and others lead."""
        lease = self._leases.pop(node_id, None)
        if lease is not None:
            self._model.end_lease(lease)
        await self.elect()

    async def begin_session(self, node_id: int) -> tuple[int, int]:
        """A session for a node that starts, once its former life is out of every ISR: lease and broker epoch."""
        if not self._is_new(node_id):
            await self.end_session(node_id)
        lease = self._leases[node_id] = self._model.grant()
        epoch = self._model.txn([], [Put(PREFIX + session_key(node_id), b"", lease)]).revision
        return lease, epoch

    def _is_new(self, node_id: int) -> bool:
        return node_id in self._leases and node_id not in self._metadata.image.sessions

    async def elect(self) -> None:
        """Bring every partition in line with the sessions there are."""
        await self._metadata.catch_up()
        for topic in self._metadata.image.topics():
            for number in range(topic.partition_count):
                while not await self._settle(topic, number):
                    await self._metadata.catch_up()

    def can_be_emptied(self, node_id: int) -> bool:
        """Whether every partition has an in-sync replica elsewhere: its disk has all that was promised."""
        image = self._metadata.image
        return all(set(one.isr) - {node_id} for topic in image.topics() for one in image.assignments(topic.topic_id))

    async def empty(self, node_id: int) -> None:
        """The node's disk is lost: its session is over, and it leaves every ISR, whoever else lives."""
        lease = self._leases.pop(node_id, None)
        if lease is not None:
            self._model.end_lease(lease)
        await self._metadata.catch_up()
        for topic in self._metadata.image.topics():
            for number in range(topic.partition_count):
                while True:
                    one = self._metadata.image.assignments(topic.topic_id)[number]
                    isr = tuple(node for node in one.isr if node != node_id)
                    eligible = tuple(node for node in one.eligible if node != node_id)
                    without = structs.replace(one, isr=isr, eligible=eligible)
                    if without == one or await self._commit(topic, number, one, without):
                        break
                    await self._metadata.catch_up()
        await self.elect()

    async def move(self, topic: Topic, number: int) -> None:
        """Let another in-sync replica lead."""
        assignment = self._metadata.image.assignments(topic.topic_id)[number]
        others = [node for node in assignment.isr if node != assignment.leader and node in self._leases]
        if others:
            moved = structs.replace(assignment, leader=others[0], leader_epoch=assignment.leader_epoch + 1)
            await self._commit(topic, number, assignment, moved)

    async def _settle(self, topic: Topic, number: int) -> bool:
        assignment = self._metadata.image.assignments(topic.topic_id)[number]
        wanted = self._wanted(assignment)
        return wanted == assignment or await self._commit(topic, number, assignment, wanted)

    async def _commit(self, topic: Topic, number: int, before: Assignment, after: Assignment) -> bool:
        event = AssignmentsChanged(topic.name, topic.topic_id, {number: after})
        try:
            await self._metadata.commit([event], [Guard(partition_key(topic.topic_id, number), before.partition_epoch)])
        except GuardFailed:
            return False
        return True

    def _wanted(self, assignment: Assignment) -> Assignment:
        alive = self._leases.keys()
        isr = frozenset(node for node in assignment.isr if node in alive)
        if isr:
            changed = with_isr(assignment, isr, self._min_insync)
            leader = assignment.leader if assignment.leader in isr else next(n for n in changed.replicas if n in isr)
        else:
            # The last members keep their place: nobody else has all that was acknowledged, but whoever is eligible.
            changed = assignment
            eligible = [node for node in assignment.eligible if node in alive]
            leader = eligible[0] if eligible else -1
            if eligible:
                changed = with_isr(assignment, frozenset(eligible[:1]), self._min_insync)
        if leader == assignment.leader:
            return changed
        return structs.replace(changed, leader=leader, leader_epoch=assignment.leader_epoch + 1)
