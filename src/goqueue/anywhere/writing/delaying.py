"""Delayed messages for partitions that any node leads: each leader holds its own, outcomes in the order sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from goqueue.anywhere.asking import ANSWER_MS, Asking, PeerMethod
from goqueue.anywhere.spread import Spread
from goqueue.caller import ANONYMOUS, Caller
from goqueue.delay.service import DelayService
from goqueue.delay.values import Held, SlotId
from goqueue.errors import GoQueueError
from goqueue.records import TopicPartition

# How long it may take until messages are safe at another node before their outcome is called unknown.
_HOLD_MS = 30_000
_NO_SLOT = SlotId(-1, -1)


class _Hold(msgspec.Struct, frozen=True, array_like=True):
    topic: str
    messages: list[Held]


class _Outcome(msgspec.Struct, frozen=True, array_like=True):
    slot: SlotId
    error: GoQueueError | None = None


_HOLD: PeerMethod[_Hold, list[_Outcome]] = PeerMethod("delay.hold", _Hold, list[_Outcome])


class DelayAnywhere:
    """`DelayService` whose `hold` reaches all partitions of the cluster; slots are asked for at their leader."""

    def __init__(self, local: DelayService, asking: Asking) -> None:
        self._local = local
        self._asking = asking
        self._homes = asking.homes
        asking.answer(_HOLD, self._hold_here)

    def __getattr__(self, name: str) -> Any:
        """What is asked of the leader itself."""
        return getattr(self._local, name)

    async def hold(
        self, topic: str, messages: Sequence[Held], *, caller: Caller = ANONYMOUS
    ) -> list[SlotId | GoQueueError]:
        """See `DelayService.hold`."""

        async def ask(node: int, mine: Sequence[Held]) -> list[_Outcome]:
            question = _Hold(topic, list(mine))
            return await self._asking.ask_or_answer(node, _HOLD, question, caller, timeout_ms=_HOLD_MS + ANSWER_MS)

        outcomes, shares = self._local.placed(topic, messages)
        spread = Spread(self._asking, ask, lambda _held, error: _Outcome(_NO_SLOT, error), lambda one: one.error)
        # The partition is chosen here: whoever leads it must not choose again.
        items = {
            TopicPartition(topic, partition): [messages[at]._replace(partition=partition) for at in positions]
            for partition, positions in shares.items()
        }
        found = await spread.of(items)
        for partition, positions in shares.items():
            results = found[TopicPartition(topic, partition)]
            outcomes.update(zip(positions, map(_slot_or_error, results), strict=True))
        return [outcomes[at] for at in range(len(messages))]

    async def _hold_here(self, asked: _Hold, caller: Caller) -> list[_Outcome]:
        results = await self._local.hold(asked.topic, asked.messages, caller=caller)
        return [_Outcome(one) if isinstance(one, SlotId) else _Outcome(_NO_SLOT, one) for one in results]


def _slot_or_error(outcome: _Outcome) -> SlotId | GoQueueError:
    return outcome.slot if outcome.error is None else outcome.error
