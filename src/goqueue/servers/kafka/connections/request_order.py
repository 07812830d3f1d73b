"""Which requests of one connection are unanswered, and what may start beside them (`api.Order`)."""

from __future__ import annotations

from goqueue.servers.kafka.api import Order

# While one of these is unanswered, only what is named may start.
_BESIDE_COMMITS = frozenset({Order.WRITE, Order.COMMIT, Order.POLL})


class UnansweredRequests:
    """Counts of the unanswered requests of a connection. Polls are not counted: nothing waits for them."""

    __slots__ = ("_changes", "_commits", "_others")

    def __init__(self) -> None:
        self._changes = 0
        self._commits = 0
        self._others = 0

    @property
    def is_empty(self) -> bool:
        """Whether anything may start."""
        return not (self._others or self._commits or self._changes)

    def may_start(self, order: Order) -> bool:
        """Whether a request of this order sees all that the unanswered ones do."""
        if self._changes:
            return False
        if order is Order.CHANGE:
            return self.is_empty
        return not self._commits or order in _BESIDE_COMMITS

    def add(self, order: Order) -> None:
        """A request could not be answered at once."""
        self._count(order, 1)

    def remove(self, order: Order) -> None:
        """It is answered."""
        self._count(order, -1)

    def _count(self, order: Order, step: int) -> None:
        if order is Order.CHANGE or order is Order.CREATING_READ:
            self._changes += step
        elif order is Order.COMMIT:
            self._commits += step
        elif order is not Order.POLL:
            self._others += step
