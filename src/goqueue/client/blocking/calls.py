"""A blocking call made from an asynchronous one, with the same signature and docstring."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from goqueue.client.blocking.loop import BackgroundLoop

P = ParamSpec("P")
T = TypeVar("T")
Inner = TypeVar("Inner")


class Face(Protocol):
    """An object of the blocking client: the loop that does its work, and the asynchronous object behind it."""

    _loop: BackgroundLoop
    _inner: Any


class Blocking(Generic[Inner]):
    """A face without any calls of its own."""

    def __init__(self, loop: BackgroundLoop, inner: Inner) -> None:
        self._loop = loop
        self._inner = inner


def blocking(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """The call that waits for `method`. Editors and type checkers see the parameters of `method`."""

    @functools.wraps(method)
    def call(self: Face, /, *given: P.args, **named: P.kwargs) -> T:
        return self._loop.run(method(self._inner, *given, **named))

    return call


def iterating(method: Callable[Concatenate[Any, P], AsyncIterator[T]]) -> Callable[Concatenate[Any, P], Iterator[T]]:
    """The generator that waits for each item of `method`."""

    @functools.wraps(method)
    def call(self: Face, /, *given: P.args, **named: P.kwargs) -> Iterator[T]:
        items = aiter(method(self._inner, *given, **named))

        async def following() -> tuple[bool, T | None]:
            async for item in items:
                return True, item
            return False, None

        async def close() -> None:
            if (end := getattr(items, "aclose", None)) is not None:
                await end()

        try:
            while True:
                is_there, item = self._loop.run(following())
                if not is_there:
                    return
                yield item  # type: ignore[misc]  # it is there, and may be None
        finally:
            if not self._loop.closed:
                self._loop.run(close())

    return call
