"""Transactions of the broker's own jobs while their coordinator moves: a begin may be told twice."""

from __future__ import annotations

from typing import Any, cast

import pytest

from goqueue.anywhere.asking import Asking
from goqueue.anywhere.homes import Homes
from goqueue.anywhere.transactions.own_transactions import OwnTransactionsAnywhere
from goqueue.broker.topics import NewTopic
from goqueue.caller import INTERNAL, Caller
from goqueue.errors import InvalidTransactionState, NotLeader
from goqueue.records import TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.sim_node import SimNode
from goqueue.transactions.service import TransactionService

PLACE = TopicPartition("t", 0)


class Here(Homes):
    """This node coordinates everything."""

    def __init__(self) -> None:
        self.node_id = 1

    def coordinator_of(self, _topic: str, _key: str) -> int:
        return 1


class LosesAnswers(Asking):
    """The first begin is carried out, and its coordinator is gone before it says so."""

    def __init__(self) -> None:
        async def catch_up() -> None:
            pass

        super().__init__(cast("Any", _Calls()), Here(), catch_up)
        self.is_lost = False

    async def ask_or_answer(self, node_id: int, method: Any, question: Any, caller: Caller, **more: Any) -> Any:
        found = await super().ask_or_answer(node_id, method, question, caller, **more)
        if method.name == "own_transaction.begin" and not self.is_lost:
            self.is_lost = True
            raise NotLeader("the term is over", may_be_done=True)
        return found


class _Calls:
    def serve(self, _name: str, _handler: object) -> None:
        """No other node asks."""


def test_a_begin_that_is_told_again_is_answered_with_the_transaction_that_it_began() -> None:
    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("t", 1))
        local: TransactionService = services.transactions
        asking = LosesAnswers()
        own = OwnTransactionsAnywhere(local, asking)
        producer = await own.init_producer("job")
        number = await own.begin("job", producer)
        assert asking.is_lost
        assert number == (await local.describe("job")).number
        assert await own.add_partitions("job", producer, [PLACE], number=number) == {}
        with pytest.raises(InvalidTransactionState, match="is open"):
            await own._begin_here(cast("Any", _Begin(producer)), INTERNAL)
        await own.end("job", producer, commit=True, number=number)

    assert SimNode(1).live(story)


class _Begin:
    transactional_id = "job"

    def __init__(self, producer: object) -> None:
        self.producer = producer
