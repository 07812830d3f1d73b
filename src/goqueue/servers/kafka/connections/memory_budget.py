"""How much memory the requests of all connections together may take.

Requests that do not fit wait: their connections stop reading until others are done. Answers
are counted elsewhere, together with those of other front-ends (`broker/reading/answer_budget.py`).
"""

from __future__ import annotations

from typing import Protocol


class Holder(Protocol):
    """A connection, as far as the budget knows it."""

    def go_on(self) -> None:
        """There is room again."""
        ...


class MemoryBudget:
    """Counts the bytes of requests for all connections of one server."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._request_bytes = 0
        # In the order of arrival. The first may always read on: if all waited for each
        # other's half-read requests, none would ever be finished and let go.
        self._waiting: dict[Holder, None] = {}

    @property
    def request_bytes(self) -> int:
        """Bytes of requests being read or worked on."""
        return self._request_bytes

    def take(self, size: int) -> None:
        """Count bytes of a request that is being read or worked on."""
        self._request_bytes += size

    def give_back(self, size: int) -> None:
        """The request is answered; those who waited may look again."""
        self._request_bytes -= size
        if self._waiting and not self._is_full():
            waiting, self._waiting = self._waiting, {}
            for holder in waiting:
                holder.go_on()

    def may_read(self, holder: Holder) -> bool:
        """Whether to read on now. If not, `go_on` is called when it is worth asking again."""
        if not self._is_full():
            self._waiting.pop(holder, None)
            return True
        self._waiting.setdefault(holder)
        return next(iter(self._waiting)) is holder

    def leave_line(self, holder: Holder) -> None:
        """It has read a whole request: if it was the first in line, now the next one is."""
        was_first = next(iter(self._waiting), None) is holder
        self._waiting.pop(holder, None)
        if was_first and self._waiting:
            next(iter(self._waiting)).go_on()

    def forget(self, holder: Holder) -> None:
        """The connection is gone."""
        self.leave_line(holder)

    def _is_full(self) -> bool:
        return self._request_bytes >= self._bytes_max
