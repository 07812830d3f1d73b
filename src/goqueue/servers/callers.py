"""The services as one caller sees them. Handlers say `services.topics.create(...)`; in whose name is added here.

A front-end asks `services.for_caller(caller)` once for each connection or request and hands the result to its
handlers. What that returns is the choice of a `Doorkeeper`. The default one only binds the caller; one that
authorises puts its own objects under the same names.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from types import MappingProxyType, MethodType
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from goqueue.caller import Caller
    from goqueue.servers.services import Services

# Makes, of a service, what one caller gets in its place.
Wrap = Callable[[Any, "Caller"], Any]


class Doorkeeper(Protocol):
    """Decides what a caller gets to see of the services."""

    def admit(self, services: Services, caller: Caller) -> Services:
        """The bundle for this caller. It is made for every HTTP request, so it must be cheap."""
        ...


class BindCaller:
    """Lets everybody do everything, and tells the services who it was."""

    def admit(self, services: Services, caller: Caller) -> Services:
        """The same services, bound to the caller."""
        return _BOUND_SERVICES(services, caller)


def bound(service: object, caller: Caller) -> Any:
    """A service whose methods are told who calls, as far as they want to know (a keyword `caller`)."""
    return (_KINDS.get(type(service)) or _new_kind(service))(service, caller)


class BoundService:
    """What `bound` makes: a class for each kind of service declares its methods.

    To find something by `__getattr__` takes ten times as long, and this is done for every request. Methods are found
    in the object itself once they were used; values of the service are asked for each time.
    """

    __slots__ = ("__dict__", "_caller", "_service")

    def __init__(self, service: object, caller: Caller) -> None:
        self._service = service
        self._caller = caller

    def __getattr__(self, name: str) -> Any:
        """What is not a method."""
        return getattr(self._service, name)


class _Method:
    """A method of a service, bound to service and caller when it is first asked for."""

    __slots__ = ("_name", "_wants_caller")

    def __init__(self, name: str, *, wants_caller: bool) -> None:
        self._name = name
        self._wants_caller = wants_caller

    def __get__(self, one: BoundService, _owner: type) -> Any:
        value = getattr(one._service, self._name)  # noqa: SLF001 - it is part of that class
        # What a test puts in a method's place takes no caller.
        if self._wants_caller and type(value) is MethodType:
            value = partial(value, caller=one._caller)  # noqa: SLF001
        one.__dict__[self._name] = value
        return value


_KINDS: dict[type, type[BoundService]] = {}


def _new_kind(service: object) -> type[BoundService]:
    own = getattr(service, "__dict__", {})
    methods = {
        name: _Method(name, wants_caller="caller" in inspect.signature(value).parameters)
        for name in {*dir(type(service)), *own}
        if not name.startswith("_")
        and (inspect.isfunction(inspect.getattr_static(type(service), name, None)) or inspect.ismethod(own.get(name)))
        and inspect.ismethod(value := getattr(service, name))
    }
    kind = type(f"Bound{type(service).__name__}", (BoundService,), {"__slots__": (), **methods})
    _KINDS[type(service)] = kind
    return kind


class _Bundle:
    """The services of one caller."""

    __slots__ = ("__dict__", "_services", "caller")

    def __init__(self, services: Services, caller: Caller) -> None:
        self._services = services
        self.caller = caller

    def __getattr__(self, name: str) -> Any:
        """A field that is the same for every caller."""
        found = self.__dict__[name] = getattr(self._services, name)
        return found


class _Wrapped:
    """A service of a bundle, made when it is first asked for: most requests use one or two."""

    __slots__ = ("_name", "_wrap")

    def __init__(self, name: str, wrap: Wrap) -> None:
        self._name = name
        self._wrap = wrap

    def __get__(self, one: _Bundle, _owner: type) -> Any:
        found = self._wrap(getattr(one._services, self._name), one.caller)  # noqa: SLF001 - it is part of that class
        one.__dict__[self._name] = found
        return found


def bundles(wraps: Mapping[str, Wrap]) -> Callable[[Services, Caller], Services]:
    """Makes bundles in which the services named in `wraps` are replaced by what is made of them."""
    wrapped = {name: _Wrapped(name, wrap) for name, wrap in wraps.items()}
    same = {name: property(attrgetter(f"_services.{name}")) for name in SAME_FIELDS if name not in wraps}
    return cast(
        "Callable[[Services, Caller], Services]",
        type("ServicesOfCaller", (_Bundle,), {"__slots__": (), **same, **wrapped}),
    )


# Asked for by most requests, and the same for every caller.
SAME_FIELDS = ("answers", "clock", "config", "identity", "queries", "request_times", "transactions")

# The services that record who called. A test finds those that are missing here.
BOUND: Mapping[str, Wrap] = MappingProxyType(
    dict.fromkeys(("topics", "publish", "fetch", "reads", "delay", "groups", "group_polls", "delivery"), bound)
)
_BOUND_SERVICES = bundles(BOUND)
