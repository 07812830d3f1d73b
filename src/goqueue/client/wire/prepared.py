"""Prepared transactions: many tasks stage records, and one decision publishes all of them, once.

The two calls are GoQueue's own, so a broker of another make answers by closing the
connection; that is told as what it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from goqueue.client.wire.cluster import TRANSACTION, WireClient
from goqueue.client.wire.errors import BrokerRefused
from goqueue.client.wire.producer import Identity

OPEN_PARTICIPANT, DECIDE_PREPARED = 10100, 10101


class Participant(NamedTuple):
    """One task of an epoch and the producer it was given."""

    task: str
    producer_id: int
    producer_epoch: int


class Decided(NamedTuple):
    """What a decision did. `already_decided`: it had been made before, and nothing was done now."""

    already_decided: bool
    committed: int
    aborted: int


def open_participant(client: WireClient, writer: str, epoch: int, task: str) -> Identity | None:
    """A producer for the task's records; None if the epoch is committed already.

    All participants of a writer have one coordinator: that of the writer.
    """
    name = f"{writer}/{epoch}/{task}"

    def ask() -> Any:
        request = {"writer": writer, "epoch": epoch, "task": task}
        return _checked(client.coordinator(writer, TRANSACTION).call(OPEN_PARTICIPANT, 0, request), f"writer {name}")

    answer = client.repeat(ask)
    if answer.already_committed:
        return None
    return Identity(answer.producer_id, answer.producer_epoch, name)


def decide(
    client: WireClient, writer: str, epoch: int, participants: Sequence[Participant], *, commit: bool
) -> Decided:
    """Publish what these participants staged, or drop the whole epoch. Asking again does no harm."""
    rows = [one._asdict() for one in participants]

    def ask() -> Any:
        request = {"writer": writer, "epoch": epoch, "commit": commit, "participants": rows}
        connection = client.coordinator(writer, TRANSACTION)
        return _checked(connection.call(DECIDE_PREPARED, 0, request), f"epoch {epoch} of writer {writer}")

    answer = client.repeat(ask)
    return Decided(answer.already_decided, answer.committed, answer.aborted)


def _checked(answer: Any, what: str) -> Any:
    if answer.error_code:
        raise BrokerRefused(what, answer.error_code, answer.error_message)
    return answer
