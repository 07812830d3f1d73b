"""The controller: the node that holds `/ctl` under its session's lease, and carries out the plan.

Its epoch is the revision at which the key was created, and every write is guarded by it: whoever was the controller
before writes nothing more. It keeps no state: a new one looks at the image and goes on.
"""

from __future__ import annotations

import asyncio
import logging
from uuid import UUID

from goqueue.clock import Clock, Timer
from goqueue.cluster.control.plan import Batch, Change, Plan, decide
from goqueue.cluster.session import Session
from goqueue.errors import Conflict, GuardFailed, MetadataUnavailable, NotFound
from goqueue.metadata.events import (
    AssignmentsChanged,
    ControllerChanged,
    Delta,
    NodeChanged,
    SessionChanged,
    TopicDeleted,
)
from goqueue.metadata.keys import CONTROLLER, session_key
from goqueue.metadata.membership import created_at
from goqueue.metadata.shared.kv import Compare, On, Put
from goqueue.metadata.shared.kv_store import KvMetadata
from goqueue.metadata.store import SessionGuard

_log = logging.getLogger("goqueue.cluster")

IN_FLIGHT_MAX = 8
_RETRY_S = 0.2
_PAUSE_S = 0.02


class Controller:
    """This node as the controller, or as one that stands by."""

    def __init__(
        self,
        metadata: KvMetadata,
        session: Session,
        *,
        node_id: int,
        return_after_ms: int,
        clock: Clock,
    ) -> None:
        self._metadata = metadata
        self._session = session
        self._node_id = node_id
        self._return_after_ms = return_after_ms
        self._clock = clock
        self._calm_since_ms = clock.monotonic_ms()
        # The leader epochs of partitions that were led by another than their preferred replica.
        self._led_elsewhere: dict[tuple[UUID, int], int] = {}
        self._news = asyncio.Event()
        self._news.set()
        self._task: asyncio.Task[None] | None = None
        self._timer: Timer | None = None
        metadata.subscribe(self._on_delta)

    @property
    def is_active(self) -> bool:
        """Whether this node is the controller, as far as it knows."""
        found = self._metadata.image.controller
        return found is not None and found[0] == self._node_id

    def start(self) -> None:
        """Stand for the office, and do its work whenever it is this node's."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop. The office ends with the session."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _on_delta(self, delta: Delta) -> None:
        for one in delta.events:
            if isinstance(one, TopicDeleted):
                self._led_elsewhere = {key: at for key, at in self._led_elsewhere.items() if key[0] != one.topic_id}
            if isinstance(one, SessionChanged | NodeChanged | ControllerChanged) or (
                isinstance(one, AssignmentsChanged) and self._is_handed_over(one)
            ):
                self._calm_since_ms = self._clock.monotonic_ms()
        self._news.set()

    def _is_handed_over(self, event: AssignmentsChanged) -> bool:
        """Whether a preferred leader has let another lead, as with a full disk.

        It is in sync again in a moment, for it lacks nothing; to let it lead at once would be to ask for the next hand
        over, without end.
        """
        found = False
        for number, one in event.assignments.items():
            key = (event.topic_id, number)
            if not one.replicas or one.leader == one.replicas[0]:
                self._led_elsewhere.pop(key, None)
            elif self._led_elsewhere.get(key) != one.leader_epoch:
                self._led_elsewhere[key] = one.leader_epoch
                found = True
        return found

    async def _run(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                wake_at_ms = await self._work()
            except MetadataUnavailable as error:
                _log.warning("the controller waits for the metadata store: %s", error)
                wake_at_ms = self._clock.monotonic_ms() + int(_RETRY_S * 1000)
            except Exception:  # noqa: BLE001 - the office is held by the session: without this loop nobody would do its work
                _log.exception("the controller could not carry out its plan, and will try again")
                wake_at_ms = self._clock.monotonic_ms() + 1_000
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if wake_at_ms is not None:
                wait_ms = max(wake_at_ms - self._clock.monotonic_ms(), 1)
                self._timer = self._clock.call_later(wait_ms, self._news.set)
            # The whole image is looked through each time: changes that come in bulk are taken together.
            await asyncio.sleep(_PAUSE_S)

    async def _work(self) -> int | None:
        """Do what there is to do; returns when to look again, if by time."""
        if self._metadata.image.controller is None and self._session.epoch > 0:
            await self._stand()
        while self.is_active:
            plan = decide(
                self._metadata.image,
                self._clock.monotonic_ms(),
                calm_since_ms=self._calm_since_ms,
                return_after_ms=self._return_after_ms,
            )
            if not plan.batches:
                return plan.wake_at_ms
            await self._carry_out(plan)
        return None

    async def _stand(self) -> None:
        mine = Compare(session_key(self._node_id), created_at(self._session.epoch), On.CREATED)
        made = await self._metadata.transact(
            [Compare(CONTROLLER, 0), mine], [Put(CONTROLLER, str(self._node_id).encode(), self._session.lease)]
        )
        await self._metadata.catch_up()
        if made.succeeded:
            _log.info("node %d is the controller", self._node_id)

    async def _carry_out(self, plan: Plan) -> None:
        found = self._metadata.image.controller
        if found is None:
            return
        office = SessionGuard(CONTROLLER, found[1])
        slots = asyncio.Semaphore(IN_FLIGHT_MAX)

        async def commit(batch: Batch) -> bool:
            async with slots:
                try:
                    await self._metadata.commit(batch.events, [office, *batch.guards])
                except (GuardFailed, Conflict, NotFound):
                    # Somebody else was faster, or another controller is in office: the next plan takes it in.
                    return False
                return True

        made = await asyncio.gather(*map(commit, plan.batches))
        if all(made):
            for change in plan.unclean:
                _tell_unclean(change)
        elif not any(made):
            # Nothing of it was possible: the image is behind, and must not be looked at in a circle.
            await asyncio.sleep(_RETRY_S / 10)


def _tell_unclean(change: Change) -> None:
    _log.error(
        "%s-%d is led by node %d, which was not in sync: acknowledged records may be lost",
        change.topic.name,
        change.partition,
        change.after.leader,
    )
