"""What one step of a machine leads to, while it is being worked out.

Also the names of the alarms that steps set: each is one deadline of one group or member.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import NamedTuple

from goqueue.coordinator.shard import Decision, Record, Reply, Transaction
from goqueue.groups.deadlines import Deadlines
from goqueue.groups.records import KEYS, VALUES, Key, Value


class Alarm(Enum):
    """Why a deadline was set."""

    # A member has not been heard of; or it was given an id and did not come back with it.
    SESSION = auto()
    # Members had time to join the next generation.
    JOIN = auto()
    # Members had time to ask for their assignment.
    SYNC = auto()
    # A member had time to give partitions up.
    REVOKE = auto()
    # Look for offsets that are too old.
    OFFSETS = auto()


class AlarmKey(NamedTuple):
    """One deadline."""

    alarm: Alarm
    group: str = ""
    member_id: str = ""


Alarms = Deadlines[AlarmKey]

# (group, member): a member of a queue group is out, and what it holds can be given to others.
Departed = Callable[[str, str], None]


def ignore_departure(_group: str, _member_id: str) -> None:
    """For a node that delivers nothing."""


class Outbox:
    """Records to write and replies to give, in order."""

    __slots__ = ("departed", "records", "replies", "transaction")

    def __init__(self) -> None:
        # Whose end the records wait for; None: they count at once.
        self.transaction: Transaction | None = None
        self.records: list[Record] = []
        self.replies: list[Reply] = []
        # Members that are out: whoever keeps something for them need not any longer.
        self.departed: list[tuple[str, str]] = []

    def write(self, key: Key, value: Value | None) -> None:
        """Store this; None deletes."""
        self.records.append((KEYS.encode(key), None if value is None else VALUES.encode(value)))

    def reply(self, ticket: int, answer: object) -> None:
        """Answer a ticket with a value or an error."""
        self.replies.append((ticket, answer))

    def depart(self, group: str, member_id: str) -> None:
        """A member is out, for whatever reason."""
        self.departed.append((group, member_id))

    def decision(self) -> Decision:
        """All of it, for whoever runs the machine."""
        return Decision(records=self.records, replies=self.replies, transaction=self.transaction)
