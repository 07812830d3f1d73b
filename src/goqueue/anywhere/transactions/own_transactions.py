"""Transactions of the broker's own jobs: each call goes to the coordinator of the transactional id."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from goqueue.anywhere.asking import ANSWER_MS, Asking, PeerMethod, Question, Reply
from goqueue.caller import INTERNAL, Caller
from goqueue.errors import GoQueueError, InvalidTransactionState
from goqueue.records import TopicPartition
from goqueue.transactions.commands import Producer
from goqueue.transactions.names import shard_key
from goqueue.transactions.records import TransactionState
from goqueue.transactions.service import TRANSACTION_STATE, TransactionService

# A coordinator waits until what was open before is ended, or until every partition has been told.
_END_MS = 30_000 + ANSWER_MS


class _Begin(msgspec.Struct, frozen=True, array_like=True):
    transactional_id: str
    producer: Producer


class _Add(msgspec.Struct, frozen=True, array_like=True):
    transactional_id: str
    producer: Producer
    places: list[TopicPartition]
    number: int | None
    # Of partitions that are only settled or reopened nothing is asked but that they are part of it.
    is_written: bool


class _Refused(msgspec.Struct, frozen=True, array_like=True):
    place: TopicPartition
    error: GoQueueError


class _End(msgspec.Struct, frozen=True, array_like=True):
    transactional_id: str
    producer: Producer
    commit: bool
    number: int | None
    until_applied: bool


_INIT: PeerMethod[str, Producer] = PeerMethod("own_transaction.init", str, Producer)
_BEGIN: PeerMethod[_Begin, int] = PeerMethod("own_transaction.begin", _Begin, int)
_ADD: PeerMethod[_Add, list[_Refused]] = PeerMethod("own_transaction.add", _Add, list[_Refused])
_END: PeerMethod[_End, Producer] = PeerMethod("own_transaction.end", _End, Producer)


class OwnTransactionsAnywhere:
    """What sending dead letters back needs of `TransactionService`, whichever node coordinates the id."""

    def __init__(self, local: TransactionService, asking: Asking) -> None:
        self._local = local
        self._asking = asking
        asking.answer(_INIT, self._init_here)
        asking.answer(_BEGIN, self._begin_here)
        asking.answer(_ADD, self._add_here)
        asking.answer(_END, self._end_here)

    async def init_producer(self, transactional_id: str) -> Producer:
        """See `TransactionService.init_producer`."""
        return await self._at(transactional_id, _INIT, transactional_id)

    async def begin(self, transactional_id: str, producer: Producer) -> int:
        """See `TransactionService.begin`."""
        return await self._at(transactional_id, _BEGIN, _Begin(transactional_id, producer))

    async def add_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        *,
        number: int | None = None,
    ) -> dict[TopicPartition, GoQueueError]:
        """See `TransactionService.add_partitions`."""
        asked = _Add(transactional_id, producer, list(partitions), number, is_written=True)
        refused = await self._at(transactional_id, _ADD, asked)
        return {one.place: one.error for one in refused}

    async def take_part(
        self,
        transactional_id: str,
        producer: Producer,
        places: Collection[TopicPartition],
        *,
        number: int | None = None,
    ) -> None:
        """See `TransactionService.take_part`."""
        asked = _Add(transactional_id, producer, list(places), number, is_written=False)
        await self._at(transactional_id, _ADD, asked)

    async def end(
        self,
        transactional_id: str,
        producer: Producer,
        *,
        commit: bool,
        number: int | None = None,
        until_applied: bool = True,
    ) -> Producer:
        """See `TransactionService.end`."""
        asked = _End(transactional_id, producer, commit, number, until_applied)
        return await self._at(transactional_id, _END, asked)

    async def _at(
        self,
        transactional_id: str,
        method: PeerMethod[Question, Reply],
        question: Question,
    ) -> Reply:
        """Ask the coordinator of the id."""
        homes = self._asking.homes
        return await self._asking.at_home(
            lambda: homes.coordinator_of(TRANSACTION_STATE, shard_key(transactional_id)),
            lambda node: self._asking.ask_or_answer(node, method, question, INTERNAL, timeout_ms=_END_MS),
            is_repeatable=True,
        )

    # --- the node that is asked ------------------------------------------------------------

    async def _init_here(self, transactional_id: str, _caller: Caller) -> Producer:
        return await self._local.init_producer(transactional_id)

    async def _begin_here(self, asked: _Begin, _caller: Caller) -> int:
        try:
            return await self._local.begin(asked.transactional_id, asked.producer)
        except InvalidTransactionState:
            # Told again: the coordinator before has begun it and did not live to say so. A job has one at a time.
            known = await self._local.describe(asked.transactional_id)
            self._local.check_is(known, asked.producer)
            if known.state is not TransactionState.ONGOING or known.partitions:
                raise
            return known.number

    async def _add_here(self, asked: _Add, _caller: Caller) -> list[_Refused]:
        of = (asked.transactional_id, asked.producer, asked.places)
        if not asked.is_written:
            await self._local.take_part(*of, number=asked.number)
            return []
        refused = await self._local.add_partitions(*of, number=asked.number)
        return [_Refused(place, error) for place, error in refused.items()]

    async def _end_here(self, asked: _End, _caller: Caller) -> Producer:
        return await self._local.end(
            asked.transactional_id,
            asked.producer,
            commit=asked.commit,
            number=asked.number,
            until_applied=asked.until_applied,
        )
