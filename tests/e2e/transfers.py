"""Money moved between accounts in transactions, and the judge of what readers saw of it.

A transfer writes two records, one for each account, and counts wholly or not at all. What its
writer was told is in the history; `problems` says where the readers' view contradicts it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from goqueue.records import TopicPartition

ACCOUNTS, TOPICS, PARTITIONS = 20, 5, 2


class Outcome(Enum):
    """What the writer of a transfer knows of its end."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    # A commit was asked for, and no answer came.
    UNKNOWN = "unknown"


class Entry(NamedTuple):
    """One record: an account's part of a transfer."""

    transfer: str
    account: int
    amount: int

    def encode(self) -> bytes:
        return f"{self.transfer} {self.account} {self.amount}".encode()

    @classmethod
    def decode(cls, value: bytes) -> Entry:
        transfer, account, amount = value.decode().split()
        return cls(transfer, int(account), int(amount))


@dataclass
class Transfer:
    """What was to be written, and what became of it."""

    entries: tuple[Entry, Entry]
    outcome: Outcome


class History:
    """All transfers, by name; writers of many threads add to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.transfers: dict[str, Transfer] = {}

    def begin(self, name: str, payer: int, payee: int, amount: int) -> tuple[Entry, Entry]:
        """Note a transfer before it is written. Nobody has asked to commit it: it must not be seen."""
        entries = Entry(name, payer, -amount), Entry(name, payee, amount)
        with self._lock:
            self.transfers[name] = Transfer(entries, Outcome.ABORTED)
        return entries

    def note(self, name: str, outcome: Outcome) -> None:
        """What its writer knows now."""
        self.transfers[name].outcome = outcome

    def count(self, outcome: Outcome) -> int:
        """How many ended so."""
        with self._lock:
            return sum(one.outcome is outcome for one in self.transfers.values())


def place_of(account: int) -> TopicPartition:
    """Where the account's records lie."""
    return TopicPartition(f"accounts-{account % TOPICS}", account // TOPICS % PARTITIONS)


PLACES = sorted({place_of(account) for account in range(ACCOUNTS)})


def problems(transfers: Mapping[str, Transfer], seen: Mapping[TopicPartition, Sequence[Entry]]) -> list[str]:
    """Everything in the final view that the history does not allow."""
    found: list[str] = []
    counts: Counter[Entry] = Counter()
    for place, entries in seen.items():
        counts.update(entries)
        found += [f"{entry} lies in {place}" for entry in entries if place_of(entry.account) != place]
    known = {entry for transfer in transfers.values() for entry in transfer.entries}
    found += [f"{entry} was never written" for entry in counts if entry not in known]
    found += [f"{entry} is there {count} times" for entry, count in counts.items() if count > 1]
    for name, transfer in transfers.items():
        visible = [entry in counts for entry in transfer.entries]
        if any(visible) != all(visible):
            found.append(f"{name} is torn")
        elif transfer.outcome is Outcome.COMMITTED and not all(visible):
            found.append(f"{name} was committed and is lost")
        elif transfer.outcome is Outcome.ABORTED and any(visible):
            found.append(f"{name} was aborted and is read")
    if total := sum(entry.amount * count for entry, count in counts.items()):
        found.append(f"the sum has changed by {total}")
    return found


def changed(before: Sequence[Entry], after: Sequence[Entry], place: TopicPartition) -> list[str]:
    """A later view of a partition begins with the earlier one: what was read is never taken back or pushed aside."""
    if list(after[: len(before)]) == list(before):
        return []
    return [f"{place} showed {len(before)} entries, and later others in their place"]
