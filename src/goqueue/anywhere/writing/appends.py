"""Appends to partitions that any node leads: what the broker itself stores elsewhere than where it works.

A batch is sent to its leader, which stores it as `LocalAppends` does. After a lost connection nobody knows whether it
was stored: whoever called sends the same batch again, and the partition recognises it. So nothing is repeated here but
what was refused because another node leads.
"""

from __future__ import annotations

import msgspec

from goqueue.anywhere.asking import ANSWER_MS, Asking, PeerMethod
from goqueue.broker.arrivals.append_anywhere import AppendAnywhere, Stored
from goqueue.broker.arrivals.arrival import HeldAt
from goqueue.caller import INTERNAL, Caller
from goqueue.ports import Buffer
from goqueue.records import Acks, Appended, TopicPartition

# How long an acks=all write may take at its leader before its outcome is called unknown.
_APPEND_MS = 30_000


class _Append(msgspec.Struct, frozen=True, array_like=True):
    place: TopicPartition
    batch: bytes
    acks: Acks
    transaction: int | None = None


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    appended: Appended
    held: list[tuple[int, HeldAt]]


class AppendsAnywhere:
    """An `AppendAnywhere`. `name` tells one way in from another: the leader takes the batch the same way."""

    def __init__(self, name: str, local: AppendAnywhere, asking: Asking) -> None:
        self._local = local
        self._asking = asking
        self._method: PeerMethod[_Append, _Stored] = PeerMethod(f"append.{name}", _Append, _Stored)
        asking.answer(self._method, self._here)

    async def __call__(
        self, place: TopicPartition, batch: Buffer, acks: Acks, *, transaction: int | None = None
    ) -> Stored:
        """See `AppendAnywhere`."""
        homes = self._asking.homes

        async def ask(node: int) -> Stored:
            if node == homes.node_id:
                return await self._local(place, batch, acks, transaction=transaction)
            question = _Append(place, bytes(batch), acks, transaction)
            timeout_ms = _APPEND_MS + ANSWER_MS
            stored = await self._asking.ask(node, self._method, question, INTERNAL, timeout_ms=timeout_ms)
            return Stored(stored.appended, dict(stored.held))

        # Every caller has a producer id and sequences of its own, by which the next leader knows what it has.
        return await self._asking.at_home(lambda: homes.leader_of(place), ask, is_repeatable=True)

    async def _here(self, asked: _Append, _caller: Caller) -> _Stored:
        stored = await self._local(asked.place, asked.batch, asked.acks, transaction=asked.transaction)
        return _Stored(stored.appended, list(stored.held.items()))
