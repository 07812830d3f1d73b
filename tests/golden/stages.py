"""The machines that have transcripts, each with what its commands may name."""

from __future__ import annotations

from uuid import UUID

from tests.golden.transcript import Stage
from tests.unit.delivery.driver import Table
from tests.unit.groups.driver import FakeTopics

from goqueue.config import GroupsConfig, TransactionsConfig
from goqueue.delivery.policy import DeliveryPolicy
from goqueue.delivery.state import commands as delivery_commands
from goqueue.delivery.state import records as delivery_records
from goqueue.delivery.state.machine import DeliveryMachine
from goqueue.delivery.values import Action
from goqueue.groups import commands as group_commands
from goqueue.groups import records as group_records
from goqueue.groups.machine import GroupMachine
from goqueue.groups.statistics import Rebalances
from goqueue.groups.subscription.topic_partitions import PartitionSet, TopicIdPartition
from goqueue.records import TopicPartition
from goqueue.transactions import commands as transaction_commands
from goqueue.transactions import records as transaction_records
from goqueue.transactions.machine import TransactionMachine
from goqueue.transactions.open_transactions import ShardProducers


def _delivery() -> Stage:
    names = {**vars(delivery_commands), "Action": Action, "DeliveryPolicy": DeliveryPolicy}
    names["QUEUE"] = delivery_records.QueueId("billing", UUID(int=7), 0)
    return Stage(lambda: DeliveryMachine(Table()), delivery_records.KEYS, delivery_records.VALUES, names)


def _groups() -> Stage:
    topics = FakeTopics(orders=3, returns=1)
    names = {**vars(group_commands), "orders": UUID(int=1), "frozenset": frozenset, "owned": _owned}

    def new_machine() -> GroupMachine:
        return GroupMachine(GroupsConfig(), topics, Rebalances(), departed=lambda _group, _member: None)

    return Stage(new_machine, group_records.KEYS, group_records.VALUES, names)


def _owned(topic_id: UUID, *partitions: int) -> PartitionSet:
    return frozenset(TopicIdPartition(topic_id, one) for one in partitions)


def _transactions() -> Stage:
    names = {**vars(transaction_commands), "orders_0": TopicPartition("orders", 0)}
    names |= {"orders_1": TopicPartition("orders", 1), "frozenset": frozenset}

    def new_machine() -> TransactionMachine:
        return TransactionMachine(TransactionsConfig(), ShardProducers())

    return Stage(new_machine, transaction_records.KEYS, transaction_records.VALUES, names)


STAGES = {"delivery": _delivery, "groups": _groups, "transactions": _transactions}
