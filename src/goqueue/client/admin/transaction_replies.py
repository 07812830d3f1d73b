"""Transactions and prepared transactions, with attributes that an editor knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from goqueue.client.admin.replies import Reply


class TransactionState(Reply):
    """One transactional id; `started_ms` is Unix time, -1 without a transaction."""

    transactional_id: str
    transaction_id: str
    producer_id: int
    epoch: int
    state: str
    timeout_ms: int
    started_ms: int
    partitions: list[str]


class Participant(Reply):
    """A task of a writer that stages records, or whose records are being committed or aborted."""

    epoch: int
    task: str
    state: str
    producer_id: int
    producer_epoch: int
    started_ms: int
    timeout_ms: int
    partitions: list[str]


class Writer(Reply):
    """A writer of prepared transactions; `committed_epochs` are ranges with both ends, -1 stands for no epoch."""

    _nested: ClassVar[Mapping[str, type[Reply]]] = {"participants": Participant}
    writer: str
    last_committed_epoch: int
    committed_epochs: list[list[int]]
    participants: list[Participant]


class EpochOutcome(Reply):
    """The outcome of an epoch; `already_decided` if this call changed nothing."""

    status: str
    already_decided: bool
    committed: int
    aborted: int
