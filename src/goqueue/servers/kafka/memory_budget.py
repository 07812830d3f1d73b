"""How much memory all connections together may hold, in requests and in unread answers.

Requests that do not fit wait: their connections stop reading until others are done.
Answers that are written cannot wait any more: when too many lie unread, the connection
that has left the most unread is closed, and nobody is answered until its bytes are gone.
"""

from __future__ import annotations

from typing import Protocol


class Holder(Protocol):
    """A connection, as far as the budget knows it."""

    def go_on(self) -> None:
        """There is room again."""
        ...

    def evict(self) -> None:
        """Too much lies unread, and this one has left the most."""
        ...


class MemoryBudget:
    """Counts bytes for all connections of one server; the same limit holds for each direction."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._request_bytes = 0
        self._unread: dict[Holder, int] = {}
        self._unread_bytes = 0
        # Told to close, but their bytes are only free when they have.
        self._evicted: dict[Holder, int] = {}
        self._unanswered: dict[Holder, None] = {}
        # In the order of arrival. The first may always read on: if all waited for each
        # other's half-read requests, none would ever be finished and let go.
        self._waiting: dict[Holder, None] = {}

    @property
    def request_bytes(self) -> int:
        """Bytes of requests being read or worked on."""
        return self._request_bytes

    @property
    def unread_bytes(self) -> int:
        """Bytes of answers that clients have not taken yet."""
        return self._unread_bytes

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

    def may_answer(self, holder: Holder) -> bool:
        """Whether to work on a request now. If not, `go_on` is called when it is worth asking again."""
        if self._unread_bytes < self._bytes_max:
            return True
        self._unanswered.setdefault(holder)
        return False

    def set_unread(self, holder: Holder, size: int) -> None:
        """Note how much of its answers the holder has not taken yet."""
        if holder in self._evicted:
            return
        self._unread_bytes += size - self._unread.pop(holder, 0)
        if size:
            self._unread[holder] = size
        if self._unread and self._unread_bytes - sum(self._evicted.values()) >= self._bytes_max:
            slowest = max(self._unread, key=self._unread.__getitem__)
            self._evicted[slowest] = self._unread.pop(slowest)
            slowest.evict()
        self._answer_again()

    def forget(self, holder: Holder) -> None:
        """The connection is gone."""
        self._unread_bytes -= self._unread.pop(holder, 0) + self._evicted.pop(holder, 0)
        self._unanswered.pop(holder, None)
        self.leave_line(holder)
        self._answer_again()

    def _answer_again(self) -> None:
        if self._unanswered and self._unread_bytes < self._bytes_max:
            waiting, self._unanswered = self._unanswered, {}
            for holder in waiting:
                holder.go_on()

    def _is_full(self) -> bool:
        return self._request_bytes >= self._bytes_max
