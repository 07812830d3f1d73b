"""The queue as front-ends of any node see it: receive and settle everywhere, figures and settings of all nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from goqueue.anywhere.asking import Asking, PeerMethod
from goqueue.anywhere.queues.queue_positions import PositionsAnywhere
from goqueue.anywhere.queues.receiving import ReceiveAnywhere
from goqueue.anywhere.queues.redriving import RedriveAnywhere
from goqueue.anywhere.queues.settling import LeasesToSettle, Promise, SettleAnywhere
from goqueue.caller import ANONYMOUS, INTERNAL, Caller
from goqueue.errors import GoQueueError
from goqueue.metadata.events import Delta, GroupSettingsChanged

if TYPE_CHECKING:
    from goqueue.coordinator.shard import Transaction
    from goqueue.delivery.receiving import SessionProblem
    from goqueue.delivery.service import DeliveryService
    from goqueue.delivery.settlement.settler import LeasedOffsets, LeaseSettled
    from goqueue.delivery.state.commands import FreshShare
    from goqueue.delivery.state.records import QueueId
    from goqueue.delivery.values import Action, Delivery, Receive, Settlement, SettleResult
    from goqueue.records import TopicPartition

_GOVERN: PeerMethod[str, None] = PeerMethod("queue.govern", str, None)


class DeliveryAnywhere:
    """`DeliveryService` for all partitions of the cluster."""

    def __init__(
        self,
        local: DeliveryService,
        asking: Asking,
        positions: PositionsAnywhere,
        forget_settings: Callable[[str], None] = lambda _group: None,
        session_problem: SessionProblem = lambda: None,
    ) -> None:
        self._local = local
        self._asking = asking
        self.positions = positions
        self._forget_settings = forget_settings
        self._settling = SettleAnywhere(local, asking)
        self._receiving = ReceiveAnywhere(local, asking, self._give_back, session_problem)
        # Where redrives look for what a dead letter was.
        self.originals = RedriveAnywhere(local, asking)
        self._under_way: set[asyncio.Task[None]] = set()
        asking.answer(_GOVERN, lambda group, _caller: self._govern_here(group))

    def __getattr__(self, name: str) -> Any:
        """What is asked of the leader itself."""
        return getattr(self._local, name)

    async def receive(self, request: Receive, *, caller: Caller = ANONYMOUS) -> list[Delivery]:
        """See `DeliveryService.receive`."""
        return await self._receiving.receive(request, caller)

    async def settle(
        self, settlements: Sequence[Settlement], *, durable: bool = False, caller: Caller = ANONYMOUS
    ) -> list[SettleResult]:
        """See `DeliveryService.settle`."""
        return await self._settling.settle(settlements, durable=durable, caller=caller)

    async def settle_leases(
        self,
        leases: Sequence[LeasedOffsets],
        action: Action,
        *,
        delay_ms: int | None = None,
        reason: str = "",
        visibility_ms: int | None = None,
        durable: bool = False,
        caller: Caller = ANONYMOUS,
    ) -> list[LeaseSettled]:
        """See `DeliveryService.settle_leases`."""
        asked = LeasesToSettle(list(leases), action, delay_ms, reason, visibility_ms, durable)
        return await self._settling.settle_leases(asked, caller)

    async def promise(
        self,
        receipts: Sequence[str],
        transaction: Transaction,
        *,
        rejected: bool = False,
        reason: str = "",
        caller: Caller = ANONYMOUS,
    ) -> None:
        """See `DeliveryService.promise`."""
        await self._settling.promise(Promise(list(receipts), transaction, rejected, reason), caller)

    async def reopen(self, queue_id: QueueId, shares: Sequence[FreshShare], transaction: Transaction) -> None:
        """See `DeliveryService.reopen`."""
        await self.originals.reopen(queue_id, shares, transaction)

    async def release_all(self, group: str, places: Sequence[TopicPartition]) -> None:
        """See `DeliveryService.release_all`."""
        await self.originals.release_all(group, places)

    async def note_redriven(self, letters: Collection[str]) -> None:
        """See `DeliveryService.note_redriven`. Every leader is told before anything is sent back."""
        await self.originals.note_redriven(letters)

    async def govern(self, group: str) -> None:
        """The group's settings were changed: every leader of its queues obeys them from now on."""
        await self._asking.everywhere(lambda node: self._asking.ask_or_answer(node, _GOVERN, group, INTERNAL))

    async def _govern_here(self, group: str) -> None:
        self._forget_settings(group)
        await self._local.govern(group)

    def on_delta(self, delta: Delta) -> None:
        """Settings that another node changed hold for the queues that this one leads."""
        for event in delta.events:
            if isinstance(event, GroupSettingsChanged):
                self._spawn(self._govern_quietly(event.group))

    async def _govern_quietly(self, group: str) -> None:
        # The next delivery brings the settings too.
        with suppress(GoQueueError):
            await self._govern_here(group)

    async def close(self) -> None:
        """Let what is under way come to its end."""
        await asyncio.gather(*self._under_way)

    def _give_back(self, settlements: Sequence[Settlement]) -> None:
        async def release() -> None:
            # Their visibility ends by itself, only later.
            with suppress(GoQueueError):
                await self._settling.settle(settlements, durable=False, caller=INTERNAL)

        self._spawn(release())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
