"""Whether the node serves, and how many clients it serves: asked by health and metrics, known by the front-ends."""

from __future__ import annotations

from collections.abc import Callable


class Serving:
    """From the moment that every listener accepts until the first of them is about to stop."""

    def __init__(self) -> None:
        self.is_on = False
        self._counts: list[Callable[[], int]] = []
        self._days: Callable[[], float] | None = None

    def count(self, clients: Callable[[], int]) -> None:
        """A server whose clients count."""
        self._counts.append(clients)

    def connections(self) -> int:
        """The clients of all servers together."""
        return sum(clients() for clients in self._counts)

    def watch_certificate(self, days: Callable[[], float]) -> None:
        """With TLS: who knows when the certificate of the node expires."""
        self._days = days

    def certificate_days(self) -> float | None:
        """Days until then; None without TLS."""
        return None if self._days is None else self._days()

    def begin(self) -> None:
        """Every listener accepts."""
        self.is_on = True

    def end(self) -> None:
        """They are about to stop."""
        self.is_on = False
