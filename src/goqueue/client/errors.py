"""What can go wrong between a program and its broker."""

from __future__ import annotations

from goqueue.errors import GoQueueError


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
