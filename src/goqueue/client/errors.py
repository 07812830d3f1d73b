"""What can go wrong between a program and its broker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from goqueue.errors import GoQueueError

if TYPE_CHECKING:
    from goqueue.client.types import Settled


class ClientError(GoQueueError):
    """The root of what the client raises."""


class BrokerUnreachable(ClientError):
    """No answer from the server, after every retry that was safe."""

    def __init__(self, server: str, reason: str) -> None:
        super().__init__(f"no answer from {server}: {reason}")
        self.server = server
        self.hint = "is a broker running there, and is that the address of its HTTP API, not of Kafka's protocol?"


class RequestRefused(ClientError):
    """The broker answered, and the answer is no. Fields are those of its error reply."""

    def __init__(self, status: int, code: str, message: str, field: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.field = field
        self.hint = hint


class DeliveryUnknown(ClientError):
    """A batch was sent and no answer came back: it may or may not be stored."""


class TransactionAborted(ClientError):
    """The transaction could not be committed; nothing of it will be seen. It may be tried again."""


class TransactionUnknown(ClientError):
    """A commit was sent and no answer came back: the transaction is seen as a whole, or not at all."""


class ProducerFenced(ClientError):
    """Another process uses the transactional id, or the transaction took too long: this producer must stop."""


class ProducerClosed(ClientError):
    """A record was handed to a producer that has been closed."""


class ConsumerClosed(ClientError):
    """The consumer has left its group."""


class SettleFailed(RequestRefused):
    """Some receipts were no longer good, or never were. `results` has every one's fate, in order."""

    def __init__(self, results: Sequence[Settled]) -> None:
        failed = [one for one in results if not one.success]
        first = (failed[0].error if failed else None) or {}
        count = "" if len(results) == 1 else f"{len(failed)} of {len(results)} were not settled, the first because "
        super().__init__(
            failed[0].status if failed else 500,
            str(first.get("code", "internal")),
            f"{count}{first.get('message', 'no reason was given')}",
            first.get("field"),
            first.get("hint"),
        )
        self.results = tuple(results)


class Reject(Exception):
    """Raised by a handler to say that its message can never succeed: it goes to the dead letters."""
