"""The metrics page, whose library is imported when somebody first asks for it: every start would wait for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class MetricsPage:
    """Called for the page. Its arguments are those of `Metrics`."""

    def __init__(self, **parts: Any) -> None:
        self._parts = parts
        # Set once there is a server whose connections can be counted.
        self.connections: Callable[[], int] = int

    async def __call__(self) -> bytes:
        """The page, in Prometheus' text format."""
        from goqueue.node.metrics import Metrics

        return await Metrics(connections=self.connections, **self._parts)()
