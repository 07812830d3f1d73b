"""Whether the node serves, and how many clients it serves: asked by health and metrics, known by the front-ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from goqueue.security.service import Security


class Serving:
    """From the moment that every listener accepts until the first of them is about to stop."""

    def __init__(self) -> None:
        self.is_on = False
        self._counts: list[Callable[[], int]] = []
        # There when security is on; the metrics ask.
        self.security: Security | None = None
        self._days: list[Callable[[], float]] = []

    def count(self, clients: Callable[[], int]) -> None:
        """A server whose clients count."""
        self._counts.append(clients)

    def connections(self) -> int:
        """The clients of all servers together."""
        return sum(clients() for clients in self._counts)

    def watch_certificate(self, days: Callable[[], float]) -> None:
        """With TLS: who knows when a certificate of the node expires."""
        self._days.append(days)

    def certificate_days(self) -> float | None:
        """Days until the first of them expires; None without TLS."""
        return min((days() for days in self._days), default=None)

    def begin(self) -> None:
        """Every listener accepts."""
        self.is_on = True

    def end(self) -> None:
        """They are about to stop."""
        self.is_on = False
