"""ClusterLoop: a simulated loop that several nodes share, of which each can be frozen or end on its own.

What runs for a node carries its life in the context, and tasks and callbacks inherit that. What a frozen life was to
do waits until it is thawed. What a life that is over was to do waits for the end of the test, where it is taken down.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from goqueue.testing.sim_loop import SimLoop

T = TypeVar("T")


class Life:
    """One run of one node, from its start until it is stopped or killed."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.is_over = False
        self.is_frozen = False
        # What was to be done while it was frozen, or over.
        self.held: list[_OfLife] = []


LIFE: contextvars.ContextVar[Life | None] = contextvars.ContextVar("life", default=None)


class _OfLife:
    """A callback of a life. Whoever cancels its handle cancels it also while it is held, and behind a thaw."""

    __slots__ = ("_args", "_callback", "_life", "context", "handle")

    def __init__(
        self, life: Life, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context
    ) -> None:
        self._life, self._callback, self._args = life, callback, args
        self.context = context
        self.handle: asyncio.Handle | None = None

    def __call__(self) -> None:
        if self._life.is_over or self._life.is_frozen:
            self._life.held.append(self)
            return
        # Each refers to the other: let go here, or the collector would have to find them all.
        handle, self.handle = self.handle, None
        if handle is None or not handle.cancelled():
            self._callback(*self._args)


class ClusterLoop(SimLoop):
    """Asks the life of every callback whether it may run."""

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """As the library's."""
        context = contextvars.copy_context() if context is None else context
        life = context.get(LIFE)
        if life is None:
            return super().call_soon(callback, *args, context=context)
        guarded = _OfLife(life, callback, args, context)
        guarded.handle = handle = super().call_soon(guarded, context=context)
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """As the library's."""
        context = contextvars.copy_context() if context is None else context
        life = context.get(LIFE)
        if life is None:
            return super().call_at(when, callback, *args, context=context)
        guarded = _OfLife(life, callback, args, context)
        guarded.handle = handle = super().call_at(when, guarded, context=context)
        return handle

    def thaw(self, life: Life) -> None:
        """Let a life go on where it was."""
        life.is_frozen = life.is_over = False
        held, life.held = life.held, []
        for one in held:
            super().call_soon(one, context=one.context)

    def start(self, life: Life, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run something as that node."""
        context = contextvars.copy_context()
        context.run(LIFE.set, life)
        return self.create_task(work, context=context)
