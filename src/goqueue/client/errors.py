"""What can go wrong between a program and its broker: one tree, and the class of every refusal by its code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from goqueue.client.types import SettleProblem
from goqueue.errors import GoQueueError

if TYPE_CHECKING:
    from goqueue.client.types import SendFailure, Settled

# How many reasons the text of `SendFailed` has.
_REASONS_SHOWN = 3


class ClientError(GoQueueError):
    """The root of what the client raises."""


class InvalidArgument(ClientError, ValueError):
    """A value that the client can refuse by itself: nothing was sent."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message if hint is None else f"{message}: {hint}")
        self.hint = hint


class BrokerUnreachable(ClientError):
    """No answer from the server, after every retry that was safe."""

    def __init__(self, server: str, reason: str) -> None:
        super().__init__(f"no answer from {server}: {reason}")
        self.server = server
        self.hint = "is a broker running there, and is that the address of its HTTP API, not of Kafka's protocol?"
        if "CERTIFICATE_VERIFY_FAILED" in reason:
            self.hint = (
                "the broker's certificate is not from an authority that this program trusts, or names another host: "
                "name the authority's file with ca=, GOQUEUE_CA or goqueue config set-context NAME --ca FILE"
            )


class Closed(ClientError):
    """Something was used after it had been closed."""


class ClientClosed(Closed):
    """The client has been closed, and with it its producers and consumers."""


class ProducerClosed(Closed):
    """A record was handed to a producer that has been closed."""


class ConsumerClosed(Closed):
    """The consumer has left its group."""


class RequestRefused(ClientError):
    """The broker refused the request. Fields are those of its error reply."""

    def __init__(self, status: int, code: str, message: str, field: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.field = field
        self.hint = hint
        # The whole answer, where it is not one of the broker's error replies: `/readyz` tells its checks.
        self.answer: Any = None


class NotFound(RequestRefused):
    """What the request names does not exist, such as a partition or a schedule."""


class TopicNotFound(NotFound):
    """There is no topic of that name."""


class GroupNotFound(NotFound):
    """There is no group of that name."""


class TopicExists(RequestRefused):
    """A topic of that name exists already; `create_topic(..., exist_ok=True)` accepts that."""


class GroupNotEmpty(RequestRefused):
    """The group still has members."""


class RecordRefused(RequestRefused):
    """The broker refused a record because of its content: its size, its timestamp, its schema."""


class Unauthorized(RequestRefused):
    """The broker requires authentication, or the principal is not allowed to do this."""


class BrokerBusy(RequestRefused):
    """The broker is overloaded; the client had already retried."""


class BrokerUnavailable(RequestRefused):
    """The broker is starting, stopping, or not the leader; the client had already retried."""


class DeliveryUnknown(ClientError):
    """A batch was sent and no answer came back: it may or may not be stored."""


class SendFailed(ClientError):
    """Records that were handed to a producer are not stored, or it is not known whether they are.

    `failures` has one entry per record, the first ones where there are very many; `count` has them all.
    """

    def __init__(self, failures: Sequence[SendFailure], count: int | None = None) -> None:
        self.failures = tuple(failures)
        self.count = len(self.failures) if count is None else count
        reasons = list(dict.fromkeys(f"{one.topic}: {one.error}" for one in self.failures))
        shown = "; ".join(reasons[:_REASONS_SHOWN])
        more = f"; and {len(reasons) - _REASONS_SHOWN} more reasons" if len(reasons) > _REASONS_SHOWN else ""
        what = "1 record was not stored" if self.count == 1 else f"{self.count} records were not stored"
        super().__init__(f"{what}: {shown}{more}")


class TransactionAborted(ClientError):
    """The transaction was aborted: none of its records becomes visible. It may be retried."""


class TransactionUnknown(ClientError):
    """A commit was sent and nobody said what came of it: the transaction was committed or aborted as a whole."""


class ProducerFenced(ClientError):
    """Another process uses the transactional id, or the transaction took too long: this producer must stop."""


class TimeLimitExceeded(ClientError):
    """A handler ran for longer than its time limit."""


class WorkerProcessDied(ClientError):
    """The process that handled a message ended without a result."""


class SettleFailed(RequestRefused):
    """Some receipts had expired or were never valid. `results` has the outcome of each, in order."""

    def __init__(self, results: Sequence[Settled]) -> None:
        failed = [one for one in results if not one.success]
        first = (failed[0].error if failed else None) or SettleProblem()
        count = "" if len(results) == 1 else f"{len(failed)} of {len(results)} were not settled, the first because "
        super().__init__(
            failed[0].status if failed else 500,
            first.code,
            f"{count}{first.message}",
            first.field,
            first.hint,
        )
        self.results = tuple(results)


class Reject(Exception):
    """Raised by a handler to say that its message can never succeed: it goes to the dead letters."""


_BY_CODE: Mapping[str, type[RequestRefused]] = {
    "topic_not_found": TopicNotFound,
    "topic_exists": TopicExists,
    "group_not_found": GroupNotFound,
    "group_not_empty": GroupNotEmpty,
    "message_too_large": RecordRefused,
    "invalid_record": RecordRefused,
    "unauthorized": Unauthorized,
}
_BY_STATUS: Mapping[int, type[RequestRefused]] = {
    401: Unauthorized,
    403: Unauthorized,
    404: NotFound,
    413: RecordRefused,
    429: BrokerBusy,
    502: BrokerUnavailable,
    503: BrokerUnavailable,
    504: BrokerUnavailable,
}


def refused(status: int, error: Mapping[str, Any], default: type[RequestRefused] = RequestRefused) -> RequestRefused:
    """The error that a reply describes, as the class of its code."""
    kind = _BY_CODE.get(error["code"]) or _BY_STATUS.get(status) or default
    return kind(status, error["code"], error["message"], error.get("field"), error.get("hint"))
