"""Errors of delivery: receipts, and the sessions of share consumers."""

from __future__ import annotations

from goqueue.errors.base import GoQueueError, InvalidRequest, NotFound
from goqueue.errors.groups import GroupError


class InvalidReceipt(InvalidRequest):
    """Not a receipt at all."""

    def __init__(self, receipt: object) -> None:
        super().__init__(
            f"{repr(receipt)[:120]} is not a receipt",
            field="receipt_handle",
            hint="send back exactly what was received: topic:partition:offset:deliveryCount:nonce",
        )


class ReceiptNotFound(NotFound):
    """A receipt that was never given out, or whose topic is gone."""

    def __init__(self, receipt: str) -> None:
        super().__init__(f"receipt {receipt[:400]!r} is unknown, or its topic was deleted")


class ReceiptExpired(GoQueueError):
    """The message was settled, or its visibility has ended, whether or not it was delivered again since."""

    def __init__(self, receipt: str) -> None:
        super().__init__(f"receipt {receipt[:400]!r} has expired: the message was settled, or its visibility has ended")
        self.hint = "if the work takes longer, extend the visibility in time"


class NotHeld(GoQueueError):
    """The consumer does not hold the offsets that it wants to settle."""


class ShareSessionError(GroupError):
    """A share consumer's request that its session refuses."""


class ShareSessionNotFound(ShareSessionError):
    """The consumer has no session here: it must begin one."""


class InvalidShareSessionEpoch(ShareSessionError):
    """Not the request that was expected next: the consumer must begin a new session."""


class ShareSessionLimit(ShareSessionError):
    """As many sessions as there may be."""
