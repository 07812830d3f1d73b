"""Is there an order of these operations that explains every answer, and in which none moves before another had ended?

The object is one topic name: it is there or not, with a number in its settings. After Wing and Gong: try every
operation that may come next, and remember where that led to nothing. An operation without an answer may have happened
at any time after it was sent, or never.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What was asked for."""

    CREATE = "create"
    DELETE = "delete"
    ALTER = "alter"
    # Done if the topic has that number.
    READ = "read"


class Outcome(Enum):
    """What was answered."""

    DONE = "done"
    # Created although it is there, or changed although it is not.
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Operation:
    """One operation of one client. Without an answer it has no end."""

    kind: Kind
    number: int
    outcome: Outcome
    began: float
    ended: float = math.inf


# The number in the topic's settings; None: there is no such topic.
State = int | None


def after(state: State, operation: Operation) -> tuple[bool, State]:
    """Whether the operation would be done in this state, and the state behind it."""
    if operation.kind is Kind.CREATE:
        return (True, operation.number) if state is None else (False, state)
    if operation.kind is Kind.READ:
        return state == operation.number, state
    if state is None:
        return False, None
    return (True, None) if operation.kind is Kind.DELETE else (True, operation.number)


def is_linearizable(history: Sequence[Operation]) -> bool:
    """Whether some order explains all answers."""
    operations = sorted(history, key=lambda one: one.began)
    needed = sum(1 << at for at, one in enumerate(operations) if one.outcome is not Outcome.UNKNOWN)
    dead: set[tuple[int, State]] = set()
    stack: list[tuple[int, State]] = [(0, None)]
    while stack:
        done, state = stack.pop()
        if done & needed == needed:
            return True
        if (done, state) in dead:
            continue
        dead.add((done, state))
        left = [at for at in range(len(operations)) if not done >> at & 1]
        # Nothing may come before an operation that had ended when it began.
        first_end = min(operations[at].ended for at in left)
        for at in left:
            one = operations[at]
            if one.began > first_end:
                break
            succeeds, following = after(state, one)
            if one.outcome is Outcome.UNKNOWN:
                # It happened here, or never: the latter is found by never choosing it.
                stack.append((done | 1 << at, following))
            elif succeeds is (one.outcome is Outcome.DONE):
                stack.append((done | 1 << at, following))
    return False
