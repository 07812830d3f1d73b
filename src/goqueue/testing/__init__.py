"""A broker for tests: in process with a manual clock, on a disk that fails on demand, in a seeded simulation.

`EmbeddedBroker` and `BrokerClock` are for whoever tests an application against a broker; the
pytest fixtures of `goqueue.testing.pytest_plugin` hand them out. The rest tests the broker itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from goqueue.testing.broker_clock import BrokerClock, NeverSettles
    from goqueue.testing.embedded_broker import EmbeddedBroker

__all__ = ["BrokerClock", "EmbeddedBroker", "NeverSettles"]


def __getattr__(name: str) -> Any:
    """Import what is asked for only then: pytest loads this package in every run."""
    from importlib import import_module

    homes = {"EmbeddedBroker": "embedded_broker", "BrokerClock": "broker_clock", "NeverSettles": "broker_clock"}
    if name not in homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{homes[name]}"), name)
