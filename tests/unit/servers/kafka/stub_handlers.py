"""Handlers that do what a test tells them, under the keys of real APIs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from goqueue.servers.kafka.api import Api, Handler

HEARTBEAT = 12
METADATA = 3
API_VERSIONS = 18


def stub(key: int, versions: tuple[int, int], handle: Callable[[Any, Any], Any], **more: Any) -> dict[int, Handler]:
    """A registry of one handler."""
    return {key: SimpleNamespace(API=Api(key, f"Stub{key}", versions, **more), handle=handle)}  # type: ignore[dict-item]


class Slow:
    """A heartbeat handler that answers its n-th request when the test says so."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.answers: list[asyncio.Future[dict[str, Any]]] = []

    def __call__(self, context: Any, request: Any) -> Any:
        self.asked.append(request)
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self.answers.append(answer)
        return answer
