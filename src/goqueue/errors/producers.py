"""Errors of producers: idempotence, transactions, and the writers of prepared ones."""

from __future__ import annotations

from goqueue.errors.base import GoQueueError, InvalidRequest, NotFound


class ProducerError(GoQueueError):
    """An idempotent or transactional producer broke its contract."""


class OutOfOrderSequence(ProducerError):
    """A gap between the last sequence stored and the one sent."""


class DuplicateSequence(ProducerError):
    """A batch older than the window we remember: stored long ago, offset forgotten."""


class ProducerFenced(ProducerError):
    """A newer epoch of this producer has written."""


class TransactionsUnsupported(ProducerError):
    """A transactional id, while there is no transaction coordinator."""


class InvalidTransactionState(ProducerError):
    """A marker or write that the transaction's state does not allow."""


class CoordinatorFenced(ProducerError):
    """A transaction coordinator that has been replaced says how a transaction ended."""


class TransactionFenced(ProducerFenced):
    """Another process has taken over the transactional id, or its transaction took too long."""


class InvalidProducerIdMapping(ProducerError):
    """The transactional id does not belong to this producer id."""


class ConcurrentTransactions(ProducerError):
    """The transactional id's last transaction is being ended; ask again."""


class InvalidTransactionTimeout(InvalidRequest):
    """A transaction timeout that is not above zero or longer than the broker allows."""


class InvalidTransactionalId(InvalidRequest):
    """An empty, endless or unprintable transactional id."""

    def __init__(self, transactional_id: object) -> None:
        super().__init__(
            f"transactional id {repr(transactional_id)[:80]} is not allowed",
            field="transactional_id",
            hint="use 1 to 255 printable characters",
        )


class TransactionalIdNotFound(NotFound):
    """No transactional id of that name."""

    def __init__(self, transactional_id: str) -> None:
        super().__init__(f"there is no transactional id {transactional_id!r}")
        self.field = "transactional_id"


class ParticipantNotFound(NotFound):
    """A participant that was to be committed is not open: it was aborted, took too long or never was."""

    def __init__(self, participant: str) -> None:
        super().__init__(f"participant {participant!r} is not open: it was aborted, took too long or never was")
        self.field = "participants"
        self.hint = "abort the epoch and write it again"


class WriterNotFound(NotFound):
    """No writer of prepared transactions has that name."""

    def __init__(self, writer: str) -> None:
        super().__init__(f"there is no writer {writer!r}")
        self.field = "writer"
