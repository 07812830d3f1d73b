"""Leader epochs: at which offset each leader of this partition began to write.

With this list a follower finds the offset up to which it agrees with its leader. The rules
are those of Kafka's LeaderEpochFileCache; the partition's checkpoint stores the entries.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple

UNDEFINED = -1


class EpochStart(NamedTuple):
    """The first offset written under an epoch, or the end of the log at which it began to lead."""

    epoch: int
    start_offset: int


class LeaderEpochs:
    """Epochs in rising order, their start offsets rising too."""

    __slots__ = ("_entries", "_latest", "_latest_start")

    def __init__(self) -> None:
        self._entries: list[EpochStart] = []
        self._latest = UNDEFINED
        self._latest_start = UNDEFINED

    @classmethod
    def from_entries(cls, entries: Iterable[tuple[int, int]]) -> LeaderEpochs:
        """The list that `entries` gave."""
        epochs = cls()
        for epoch, start_offset in entries:
            epochs.assign(epoch, start_offset)
        return epochs

    @property
    def latest(self) -> int:
        """The newest epoch that has begun, perhaps without a record; -1 if none has."""
        return self._latest

    def latest_below(self, log_end: int) -> int:
        """The newest epoch that has written anything below the end of the log; -1 if none has."""
        if self._latest_start < log_end:
            return self._latest
        above = bisect_left(self._entries, log_end, key=attrgetter("start_offset"))
        return self._entries[above - 1].epoch if above else UNDEFINED

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` writes at `start_offset`. True if that is news, so that it gets saved.

        Called for every batch: the usual answer is two comparisons away. Entries that the new
        one contradicts are dropped. A batch without an epoch (-1) tells us nothing.
        """
        if epoch == self._latest and start_offset >= self._latest_start:
            return False
        if epoch < 0 or start_offset < 0:
            return False
        entries = self._entries
        while entries and (entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset):
            entries.pop()
        entries.append(EpochStart(epoch, start_offset))
        self._note_latest()
        return True

    def end_offset_for(self, epoch: int, log_end: int) -> tuple[int, int]:
        """The largest epoch not above `epoch`, and the first offset behind it.

        (-1, -1) for no epoch and for one from the future. An epoch older than the list ends
        where the list begins: what it wrote is gone, and a follower must start from there.
        """
        if epoch < 0:
            return UNDEFINED, UNDEFINED
        if epoch == self._latest:
            return epoch, log_end
        above = bisect_right(self._entries, epoch, key=attrgetter("epoch"))
        if above == len(self._entries):
            return UNDEFINED, UNDEFINED
        end = self._entries[above].start_offset
        return (self._entries[above - 1].epoch if above else epoch), end

    def truncate_end(self, offset: int) -> bool:
        """The log now ends at `offset`: epochs that began there or later have written nothing."""
        kept = [entry for entry in self._entries if entry.start_offset < offset]
        return self._replace(kept)

    def truncate_start(self, offset: int) -> bool:
        """The log now starts at `offset`: the epoch that covers it begins there, older ones go."""
        covering = bisect_right(self._entries, offset, key=attrgetter("start_offset")) - 1
        if covering < 0:
            return False
        kept = [EpochStart(self._entries[covering].epoch, offset), *self._entries[covering + 1 :]]
        return self._replace(kept)

    def entries(self) -> list[EpochStart]:
        """A copy of the list, oldest first."""
        return list(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def _replace(self, entries: list[EpochStart]) -> bool:
        if entries == self._entries:
            return False
        self._entries = entries
        self._note_latest()
        return True

    def _note_latest(self) -> None:
        self._latest, self._latest_start = self._entries[-1] if self._entries else (UNDEFINED, UNDEFINED)
