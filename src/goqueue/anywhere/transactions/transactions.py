"""Transactions whose coordinator is another node: partitions ask it before they take a batch, and it ends them.

The coordinator follows from the transactional id or writer. Who knows the producer id alone asks all nodes for the
name, which a producer keeps for ever.

A verification is an answer about one moment. An end of the producer's transaction that reaches the partition meanwhile
makes it void: the batch would lie behind its marker and stay open for ever. The coordinator is asked again then. The
end may be that of the transaction before: a client begins the next one as soon as its end is decided, and the question
about the next may be on its way before the partition was told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import msgspec
from msgspec import structs

from goqueue.anywhere.asking import ANSWER_MS, Asking, PeerMethod
from goqueue.caller import INTERNAL, Caller
from goqueue.coordinator.shard import Transaction
from goqueue.errors import (
    ConcurrentTransactions,
    CoordinatorFenced,
    CoordinatorUnavailable,
    GoQueueError,
    InvalidProducerIdMapping,
    InvalidTransactionState,
)
from goqueue.ids import is_internal
from goqueue.records import TopicPartition
from goqueue.transactions.commands import Producer
from goqueue.transactions.ending import EndAt
from goqueue.transactions.names import Name, Participant, shard_key
from goqueue.transactions.open_transactions import OpenTransactions
from goqueue.transactions.service import TRANSACTION_STATE, TransactionService

# Ending waits for acks=all of what was staged and promised, and of the marker.
_END_MS = 30_000


class _End(msgspec.Struct, frozen=True, array_like=True):
    place: TopicPartition
    transaction: Transaction
    commit: bool
    coordinator_epoch: int
    # What the transaction's coordinator follows from; empty if an earlier version asks, or nobody coordinates it.
    key: str = ""


class _Verify(msgspec.Struct, frozen=True, array_like=True):
    name: Name
    producer: Producer
    places: list[TopicPartition]
    # Adds the partitions to the transaction (KIP-890), instead of asking whether they are part of it.
    implicit: bool


class _Join(msgspec.Struct, frozen=True, array_like=True):
    producer: Producer
    place: TopicPartition
    number: int | None
    # What the coordinator follows from; empty if an earlier version asks.
    key: str = ""


class _Open(msgspec.Struct, frozen=True, array_like=True):
    """The open transaction that partitions are part of."""

    coordinator_epoch: int
    number: int


_END: PeerMethod[_End, None] = PeerMethod("transaction.end", _End, None)
_VERIFY: PeerMethod[_Verify, _Open] = PeerMethod("transaction.verify", _Verify, _Open)
_ENLIST: PeerMethod[_Join, None] = PeerMethod("transaction.enlist", _Join, None)
_JOIN: PeerMethod[_Join, None] = PeerMethod("transaction.join", _Join, None)
_NAME: PeerMethod[int, Name | None] = PeerMethod("transaction.name", int, Name | None)

_SLASHES_OF_PARTICIPANT = 2
# How often coordinators that change meanwhile are asked whose a producer is.
_QUESTIONS_MAX = 10
# How often a question is asked whose answer an end overtook. More than twice takes a failover.
_OVERTAKEN_MAX = 10
# The oldest are forgotten first, and asked for again.
_NAMES_MAX = 100_000


class EndAnywhere:
    """An `EndAt` for partitions that any node leads.

    The leader of the partition looks up in its metadata who coordinates the transaction. A leader whose term is older
    than the coordinator's was told by that coordinator what is open (`OpenTransactions.check_end`); one whose term is
    newer knows the term of the coordinator by its metadata. Between the two no late end of an earlier one gets through.
    """

    def __init__(self, local: EndAt, asking: Asking, known: OpenTransactions) -> None:
        self._local = local
        self._asking = asking
        self._known = known
        asking.answer(_END, self._here)

    async def __call__(
        self, place: TopicPartition, transaction: Transaction, /, *, commit: bool, coordinator_epoch: int
    ) -> None:
        """See `EndAt`."""
        homes, known = self._asking.homes, self._known.get(transaction.producer_id)
        key = "" if known is None else shard_key(known.name)
        asked = _End(place, transaction, commit, coordinator_epoch, key)
        await self._asking.at_home(
            lambda: homes.leader_of(place),
            lambda node: self._asking.ask_or_answer(node, _END, asked, INTERNAL, timeout_ms=_END_MS + ANSWER_MS),
            is_repeatable=True,
        )

    async def _here(self, asked: _End, _caller: Caller) -> None:
        epoch = self._asking.homes.coordinator_epoch(TRANSACTION_STATE, asked.key) if asked.key else -1
        if 0 <= asked.coordinator_epoch < epoch:
            raise CoordinatorFenced(
                f"the end of a transaction of producer {asked.transaction.producer_id} comes from coordinator epoch "
                f"{asked.coordinator_epoch}, but epoch {epoch} has begun since"
            )
        await self._local(
            asked.place, asked.transaction, commit=asked.commit, coordinator_epoch=asked.coordinator_epoch
        )


class Verification:
    """Asks the coordinators of transactions about partitions of this node."""

    def __init__(self, transactions: TransactionService, open_transactions: OpenTransactions, asking: Asking) -> None:
        self._transactions = transactions
        self._open = open_transactions
        self._asking = asking
        self._homes = asking.homes
        self._names: dict[int, Name] = {}
        # By producer id, the newest question on its way: batches behind it are written behind it.
        self._gates: dict[int, asyncio.Task[None]] = {}
        asking.answer(_VERIFY, self._verify_here)
        asking.answer(_JOIN, self._join_here)
        asking.answer(_ENLIST, self._enlist_here)
        asking.answer(_NAME, lambda producer_id, _caller: transactions.name_here(producer_id))

    def admit(
        self, transactional_id: str, producer: Producer, places: Collection[TopicPartition], *, implicit: bool
    ) -> asyncio.Future[None] | None:
        """What a batch must wait for; None if nothing, also where this node is the coordinator."""
        if self._open.get(producer.producer_id) is not None:
            return None
        missing = [one for one in places if not self._open.is_verified(producer, one)]
        gate = self._gates.get(producer.producer_id)
        if missing:
            asked = _Verify(transactional_id, producer, missing, implicit)
            gate = asyncio.get_running_loop().create_task(self._verify_after(asked, gate))
            self._gates[producer.producer_id] = gate
            gate.add_done_callback(lambda done: self._forget_gate(producer.producer_id, done))
        return gate

    async def verify(self, transaction: Transaction, place: TopicPartition) -> None:
        """Ask about the partition, unless it is known that it is part of the producer's open transaction."""
        producer = Producer(transaction.producer_id, transaction.producer_epoch)
        if self._open.is_verified(producer, place):
            return
        name = await self.name_of(producer.producer_id)
        if name is None:
            raise InvalidTransactionState(f"{place} is in no open transaction of producer {producer.producer_id}")
        await self._verify(_Verify(name, producer, [place], implicit=False))

    async def join(self, producer: Producer, place: TopicPartition, number: int | None) -> None:
        """See `TransactionService.join`."""
        await self._at_coordinator(_JOIN, _Join(producer, place, number))

    async def enlist(self, producer: Producer, place: TopicPartition, number: int) -> None:
        """See `TransactionService.enlist`."""
        await self._at_coordinator(_ENLIST, _Join(producer, place, number))

    async def _at_coordinator(self, method: PeerMethod[_Join, None], asked: _Join) -> None:
        producer_id = asked.producer.producer_id
        name = await self.name_of(producer_id)
        if name is None:
            raise InvalidProducerIdMapping(f"producer {producer_id} belongs to no transactional id")
        asked = structs.replace(asked, key=shard_key(name))
        await self._asking.at_home(
            lambda: self._coordinator_of(name),
            lambda node: self._asking.ask_or_answer(node, method, asked, INTERNAL),
            is_repeatable=True,
        )

    async def name_of(self, producer_id: int) -> Name | None:
        """Whose transactions a producer writes; None if all coordinators say that it writes none."""
        known = self._names.get(producer_id)
        if known is not None:
            return known
        for _ in range(_QUESTIONS_MAX):
            terms = self._asking.homes.terms(TRANSACTION_STATE)
            name = await self._transactions.name_here(producer_id)
            if name is None:
                name = await self._name_elsewhere(producer_id)
            if name is not None:
                # That it writes none is not kept: an id that was guessed before it was given out may get a name later.
                self._note_name(producer_id, name)
                return name
            # What moves from one node to another while both are asked is known to neither.
            await self._asking.know_all()
            if self._asking.homes.terms(TRANSACTION_STATE) == terms:
                return None
        raise CoordinatorUnavailable(f"nobody can say whose producer {producer_id} is: coordinators are changing")

    def known_name(self, producer_id: int) -> Name | None:
        """As `name_of`, as far as this node has asked."""
        return self._names.get(producer_id)

    def _note_name(self, producer_id: int, name: Name) -> None:
        if len(self._names) >= _NAMES_MAX:
            self._names.pop(next(iter(self._names)))
        self._names[producer_id] = name

    async def _name_elsewhere(self, producer_id: int) -> Name | None:
        coordinators = self._homes.coordinators(TRANSACTION_STATE) - {self._homes.node_id}
        asks = [self._asking.ask(node, _NAME, producer_id, INTERNAL) for node in sorted(coordinators)]
        outcomes = await asyncio.gather(*asks, return_exceptions=True)
        for outcome in outcomes:
            if outcome is not None and not isinstance(outcome, BaseException):
                return outcome
        for outcome in outcomes:
            if isinstance(outcome, GoQueueError):
                raise CoordinatorUnavailable(
                    f"no coordinator could say which transactional id producer {producer_id} belongs to: {outcome}"
                ) from outcome
            if isinstance(outcome, BaseException):
                raise outcome
        return None

    def _coordinator_of(self, name: Name) -> int:
        return self._homes.coordinator_of(TRANSACTION_STATE, shard_key(name))

    def _forget_gate(self, producer_id: int, done: asyncio.Task[None]) -> None:
        if self._gates.get(producer_id) is done:
            del self._gates[producer_id]
        if not done.cancelled():
            # Whoever waits for it is told; it need not be reported again when nobody does.
            done.exception()

    async def _verify_after(self, asked: _Verify, earlier: asyncio.Task[None] | None) -> None:
        try:
            await self._verify(await self._of_participant(asked))
        finally:
            if earlier is not None:
                await asyncio.wait([earlier])

    async def _of_participant(self, asked: _Verify) -> _Verify:
        """The same question; of a participant of an external coordinator, if its producer says its name as an id.

        Its partitions join by being written to, and its coordinator follows from its writer alone.
        """
        if not isinstance(asked.name, str) or asked.name.count("/") != _SLASHES_OF_PARTICIPANT:
            return asked
        name = await self.name_of(asked.producer.producer_id)
        if not isinstance(name, Participant) or str(name) != asked.name:
            return asked
        for place in asked.places:
            await self.join(asked.producer, place, None)
        return _Verify(name, asked.producer, asked.places, implicit=False)

    async def _verify(self, asked: _Verify) -> None:
        producer, places = asked.producer, asked.places
        for _ in range(_OVERTAKEN_MAX):
            marks = [self._open.ends_of(producer.producer_id, one) for one in places]
            found = await self._asking.at_home(
                lambda: self._coordinator_of(asked.name),
                lambda node: self._asking.ask_or_answer(node, _VERIFY, asked, INTERNAL),
                is_repeatable=True,
            )
            # Nothing is awaited between this look and the notes.
            if marks == [self._open.ends_of(producer.producer_id, one) for one in places]:
                break
        else:
            raise ConcurrentTransactions(
                f"transactions of producer {producer.producer_id} kept ending while a batch was on its way"
            )
        for place in places:
            self._open.note_verified(producer, place, found.coordinator_epoch, found.number)
        self._note_name(producer.producer_id, asked.name)

    # --- the node that is asked ------------------------------------------------------------

    async def _verify_here(self, asked: _Verify, _caller: Caller) -> _Open:
        if asked.implicit and isinstance(asked.name, str):
            of_groups = [one for one in asked.places if is_internal(one.topic)]
            for place in of_groups:
                await self._transactions.add_offsets(asked.name, asked.producer, place)
            others = [one for one in asked.places if one not in of_groups]
            refused = await self._transactions.add_partitions(asked.name, asked.producer, others)
            for error in refused.values():
                raise error
        # A coordinator that is still loading, or that has just lost its place, does not know, which is not a no.
        name = await self._known_here(asked.producer.producer_id, shard_key(asked.name))
        if name != asked.name:
            # The id in a request is its client's word: a batch belongs to the transaction of its producer.
            raise InvalidProducerIdMapping(f"{asked.name} does not belong to producer {asked.producer.producer_id}")
        epoch = -1
        for place in asked.places:
            epoch = self._open.check_member(asked.producer.producer_id, asked.producer.epoch, place)
        known = self._open.get(asked.producer.producer_id)
        return _Open(epoch, -1 if known is None else known.number)

    async def _join_here(self, asked: _Join, _caller: Caller) -> None:
        await self._known_here(asked.producer.producer_id, asked.key)
        await self._transactions.join_here(asked.producer, asked.place, asked.number)

    async def _enlist_here(self, asked: _Join, _caller: Caller) -> None:
        await self._known_here(asked.producer.producer_id, asked.key)
        await self._transactions.enlist_here(asked.producer, asked.place, asked.number or 0)

    async def _known_here(self, producer_id: int, key: str) -> Name | None:
        """Whose transactions a producer writes; raises NotCoordinator if another node would know."""
        name = await self._transactions.name_here(producer_id)
        if name is None and key:
            # Its term may have begun, or ended, while the shards of this node were loaded.
            self._transactions.check_coordinates(key)
            name = await self._transactions.name_here(producer_id)
            if name is None:
                self._transactions.check_coordinates(key)
        return name
