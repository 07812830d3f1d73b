"""The services as one caller sees them. Handlers say `services.topics.create(...)`; in whose name is added here.

A front-end asks `services.for_caller(caller)` once for each connection or request and hands the result to its
handlers. What that returns is the choice of a `Doorkeeper`. The default one only binds the caller; one that
authorises puts its own objects under the same names.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
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
        return bundle(services, caller, BOUND)


class BoundService:
    """A service whose methods are told who calls, as far as they want to know (a keyword `caller`)."""

    def __init__(self, service: object, caller: Caller) -> None:
        self._service = service
        self._caller = caller

    def __getattr__(self, name: str) -> Any:
        """The method, bound; it is found in this object itself from then on. Values are asked for each time."""
        value = getattr(self._service, name)
        if not inspect.ismethod(value):
            return value
        if _wants_caller(type(self._service), name, value):
            value = partial(value, caller=self._caller)
        self.__dict__[name] = value
        return value


# The services that record who called. A test finds those that are missing here.
BOUND: Mapping[str, Wrap] = MappingProxyType(
    dict.fromkeys(("topics", "publish", "fetch", "reads", "delay", "groups", "group_polls", "delivery"), BoundService)
)


class _Bundle:
    """The services of one caller, each made when it is first asked for: most requests use one or two."""

    def __init__(self, services: Services, caller: Caller, wraps: Mapping[str, Wrap]) -> None:
        self._services = services
        self._wraps = wraps
        self.caller = caller

    def __getattr__(self, name: str) -> Any:
        """A field of the bundle, wrapped if it is one of those, and remembered."""
        found = getattr(self._services, name)
        wrap = self._wraps.get(name)
        if wrap is not None:
            found = wrap(found, self.caller)
        self.__dict__[name] = found
        return found


def bundle(services: Services, caller: Caller, wraps: Mapping[str, Wrap]) -> Services:
    """The services for one caller; those named in `wraps` are replaced by what is made of them."""
    return cast("Services", _Bundle(services, caller, wraps))


_WANTS: dict[tuple[type, str], bool] = {}


def _wants_caller(kind: type, name: str, method: Callable[..., Any]) -> bool:
    found = _WANTS.get((kind, name))
    if found is None:
        found = _WANTS[kind, name] = "caller" in inspect.signature(method).parameters
    return found
