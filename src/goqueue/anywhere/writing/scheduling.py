"""Recurring messages that live in partitions of any node: made, shown and deleted at the leader of their home.

The home of a name that is in use is in the metadata. That of a new one follows from its partition, key or name, and
its leader claims the name with a guarded commit: of two nodes that are asked for the same name only one gets it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from goqueue.anywhere.asking import ANSWER_MS, Asking, PeerMethod, Question, Reply
from goqueue.caller import INTERNAL
from goqueue.delay.recurring.schedules import Described, NewSchedule, ScheduleService
from goqueue.errors import ScheduleNotFound
from goqueue.records import TopicPartition

# A schedule is safe once a name is committed and its home is written with acks=all.
_CHANGE_MS = 30_000 + ANSWER_MS

_CREATE: PeerMethod[NewSchedule, Described] = PeerMethod("schedule.create", NewSchedule, Described)
_GET: PeerMethod[str, Described] = PeerMethod("schedule.get", str, Described)
_DELETE: PeerMethod[str, None] = PeerMethod("schedule.delete", str, None)
_FREE: PeerMethod[str, None] = PeerMethod("schedule.free", str, None)


class SchedulesAnywhere:
    """`ScheduleService` for homes that any node leads; each node lists its own."""

    def __init__(self, local: ScheduleService, asking: Asking) -> None:
        self._local = local
        self._asking = asking
        asking.answer(_CREATE, lambda new, _caller: local.create(new))
        asking.answer(_GET, lambda name, _caller: local.get(name))
        asking.answer(_DELETE, lambda name, _caller: local.delete(name))
        asking.answer(_FREE, lambda name, _caller: local.free(name))

    def __getattr__(self, name: str) -> Any:
        """What each node does for its own."""
        return getattr(self._local, name)

    async def create(self, new: NewSchedule) -> Described:
        """See `ScheduleService.create`."""
        place = await self._local.future_home(new)
        known = self._local.known_home(new.name)
        if known is not None and known != place:
            # Only the leader of the known home can say that no schedule is there.
            await self._at(lambda: known, _FREE, new.name)
        return await self._at(lambda: place, _CREATE, new)

    async def get(self, name: str) -> Described:
        """See `ScheduleService.get`."""
        return await self._at(lambda: self._home(name), _GET, name)

    async def delete(self, name: str) -> None:
        """See `ScheduleService.delete`."""
        await self._at(lambda: self._home(name), _DELETE, name)

    def _home(self, name: str) -> TopicPartition:
        place = self._local.known_home(name)
        if place is None:
            raise ScheduleNotFound(name)
        return place

    async def _at(
        self,
        place: Callable[[], TopicPartition],
        method: PeerMethod[Question, Reply],
        question: Question,
    ) -> Reply:
        """Ask the leader of the partition."""
        homes = self._asking.homes
        # Whether the caller may is checked by the node that was asked.
        return await self._asking.at_home(
            lambda: homes.leader_of(place()),
            lambda node: self._asking.ask_or_answer(node, method, question, INTERNAL, timeout_ms=_CHANGE_MS),
        )
