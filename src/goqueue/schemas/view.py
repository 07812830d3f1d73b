"""The registry as it is now, for those who cannot wait for an answer."""

from __future__ import annotations

from collections.abc import Callable

from goqueue.coordinator.shard import Machine
from goqueue.errors import CoordinatorUnavailable
from goqueue.schemas.following.mirror import RegistryMirror
from goqueue.schemas.machine import RegistryMachine
from goqueue.schemas.state import RegistryState


class RegistryView:
    """The tables of the shard that is loaded here, or in a cluster the copy of another node's."""

    def __init__(self, has_log: Callable[[], bool], on_switched: Callable[[], None]) -> None:
        self._has_log = has_log
        self._on_switched = on_switched
        self._machine: RegistryMachine | None = None
        self._empty = RegistryState()
        # In a cluster, set by the node.
        self.mirror: RegistryMirror | None = None

    @property
    def own(self) -> RegistryState | None:
        """The tables, if this node coordinates the registry; empty ones if nothing was ever registered."""
        if self._machine is not None:
            return self._machine.state
        return None if self._has_log() else self._empty

    @property
    def state(self) -> RegistryState | None:
        """The tables; None while there are some to load, or if the copy of them is too old."""
        return self.own or (None if self.mirror is None else self.mirror.state)

    @property
    def known(self) -> RegistryState | None:
        """The tables, even if they are too old to judge messages by; None if they were never loaded."""
        return self.own or (None if self.mirror is None else self.mirror.known)

    @property
    def may_be_behind(self) -> bool:
        """Whether another node may know more than this one."""
        return self.mirror is not None and self._machine is None

    @property
    def may_have_switches(self) -> bool:
        """Whether subjects may have switches that this node has not heard of yet."""
        return self.may_be_behind and self.mirror is not None and not self.mirror.is_unknown

    async def wait(self) -> None:
        """Wait for tables to judge by, where waiting can help; raises `CoordinatorUnavailable` if it did not."""
        if self.state is None and self.mirror is not None:
            await self.mirror.catch_up()
        if self.state is None:
            raise CoordinatorUnavailable("the schema registry is being loaded")

    async def catch_up(self) -> bool:
        """Know all that was registered before, on any node; returns whether that was news."""
        if not self.may_be_behind or self.mirror is None:
            return False
        before = self._version()
        await self.mirror.catch_up()
        await self.wait()
        return self._version() != before

    def show(self, _partition: int, machine: Machine) -> None:
        """A shard is loaded."""
        if isinstance(machine, RegistryMachine):
            self._machine = machine
            self._on_switched()

    def hide(self) -> None:
        """The shard was dropped."""
        self._machine = None
        self._on_switched()

    def _version(self) -> tuple[int, int]:
        state = self.state
        return id(state), -1 if state is None else state.changes
