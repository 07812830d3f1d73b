"""A need: an operation on resources that the arguments of a call name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from goqueue.errors import (
    ClusterNotAuthorized,
    GoQueueError,
    GroupNotAuthorized,
    TopicNotAuthorized,
    TransactionalIdNotAuthorized,
)
from goqueue.schemas.names import split
from goqueue.security.model import CLUSTER_NAME, Operation, Resource

# The names that a call is about; one as text, or several.
Pick = Callable[..., str | Iterable[str]]


class Need(NamedTuple):
    """An operation, on a kind of resource, of the names that `pick` finds in the arguments."""

    operation: Operation
    resource: Resource
    pick: Pick

    def __str__(self) -> str:
        return f"{self.operation.name.lower()} on {self.resource.name.lower()}"


# Makes the checking method out of the real one: (method, guard) -> method.
Special = Callable[[Any, Any], Any]


class Rule(NamedTuple):
    """What one method needs. A `special` rule checks by itself, in the way that `note` describes."""

    needs: tuple[Need, ...] = ()
    special: Special | None = None
    note: str = ""


def first(value: Any, *_args: Any, **_more: Any) -> str:
    """The name is the first argument."""
    return str(value)


def the_cluster(*_args: Any, **_more: Any) -> str:
    """The call is about the cluster."""
    return CLUSTER_NAME


def topic_of_subject(subject: str) -> str:
    """The topic whose schema a subject is: `orders-value` is of `orders`. Other subjects are named like topics."""
    _, name = split(subject)
    # One suffix only: `orders-key-value` is the subject of the topic `orders-key`.
    return name.removesuffix("-value") if name.endswith("-value") else name.removesuffix("-key")


def refusal(operation: Operation, resource: Resource, name: str) -> GoQueueError:
    """The error that says what is missing, the same whether or not there is such a thing."""
    verb = operation.name.lower().replace("_", " ")
    match resource:
        case Resource.TOPIC:
            return TopicNotAuthorized(name, verb)
        case Resource.GROUP:
            return GroupNotAuthorized(name, verb)
        case Resource.TRANSACTIONAL_ID:
            return TransactionalIdNotAuthorized(name, verb)
    return ClusterNotAuthorized(verb)
