"""The doorkeeper of a node with security: callers get services that check every call.

A service that the table does not know is refused, and so is a method that it does not know: a feature that forgets to
say what it needs can be used by nobody.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from goqueue.errors import NotAuthorized
from goqueue.servers.access import special
from goqueue.servers.access.guard import Guard, OnDecision
from goqueue.servers.access.needs import Need, Rule, first
from goqueue.servers.access.rules import PLAIN_FIELDS, RULES
from goqueue.servers.callers import bound

if TYPE_CHECKING:
    from goqueue.caller import Caller
    from goqueue.security.access import Access
    from goqueue.security.model import Operation, Resource
    from goqueue.servers.services import Services


class AuthorisingDoorkeeper:
    """Lets every caller do what the rules and roles of its principal allow."""

    def __init__(self, access: Access, on_decision: OnDecision | None = None) -> None:
        self._access = access
        self._on_decision = on_decision

    def admit(self, services: Services, caller: Caller) -> Services:
        """The services as this caller may use them."""
        grants = self._access.of(caller.principal, caller.address)
        return cast("Services", _Guarded(services, Guard(grants, caller, self._on_decision)))


class _Guarded:
    """The bundle of one caller; each service is made when it is first asked for."""

    def __init__(self, services: Services, guard: Guard) -> None:
        self._services = services
        self.access = guard
        self.caller = guard.caller

    def __getattr__(self, name: str) -> Any:
        if name in PLAIN_FIELDS:
            found = getattr(self._services, name)
        elif name in RULES:
            service = getattr(self._services, name)
            found = _GuardedService(bound(service, self.caller), name, self.access)
        else:
            raise _undeclared(name)
        self.__dict__[name] = found
        return found


class _GuardedService:
    """A service whose methods check before they are called."""

    def __init__(self, service: Any, name: str, guard: Guard) -> None:
        self._service = service
        self._rules = RULES[name]
        self._name = name
        self._guard = guard

    def __getattr__(self, name: str) -> Any:
        rule = self._rules.get(name)
        if rule is None:
            raise _undeclared(f"{self._name}.{name}")
        made = _BY_SERVICE.get((self._name, name))
        value = getattr(self._service, name)
        if made is not None:
            value = made(self._service, value, self._guard)
        elif rule.special is not None:
            value = rule.special(value, self._guard)
        elif rule.needs and not callable(value):
            # A value, read each time: asking for it is the call.
            for need in rule.needs:
                self._guard.require(need.operation, need.resource)
            return value
        elif rule.needs:
            value = _checking(value, rule, self._guard)
        elif not _is_open(rule):
            raise _undeclared(f"{self._name}.{name}")
        self.__dict__[name] = value
        return value


def _checking(method: Callable[..., Any], rule: Rule, guard: Guard) -> Callable[..., Any]:
    needs = rule.needs
    if len(needs) == 1:
        return _checking_one(method, needs[0], guard)

    def checked(*args: Any, **more: Any) -> Any:
        for need in needs:
            _check(need, guard, args, more)
        return method(*args, **more)

    return checked


def _checking_one(method: Callable[..., Any], need: Need, guard: Guard) -> Callable[..., Any]:
    """The common case, without a loop: it runs for every batch that is produced."""
    operation, resource, pick = need
    if pick is first and not guard.is_told(operation):
        return _checking_first(method, operation, resource, guard)
    require = guard.require

    def checked(*args: Any, **more: Any) -> Any:
        names = pick(*args, **more)
        if type(names) is str:
            require(operation, resource, names)
        else:
            for name in names:
                require(operation, resource, name)
        return method(*args, **more)

    return checked


def _checking_first(
    method: Callable[..., Any], operation: Operation, resource: Resource, guard: Guard
) -> Callable[..., Any]:
    """The name is the first argument, and the audit log need not be told."""
    may = guard.may

    def checked(name: Any, *args: Any, **more: Any) -> Any:
        if not may(operation, resource, name):
            guard.deny(operation, resource, str(name))
        return method(name, *args, **more)

    return checked


def _check(need: Need, guard: Guard, args: tuple[Any, ...], more: dict[str, Any]) -> None:
    names = need.pick(*args, **more)
    for name in (names,) if isinstance(names, str) else names:
        guard.require(need.operation, need.resource, name)


def _is_open(rule: Rule) -> bool:
    return not rule.needs and rule.special is None and not rule.note


def _undeclared(what: str) -> NotAuthorized:
    return NotAuthorized(f"{what} says nothing about who may use it, so nobody may")


def _nested(name: str) -> Callable[[Any, Any, Guard], Any]:
    """A part of a service, with rows of its own in the table."""
    return lambda _service, value, guard: _GuardedService(value, name, guard)


# Rules that need another method of the same service.
_BY_SERVICE: dict[tuple[str, str], Callable[[Any, Any, Guard], Any]] = {
    ("topics", "ensure"): lambda service, method, guard: special.ensured_topic(service.find)(method, guard),
    ("schedules", "delete"): lambda service, method, guard: special.deleted_schedule(service.get)(method, guard),
    ("group_polls", "poll"): lambda service, method, guard: special.polled(service.assignment)(method, guard),
    ("group_progress", "reset"): lambda service, method, guard: special.reset_offsets(service.of)(method, guard),
    ("transactions", "admit"): lambda service, method, guard: special.admitted(service.owner_of)(method, guard),
    ("transactions", "join"): lambda service, method, guard: special.joined(service.find_owner)(method, guard),
    ("delivery", "positions"): _nested("positions"),
    ("tracing", "reader"): _nested("story_reader"),
    ("tracing", "traces"): _nested("traces"),
}
