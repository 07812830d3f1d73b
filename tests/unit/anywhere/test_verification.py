"""A leader asks the coordinator of a transaction on another node; an end that overtakes the answer makes it void."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from goqueue.anywhere.asking import Asking
from goqueue.anywhere.transactions.transactions import Verification, _Join, _Open, _Verify
from goqueue.caller import INTERNAL
from goqueue.errors import ConcurrentTransactions, InvalidTransactionState, NotCoordinator, ProducerFenced
from goqueue.records import TopicPartition
from goqueue.transactions.commands import Producer
from goqueue.transactions.open_transactions import OpenTransactions
from goqueue.transactions.service import TransactionService

PLACE = TopicPartition("orders", 1)
PRODUCER = Producer(7, 3)


class Homes:
    """This is node 1; node 2 coordinates."""

    node_id = 1

    def coordinator_of(self, _topic: str, _key: str) -> int:
        return 2


class Peers(Asking):
    """A coordinator that answers when it is let."""

    def __init__(self) -> None:
        self.homes = cast("Any", Homes())
        self.gate = asyncio.Event()
        self.asked = 0
        # Called with how often it was asked, before it answers.
        self.before: Callable[[int], None] = lambda _asked: None

    def answer(self, *_: Any) -> None:
        """Nobody asks us."""

    async def ask(self, *_: Any, **__: Any) -> Any:
        await self.gate.wait()
        self.asked += 1
        self.before(self.asked)
        return _Open(5, self.asked)

    async def know_all(self) -> None:
        """We know it."""


async def test_a_batch_is_taken_once_the_coordinator_has_said_that_it_may() -> None:
    known, peers = OpenTransactions(), Peers()
    verify = Verification(cast("TransactionService", None), known, peers)
    with pytest.raises(InvalidTransactionState):
        known.check_member(7, 3, PLACE)
    waiting = verify.admit("tx", PRODUCER, [PLACE], implicit=False)
    assert waiting is not None
    peers.gate.set()
    await waiting
    assert known.check_member(7, 3, PLACE) == 5, "the coordinator's epoch"
    assert verify.admit("tx", PRODUCER, [PLACE], implicit=False) is None, "it is asked once per transaction"
    with pytest.raises(ProducerFenced):
        known.check_member(7, 2, PLACE)
    with pytest.raises(InvalidTransactionState):
        known.check_member(7, 3, TopicPartition("orders", 2))


async def test_an_end_of_the_transaction_forgets_what_was_verified() -> None:
    known, peers = OpenTransactions(), Peers()
    peers.gate.set()
    waiting = Verification(cast("TransactionService", None), known, peers).admit(
        "tx", PRODUCER, [PLACE], implicit=False
    )
    assert waiting is not None
    await waiting
    known.forget_verified(7, PLACE)
    with pytest.raises(InvalidTransactionState):
        known.check_member(7, 3, PLACE)


async def test_an_answer_that_a_marker_overtook_is_void_and_the_coordinator_is_asked_again() -> None:
    """The transaction had ended: the second answer says so."""
    known, peers = OpenTransactions(), Peers()

    def ended(asked: int) -> None:
        if asked > 1:
            raise InvalidTransactionState("orders-1 is in no open transaction of producer 7")
        known.forget_verified(7, PLACE)

    peers.before = ended
    waiting = Verification(cast("TransactionService", None), known, peers).admit(
        "tx", PRODUCER, [PLACE], implicit=False
    )
    peers.gate.set()
    assert waiting is not None
    with pytest.raises(InvalidTransactionState, match="no open transaction"):
        await waiting
    with pytest.raises(InvalidTransactionState):
        known.check_member(7, 3, PLACE)


async def test_the_late_end_of_the_transaction_before_refuses_no_batch_of_the_next() -> None:
    """A client begins the next transaction when the end of the last is decided, before each partition was told."""
    known, peers = OpenTransactions(), Peers()
    peers.before = lambda asked: known.forget_verified(7, PLACE) if asked == 1 else None
    waiting = Verification(cast("TransactionService", None), known, peers).admit("tx", PRODUCER, [PLACE], implicit=True)
    peers.gate.set()
    assert waiting is not None
    await waiting
    assert known.check_member(7, 3, PLACE) == 5
    assert known.number_at(7, PLACE) == 2, "the number of the second answer: the first was void"


async def test_a_batch_whose_verification_is_always_overtaken_is_refused_for_now() -> None:
    known, peers = OpenTransactions(), Peers()
    peers.before = lambda _asked: known.forget_verified(7, PLACE)
    waiting = Verification(cast("TransactionService", None), known, peers).admit("tx", PRODUCER, [PLACE], implicit=True)
    peers.gate.set()
    assert waiting is not None
    with pytest.raises(ConcurrentTransactions):
        await waiting
    with pytest.raises(InvalidTransactionState):
        known.check_member(7, 3, PLACE)


async def test_what_was_verified_in_an_earlier_term_counts_no_more() -> None:
    known, peers = OpenTransactions(), Peers()
    peers.before = lambda asked: known.forget_term(PLACE) if asked == 1 else None
    waiting = Verification(cast("TransactionService", None), known, peers).admit(
        "tx", PRODUCER, [PLACE], implicit=False
    )
    peers.gate.set()
    assert waiting is not None
    await waiting
    assert peers.asked == 2, "the answer was about the term before"
    known.forget_term(PLACE)
    with pytest.raises(InvalidTransactionState):
        known.check_member(7, 3, PLACE)


async def test_a_producer_id_that_belongs_to_nobody_yet_is_asked_for_again() -> None:
    """Somebody may guess an id before it is given out: that must not shut out whoever gets it."""

    class Coordinator:
        name: str | None = None

        async def name_here(self, _producer_id: int) -> str | None:
            return self.name

    class Alone(Homes):
        def coordinators(self, _topic: str) -> set[int]:
            return {1}

        def terms(self, _topic: str) -> tuple[tuple[int, int], ...]:
            return ((1, 0),)

    peers, coordinator = Peers(), Coordinator()
    peers.homes = cast("Any", Alone())
    verify = Verification(cast("TransactionService", coordinator), OpenTransactions(), peers)
    assert await verify.name_of(7) is None
    coordinator.name = "tx"
    assert await verify.name_of(7) == "tx"


async def test_a_coordinator_that_moves_while_nodes_are_asked_is_asked_again() -> None:
    """Node 2 was asked before it led, node 3 after it had let go: neither knew the producer, and it has a name."""

    class Moving(Homes):
        leader = 3

        def coordinators(self, _topic: str) -> set[int]:
            return {2, 3}

        def terms(self, _topic: str) -> tuple[tuple[int, int], ...]:
            return ((self.leader, 10 - self.leader),)

    class Coordinator:
        async def name_here(self, _producer_id: int) -> str | None:
            return None

    class Nodes(Peers):
        asked = 0

        async def ask(self, node: int, *_: Any, **__: Any) -> Any:
            self.asked += 1
            # Told by the metadata that this node catches up with, after both have answered.
            return "tx" if node == homes.leader == 2 else None

        async def know_all(self) -> None:
            homes.leader = 2

    peers, homes = Nodes(), Moving()
    peers.homes = cast("Any", homes)
    verify = Verification(cast("TransactionService", Coordinator()), OpenTransactions(), peers)
    assert await verify.name_of(7) == "tx"
    assert peers.asked == 4


@pytest.mark.parametrize("is_lost_meanwhile", [False, True])
async def test_a_node_that_has_lost_its_place_does_not_say_that_a_producer_is_unknown(
    *, is_lost_meanwhile: bool
) -> None:
    """Its producer would be told that it is fenced, and stop for good; whoever asks is to follow to the next leader."""

    class Former:
        refusals = [None, NotCoordinator("node 3 does")] if is_lost_meanwhile else [NotCoordinator("node 3 does")]

        async def name_here(self, _producer_id: int) -> str | None:
            return None

        def check_coordinates(self, key: str) -> None:
            assert key == "tx"
            if (refusal := self.refusals.pop(0)) is not None:
                raise refusal

    class Answering(Peers):
        def __init__(self) -> None:
            super().__init__()
            self.handlers: dict[str, Any] = {}

        def answer(self, method: Any, handler: Any, *_: Any) -> None:
            self.handlers[method.name] = handler

    peers = Answering()
    Verification(cast("TransactionService", Former()), OpenTransactions(), peers)
    asked = _Verify("tx", PRODUCER, [PLACE], implicit=False)
    with pytest.raises(NotCoordinator):
        await peers.handlers["transaction.verify"](asked, INTERNAL)
    for method in ("transaction.join", "transaction.enlist"):
        Former.refusals = [NotCoordinator("node 3 does")]
        with pytest.raises(NotCoordinator):
            await peers.handlers[method](_Join(PRODUCER, PLACE, 4, "tx"), INTERNAL)
