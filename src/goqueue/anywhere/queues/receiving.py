"""Receiving from partitions that several nodes lead: this node's first, then the others', then all wait.

Whoever leases messages for a caller that has gone gives them back: a receive that is cancelled at its leader has leased
nothing, and an answer that comes too late is released by this node. A node that cannot be reached lets its leases
expire, as for any consumer that is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from msgspec import structs

from goqueue.anywhere.asking import ANSWER_MS, Asking, PeerMethod, is_elsewhere
from goqueue.anywhere.reading.first_answer import first_answers
from goqueue.caller import Caller
from goqueue.delivery.receiving import SessionProblem
from goqueue.delivery.service import DeliveryService
from goqueue.delivery.values import Action, Delivery, Receive, Settlement
from goqueue.errors import GoQueueError, NotLeader
from goqueue.records import TopicPartition

_RECEIVE: PeerMethod[Receive, list[Delivery]] = PeerMethod("queue.receive", Receive, list[Delivery])

# Gives messages back whose receiver has gone.
GiveBack = Callable[[Sequence[Settlement]], None]
# How long to wait for the other leaders while a partition has none, or one that cannot be reached.
_LEADERLESS_WAIT_S = 0.5
# How soon leaders that all refused are asked again at first, as most is over in a moment; each time twice as long.
_REFUSED_WAIT_S_FIRST = 0.02
_Groups = Mapping[int, Sequence[TopicPartition]]


class ReceiveAnywhere:
    """Receives from all partitions of the cluster."""

    def __init__(
        self,
        local: DeliveryService,
        asking: Asking,
        give_back: GiveBack,
        session_problem: SessionProblem = lambda: None,
    ) -> None:
        """`session_problem` says why this node may have been out of touch with the others for long; None if not."""
        self._session_problem = session_problem
        self._local = local
        self._asking = asking
        self._homes = asking.homes
        self._give_back = give_back
        self._turn = 0
        asking.answer(_RECEIVE, lambda asked, caller: self._local.receive(asked, caller=caller))

    async def receive(self, request: Receive, caller: Caller) -> list[Delivery]:
        """See `DeliveryService.receive`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + request.wait_ms / 1000
        pause_s = _REFUSED_WAIT_S_FIRST
        while True:
            groups = self._homes.by_leader(request.places)
            if set(groups) <= {self._homes.node_id}:
                return await self._local.receive(_until(request, deadline - loop.time()), caller=caller)
            try:
                found = await self._from_all(request, groups, deadline - loop.time(), caller)
            except GoQueueError as refusal:
                seconds_left = deadline - loop.time()
                if not is_elsewhere(refusal, is_repeatable=True) or seconds_left <= 0:
                    raise
                await self._asking.settle_down(min(pause_s, seconds_left))
                pause_s = min(2 * pause_s, _LEADERLESS_WAIT_S)
                continue
            pause_s = _REFUSED_WAIT_S_FIRST
            if found or deadline - loop.time() <= 0:
                return found

    async def _from_all(self, request: Receive, groups: _Groups, seconds: float, caller: Caller) -> list[Delivery]:
        refused: dict[int, GoQueueError] = {}
        for node in self._order(groups):
            try:
                found = await self._ask(node, structs.replace(request, places=groups[node], wait_ms=0), caller)
            except GoQueueError as refusal:
                if not is_elsewhere(refusal, is_repeatable=True):
                    raise
                # A node that cannot be reached must not hide what the others have.
                refused[node] = refusal
            else:
                if found:
                    return found
        answering = {node: places for node, places in groups.items() if node >= 0 and node not in refused}
        if refused and not answering:
            raise next(iter(refused.values()))
        if seconds <= 0:
            return []
        if not answering:
            # No partition has a leader. Whoever asked again at once would keep the loop from everything else.
            await asyncio.sleep(min(seconds, _LEADERLESS_WAIT_S))
            return []
        if len(answering) < len(groups):
            # Some partitions have no leader that answers: who leads them is looked up again before long.
            seconds = min(seconds, _LEADERLESS_WAIT_S)
        return await self._from_first(_until(request, seconds), answering, caller)

    async def _from_first(self, request: Receive, groups: _Groups, caller: Caller) -> list[Delivery]:
        """All leaders wait; of what several gave in the same moment, no more than the limit is kept."""
        parts = await first_answers(
            [self._ask(node, structs.replace(request, places=places), caller) for node, places in groups.items()],
            bool,
            self._release,
        )
        found = list(chain.from_iterable(parts))
        if len(found) > request.limit:
            self._release(found[request.limit :])
        return found[: request.limit]

    def _order(self, groups: _Groups) -> list[int]:
        """This node, then the others in turn: none is asked last for ever."""
        self._turn += 1
        others = sorted(groups.keys() - {-1, self._homes.node_id})
        start = self._turn % len(others) if others else 0
        here = [self._homes.node_id] if self._homes.node_id in groups else []
        return [*here, *others[start:], *others[:start]]

    async def _ask(self, node: int, request: Receive, caller: Caller) -> list[Delivery]:
        if node == self._homes.node_id:
            return await self._local.receive(request, caller=caller)
        timeout_ms = request.wait_ms + ANSWER_MS
        found = await self._asking.ask(node, _RECEIVE, request, caller, timeout_ms=timeout_ms, on_late=self._release)
        problem = self._session_problem() if found else None
        if problem is not None:
            # The answer may have lain here while this node was frozen: others may have had them since.
            self._release(found)
            raise NotLeader(f"messages may be delivered elsewhere: {problem}")
        return found

    def _release(self, found: Sequence[Delivery]) -> None:
        if found:
            self._give_back([Settlement(one.receipt, Action.RELEASE) for one in found])


def _until(request: Receive, seconds: float) -> Receive:
    return structs.replace(request, wait_ms=max(0, int(seconds * 1000)))
