"""The registry as it is now, for those who cannot wait for an answer."""

from __future__ import annotations

from collections.abc import Callable

from goqueue.coordinator.shard import Machine
from goqueue.schemas.machine import RegistryMachine
from goqueue.schemas.state import RegistryState


class RegistryView:
    """The tables of the shard that is loaded; None while there is one to load and it is not."""

    def __init__(self, has_log: Callable[[], bool]) -> None:
        self._has_log = has_log
        self._machine: RegistryMachine | None = None
        self._empty = RegistryState()

    @property
    def state(self) -> RegistryState | None:
        """The tables; empty ones if nothing was ever registered."""
        if self._machine is not None:
            return self._machine.state
        return None if self._has_log() else self._empty

    def show(self, _partition: int, machine: Machine) -> None:
        """A shard is loaded."""
        if isinstance(machine, RegistryMachine):
            self._machine = machine

    def hide(self) -> None:
        """The shard was dropped."""
        self._machine = None
