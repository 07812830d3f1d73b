"""Errors of security: who a client is was not shown, or what it may do does not include this."""

from __future__ import annotations

from goqueue.errors.base import GoQueueError, InvalidRequest


class AuthenticationFailed(GoQueueError):
    """Credentials that are wrong, expired or revoked. Which of these is not told to the client."""

    def __init__(self, reason: str = "") -> None:
        super().__init__("authentication failed")
        # For the audit log, never for the client.
        self.reason = reason or "the credentials are not valid"
        self.hint = "check user, password, key or token, and whether it has expired"


class AuthenticationRequired(AuthenticationFailed):
    """No credentials at all."""

    def __init__(self) -> None:
        super().__init__("no credentials were given")
        self.args = ("authentication is required",)
        self.hint = "send an API key (Authorization: Bearer gq_...), a token, or user and password"


class UnsupportedMechanism(InvalidRequest):
    """A SASL mechanism that is not offered."""


class IllegalSaslState(InvalidRequest):
    """A SASL request that does not belong here."""


class UnsupportedMediaType(InvalidRequest):
    """A body of a kind that forms in browsers send, which the API does not take."""


class ForbiddenOrigin(GoQueueError):
    """A page in a browser sent this, and the page is not of this broker."""


class NotAuthorized(GoQueueError):
    """The principal may not do this."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.hint = "ask an administrator for an access rule or a role"


class TopicNotAuthorized(NotAuthorized):
    """The same of a topic, whether or not there is one of that name."""

    def __init__(self, topic: str, operation: str) -> None:
        super().__init__(f"not authorized to {operation} topic {topic[:249]!r}")
        self.field = "topic"


class GroupNotAuthorized(NotAuthorized):
    """The same of a group."""

    def __init__(self, group: str, operation: str) -> None:
        super().__init__(f"not authorized to {operation} group {group[:255]!r}")
        self.field = "group_id"


class TransactionalIdNotAuthorized(NotAuthorized):
    """The same of a transactional id."""

    def __init__(self, name: str, operation: str) -> None:
        super().__init__(f"not authorized to {operation} transactional id {name[:255]!r}")
        self.field = "transactional_id"


class ClusterNotAuthorized(NotAuthorized):
    """The same of the cluster."""

    def __init__(self, operation: str) -> None:
        super().__init__(f"not authorized to {operation} the cluster")
