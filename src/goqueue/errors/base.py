"""The root of the error tree and its widest branches: what was asked is wrong, missing, or in the way."""

from __future__ import annotations


class GoQueueError(Exception):
    """The root. `field` names the offending input, `hint` says how to mend it."""

    field: str | None = None
    hint: str | None = None
    # Whether what was asked for may have been done all the same: to ask for it again is then not the same as once.
    may_be_done: bool = False


class InvalidRequest(GoQueueError):
    """The request cannot mean anything."""

    def __init__(self, message: str, *, field: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.field = field
        self.hint = hint


class MalformedRequest(InvalidRequest):
    """Bytes that are no request of the protocol they claim to be."""


class NotFound(GoQueueError):
    """Something named does not exist."""


class Conflict(GoQueueError):
    """The request contradicts what is there."""


class NotAttempted(GoQueueError):
    """Nothing was done, for another part of the same request was refused."""
