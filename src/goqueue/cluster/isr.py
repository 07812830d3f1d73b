"""The in-sync replicas (ISR), as their leader changes them: by guarded writes, one at a time for each partition.

A follower leaves when it has been behind for `cluster.replica_lag_ms_max`, and joins when it has all that is committed.
The write is made only while the partition is as the leader knows it, while the leader's own session lasts, and while
each follower that joins has the session under which it caught up. Until the outcome is known, the old and the proposed
ISR count together (`PartitionTerm.propose`), and the write is repeated until the metadata shows what became of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Sequence
from uuid import UUID

from msgspec import structs

from goqueue.clock import Clock, Timer
from goqueue.cluster.control.plan import is_electable
from goqueue.cluster.replication.terms import LedPartition, Terms
from goqueue.errors import Conflict, GoQueueError, GuardFailed, MetadataUnavailable, NotFound, ShuttingDown
from goqueue.metadata import keys
from goqueue.metadata.eligibility import eligible_of, min_insync_of, storable
from goqueue.metadata.events import Assignment, AssignmentsChanged
from goqueue.metadata.store import Guard, MetadataStore, SessionGuard
from goqueue.records import TopicPartition

_log = logging.getLogger("goqueue.cluster")

_AGAIN_S_FIRST = 0.05
_AGAIN_S_MAX = 1.0


def with_isr(
    assignment: Assignment, isr: frozenset[int], min_insync: int, eligible: tuple[int, ...] | None = None
) -> Assignment:
    """The assignment with another ISR, in the order of the replicas; `eligible` is the list that may be believed.

    Whoever leaves in a change that takes the ISR below the minimum, or while it is there, becomes eligible: it has all
    that acks=all promised. The list goes when the ISR is back at the minimum.
    """
    known = frozenset(assignment.eligible if eligible is None else eligible)
    left = (known | frozenset(assignment.isr)) - isr if len(isr) < min_insync else frozenset()
    order = (*assignment.replicas, *assignment.adding)
    return structs.replace(
        assignment,
        isr=tuple(node for node in order if node in isr),
        eligible=tuple(node for node in order if node in left),
    )


class IsrChanges:
    """Watches over the followers of all partitions that this node leads."""

    def __init__(
        self,
        *,
        node_id: int,
        terms: Terms,
        metadata: MetadataStore,
        clock: Clock,
        broker_epoch: Callable[[], int],
        lag_ms_max: int,
    ) -> None:
        self._node_id = node_id
        self._terms = terms
        self._metadata = metadata
        self._clock = clock
        self._broker_epoch = broker_epoch
        self._lag_ms_max = lag_ms_max
        self._timer: Timer | None = None
        # Partitions of which a change is on its way.
        self.under_way: set[LedPartition] = set()
        # Partitions without a term that are on their way to another leader.
        self._given_up: set[TopicPartition] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        terms.on_progress = self.grow
        terms.on_reset = self.expel

    def start(self) -> None:
        """Begin to look at followers that lag."""
        self._timer = self._clock.call_later(self._tick_ms(), self._tick)

    async def close(self) -> None:
        """Change nothing more."""
        self._terms.on_progress = self._terms.on_reset = None
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def grow(self, led: LedPartition, follower: int) -> None:
        """A follower outside the ISR has come further: let it in if it has all that is committed."""
        if led in self.under_way or led.is_over or not led.term.is_caught_up(follower):
            return
        assignment = self._assignment(led)
        if assignment is None or follower not in (*assignment.replicas, *assignment.adding):
            return
        node = self._metadata.image.nodes().get(follower)
        if node is not None and not is_electable(self._metadata.image, node):
            return
        self._change(led, led.term.isr | {follower})

    def expel(self, led: LedPartition, follower: int) -> None:
        """A follower is about to begin anew: it is neither in sync nor eligible from now on."""
        if led not in self.under_way and not led.is_over:
            self._change(led, led.term.isr - {follower}, not_eligible=frozenset({follower}))

    def _tick_ms(self) -> int:
        return max(min(self._lag_ms_max // 10, 500), 10)

    def _tick(self) -> None:
        self._timer = self._clock.call_later(self._tick_ms(), self._tick)
        now_ms = self._clock.monotonic_ms()
        for place, led in list(self._terms.active.items()):
            if led.is_over:
                self._terms.active.pop(place, None)
            elif led not in self.under_way:
                self._look_at(led, now_ms)
        for led in self._terms.all():
            if led not in self.under_way and self._is_sick(led):
                self._hand_over(led)
        for place in list(self._terms.unopened):
            if place not in self._given_up:
                self._give_up(place)

    def _look_at(self, led: LedPartition, now_ms: int) -> None:
        term = led.term
        followers = term.isr - {self._node_id}
        lags = {follower: term.lag_ms(follower, now_ms) for follower in followers}
        late = {follower for follower, lag_ms in lags.items() if lag_ms > self._lag_ms_max}
        assignment = self._assignment(led)
        unsound = set() if assignment is None else self._unsound(led, assignment) - late
        if late or unsound:
            self._change(led, term.isr - late - unsound, not_eligible=frozenset(unsound))
            return
        outside = set() if assignment is None else {*assignment.replicas, *assignment.adding} - term.isr
        for follower in sorted(outside):
            self.grow(led, follower)
            # What it must have synced before it may join has grown with the others, and it was not told.
            self._terms.remind(led, follower)
        if not any(lags.values()) and not outside:
            # Everybody has everything: nothing need be looked at until something is written.
            led.is_active = False
            self._terms.active.pop(term.place, None)

    def _unsound(self, led: LedPartition, assignment: Assignment) -> set[int]:
        """Damaged followers that leave the ISR, so that none of them is elected.

        While they are repaired only as far as acks=all goes on without them, for they store what is new like any other.
        One that copies a log anew leaves in any case: afterwards it lacks everything.
        """
        term = led.term
        leaving = term.resetting & term.isr
        topic = self._metadata.image.topic_by_id(term.topic_id)
        minimum = 1 if topic is None else min_insync_of(topic, assignment)
        for follower in sorted(term.unsound.keys() & term.isr - leaving):
            if len(term.isr - leaving) > minimum:
                leaving.add(follower)
        return leaving - {self._node_id}

    def _is_sick(self, led: LedPartition) -> bool:
        for writer in led.writers.values():
            if writer.log.poisoned:
                led.sick = led.sick or writer.log.poison
            elif writer.log.damage:
                led.sick = led.sick or str(writer.log.damage[0])
        return bool(led.sick)

    def _hand_over(self, led: LedPartition) -> None:
        """The log of the leader is damaged, full or takes no more writes: let another in-sync replica lead."""
        term = led.term
        assignment = self._assignment(led)
        handed = None if assignment is None else self._handed_over(term.topic_id, assignment, term.unsound)
        if assignment is None or handed is None:
            return
        _log.warning("%s is handed over to node %d: %s", term.place, handed.leader, led.sick)
        guards = self._guards_of_hand_over(term.topic_id, term.place.partition, assignment, handed)
        self._spawn(led, self._commit(led, handed, guards))

    def _give_up(self, place: TopicPartition) -> None:
        """This node is to lead a partition and cannot open a log of it: let another in-sync replica lead."""
        image, reason = self._metadata.image, self._terms.unopened[place]
        topic = image.topic(place.topic)
        assignments = () if topic is None else image.assignments(topic.topic_id)
        assignment = assignments[place.partition] if place.partition < len(assignments) else None
        is_led = assignment is not None and assignment.leader == self._node_id
        if topic is None or assignment is None or not is_led or self._terms.find(place) is not None:
            del self._terms.unopened[place]
            return
        handed = self._handed_over(topic.topic_id, assignment, ())
        if handed is None:
            return
        _log.warning("%s is handed over to node %d: it cannot be opened: %s", place, handed.leader, reason)
        guards = self._guards_of_hand_over(topic.topic_id, place.partition, assignment, handed)
        event = AssignmentsChanged(place.topic, topic.topic_id, {place.partition: handed})

        async def commit() -> None:
            try:
                await self._metadata.commit([event], guards)
            except GoQueueError as error:
                # The next look decides anew.
                _log.info("%s was not handed over: %s", place, error)
            finally:
                self._given_up.discard(place)

        self._given_up.add(place)
        self._keep(asyncio.create_task(commit()))

    def _handed_over(self, topic_id: UUID, assignment: Assignment, unsound: Collection[int]) -> Assignment | None:
        """The assignment with another in-sync replica as leader, and without this node; None if none can lead."""
        image = self._metadata.image
        nodes = image.nodes()
        healthy = {
            node
            for node in set(assignment.isr) - {self._node_id}
            if node not in unsound
            and node in image.sessions
            and (node not in nodes or is_electable(image, nodes[node]))
        }
        preferred = [node for node in assignment.replicas if node in healthy]
        if not preferred or assignment.leader != self._node_id:
            return None
        rest = self._with_isr(topic_id, assignment, frozenset(assignment.isr) - {self._node_id})
        # Not eligible: what a damaged log has is not known.
        eligible = tuple(node for node in rest.eligible if node != self._node_id)
        return structs.replace(rest, leader=preferred[0], leader_epoch=assignment.leader_epoch + 1, eligible=eligible)

    def _guards_of_hand_over(
        self, topic_id: UUID, partition: int, assignment: Assignment, handed: Assignment
    ) -> list[Guard | SessionGuard]:
        # Whoever starts again meanwhile, perhaps with an empty disk, must not find itself elected.
        elected = SessionGuard(keys.session_key(handed.leader), self._metadata.image.sessions[handed.leader])
        return [*self._guards_of(topic_id, partition, assignment.partition_epoch, handed), elected]

    def _change(self, led: LedPartition, isr: frozenset[int], *, not_eligible: frozenset[int] = frozenset()) -> None:
        """Propose, in the step that looked at the followers; what becomes of it is found out in the background.

        What is acknowledged between the look and the proposal would not wait for a follower that joins. What a damaged
        log has is not known.
        """
        assignment = self._assignment(led)
        if assignment is None:
            return
        changed = self._with_isr(led.term.topic_id, assignment, isr)
        changed = structs.replace(
            changed, eligible=tuple(node for node in changed.eligible if node not in not_eligible)
        )
        added = tuple(sorted(isr - led.term.isr))
        guards = self._guards(led, changed, added)
        self._propose(led, isr)
        self._spawn(led, self._conclude(led, changed, added, guards))

    async def _conclude(
        self, led: LedPartition, changed: Assignment, added: tuple[int, ...], guards: Sequence[Guard | SessionGuard]
    ) -> None:
        """Write what is proposed, and go on until it is known what became of it."""
        term = led.term
        is_made = await self._commit(led, changed, guards)
        if not led.is_over and term.proposed is not None:
            # Refused for good: a proposal that was made, or overtaken, is gone with the delta that showed it.
            term.withdraw()
            self._terms.show_in_sync(led)
            led.advance()
        if is_made and added:
            _log.info("%s: nodes %s joined the in-sync replicas", term.place, list(added))
        elif is_made:
            _log.warning("%s: in-sync replicas are %s now, the others lag", term.place, list(changed.isr))

    def _propose(self, led: LedPartition, isr: frozenset[int]) -> None:
        led.term.propose(isr)
        self._terms.show_in_sync(led)

    async def _commit(self, led: LedPartition, changed: Assignment, guards: Sequence[Guard | SessionGuard]) -> bool:
        """Write it; True if it was made. Goes on while the outcome is not known and the term lasts."""
        term = led.term
        event = AssignmentsChanged(term.place.topic, term.topic_id, {term.place.partition: changed})
        wait_s = _AGAIN_S_FIRST
        while not led.is_over:
            try:
                await self._metadata.commit([event], guards)
            except (GuardFailed, Conflict, NotFound) as error:
                _log.info("the in-sync replicas of %s were not changed: %s", term.place, error)
                return False
            except ShuttingDown:
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, the outcome is not known, and both ISR must count
                foreseen = isinstance(error, MetadataUnavailable)
                told = "whether the in-sync replicas of %s were changed is not known: %s"
                _log.warning(told, term.place, error, exc_info=None if foreseen else error)
                await asyncio.sleep(wait_s)
                wait_s = min(wait_s * 2, _AGAIN_S_MAX)
            else:
                return True
        return False

    def _guards(self, led: LedPartition, changed: Assignment, added: tuple[int, ...]) -> list[Guard | SessionGuard]:
        """What a change in a term rests on."""
        term = led.term
        guards = self._guards_of(term.topic_id, term.place.partition, term.partition_epoch, changed)
        return [*guards, *(SessionGuard(keys.session_key(node), term.broker_epochs[node]) for node in added)]

    def _guards_of(
        self, topic_id: UUID, partition: int, partition_epoch: int, changed: Assignment
    ) -> list[Guard | SessionGuard]:
        """What a change rests on. Taken in the step that works it out: what comes later may contradict it."""
        guards: list[Guard | SessionGuard] = [
            Guard(keys.partition_key(topic_id, partition), partition_epoch),
            SessionGuard(keys.session_key(self._node_id), self._broker_epoch()),
        ]
        if changed.eligible:
            # Who is eligible depends on the minimum, which is among the topic's settings.
            settings = keys.settings_key(topic_id)
            guards.append(Guard(settings, self._metadata.image.revision_of(settings)))
        return guards

    def _with_isr(self, topic_id: UUID, assignment: Assignment, isr: frozenset[int]) -> Assignment:
        image = self._metadata.image
        topic = image.topic_by_id(topic_id)
        if topic is None:
            return with_isr(assignment, isr, 1)
        changed = with_isr(assignment, isr, min_insync_of(topic, assignment), eligible_of(image, topic, assignment))
        return storable(image, changed)

    def _assignment(self, led: LedPartition) -> Assignment | None:
        """What the metadata has, if it is of this term and the term knows it."""
        assignments = self._metadata.image.assignments(led.term.topic_id)
        if not assignments:
            return None
        found = assignments[led.term.place.partition]
        return found if found.partition_epoch == led.term.partition_epoch else None

    def _spawn(self, led: LedPartition, work: Coroutine[None, None, object]) -> None:
        async def run() -> None:
            try:
                await work
            except GoQueueError as error:
                _log.warning("the in-sync replicas of %s were not changed: %s", led.term.place, error)
            finally:
                self.under_way.discard(led)

        self.under_way.add(led)
        self._keep(asyncio.create_task(run()))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
