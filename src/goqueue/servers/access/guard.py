"""The guard of one caller: asks its grants, tells the audit log of denials, raises the right error."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Protocol

from goqueue.security.model import CLUSTER_NAME, OPERATIONS, Operation, Resource
from goqueue.servers.access.needs import refusal

if TYPE_CHECKING:
    from goqueue.caller import Caller
    from goqueue.security.access import Grants


class OnDecision(Protocol):
    """Told of denials, and of what was allowed of the operations in `told`."""

    @property
    def told(self) -> Collection[Operation]:
        """Operations whose permission is written down too."""
        ...

    def __call__(
        self, caller: Caller, operation: Operation, resource: Resource, name: str, /, *, is_allowed: bool
    ) -> None:
        """A decision was made."""
        ...


class Everything:
    """What callers may do where security is off: everything."""

    def may(self, operation: Operation, resource: Resource, name: str = CLUSTER_NAME) -> bool:  # noqa: ARG002
        """Yes."""
        return True

    def require(self, operation: Operation, resource: Resource, name: str = CLUSTER_NAME) -> None:
        """Nothing is refused."""

    def operations(self, resource: Resource, name: str = CLUSTER_NAME) -> int:  # noqa: ARG002
        """All that there are, as the bits of Kafka's answers."""
        return sum(1 << one for one in OPERATIONS[resource])


EVERYTHING = Everything()


class Guard:
    """What one caller may do."""

    __slots__ = ("_grants", "_on_decision", "_told", "caller", "may")

    def __init__(self, grants: Grants, caller: Caller, on_decision: OnDecision | None) -> None:
        self._grants = grants
        self.caller = caller
        self._on_decision = on_decision
        self._told: Collection[Operation] = () if on_decision is None else on_decision.told
        # Whether something is allowed. A question, not an attempt: nothing is audited.
        self.may = grants.may

    def may_any(self, operation: Operation, resource: Resource) -> bool:
        """Whether it is allowed on some resource of the kind."""
        return self._grants.may_any(operation, resource)

    def require(self, operation: Operation, resource: Resource, name: str = CLUSTER_NAME) -> None:
        """Raise unless it is allowed."""
        if not self.may(operation, resource, name):
            self.deny(operation, resource, name)
        if operation in self._told:
            self.tell(operation, resource, name)

    def is_told(self, operation: Operation) -> bool:
        """Whether the audit log is told when this operation is allowed."""
        return operation in self._told

    def tell(self, operation: Operation, resource: Resource, name: str) -> None:
        """The audit log is told that an operation was allowed."""
        if self._on_decision is not None:
            self._on_decision(self.caller, operation, resource, name, is_allowed=True)

    def require_all(self, operation: Operation, resource: Resource, names: Iterable[str]) -> None:
        """Raise unless it is allowed for every name."""
        for name in names:
            self.require(operation, resource, name)

    def deny(self, operation: Operation, resource: Resource, name: str = CLUSTER_NAME) -> None:
        """Raise, and tell the audit log."""
        if self._on_decision is not None:
            self._on_decision(self.caller, operation, resource, name, is_allowed=False)
        raise refusal(operation, resource, name)

    def operations(self, resource: Resource, name: str = CLUSTER_NAME) -> int:
        """The allowed operations, as the bits of Kafka's answers."""
        return self._grants.operations(resource, name)
